"""What only a worker in a process of its own can do: not come up, talk nonsense, die. The rest is in test_link.py."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from rpcaccel.controlplane.workers.link import GONE, Link
from rpcaccel.controlplane.workers.process_link import Born, ProcessLink, Spawn, spawn
from rpcaccel.controlplane.workers.sockets import bind
from rpcaccel.controlplane.workers.workers import Workers
from rpcaccel.core import messages
from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.heads.recent_writes import Sent
from rpcaccel.core.messages import Drain, Hint
from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.proxy import settings_for
from tests.support.sample_control import sample_settings
from tests.support.waiting import until

HINTS: list[Any] = []


@pytest.fixture
async def nodes() -> Any:
    async with harmony_nodes(1) as started:
        yield started


async def test_a_worker_that_does_not_come_up_is_an_error_not_a_wait(nodes: list[SimNode]) -> None:
    sock = bind("127.0.0.1:0", "listen")
    link = ProcessLink("w1", sock, HINTS.append)
    broken = settings_for(nodes).model_copy(update={"networks": {}})
    with pytest.raises(RuntimeError, match="w1 ended before it listened"):
        await link.start(broken, 1)


async def test_a_worker_that_is_killed_says_how_it_ended_and_keeps_nobody_waiting(nodes: list[SimNode]) -> None:
    link = ProcessLink("w1", bind("127.0.0.1:0", "listen"), HINTS.append)
    assert await link.ended() == "was never started"
    await link.start(settings_for(nodes), 1)
    assert link.pid not in (0, os.getpid())
    os.kill(link.pid, signal.SIGSTOP)
    adopting = asyncio.create_task(link.adopt(settings_for(nodes), 2))
    await asyncio.sleep(0)
    os.kill(link.pid, signal.SIGKILL)
    assert await link.ended() == "was killed by SIGKILL"
    assert await adopting == GONE
    assert await link.adopt(settings_for(nodes), 3) == GONE
    assert not (await link.purge(Selection())).complete
    await link.drain(0.1)


async def test_one_that_cannot_be_started_leaves_nothing_open() -> None:
    # A socket that is left open is a warning, and a warning is a fault.
    closed = socket.socket()
    closed.close()
    with pytest.raises((OSError, ValueError)):
        await spawn("w1", closed)
    gc.collect()


# In the place of a worker: says the first words at the order to adopt, and the others at whatever comes next. Ends with
# whoever started it, also when that is killed.
PRETENDER = """
import os, socket, sys, time
from rpcaccel.core.messages import Adopt, FrameReader, Order, Started, encode
started_by = os.getppid()
link, first, then = socket.socket(fileno=int(sys.argv[1])), *map(bytes.fromhex, sys.argv[2:4])
orders, found = FrameReader(Order), None
while not found:
    found = next((order for order in orders.feed(link.recv(65536) or sys.exit()) if isinstance(order, Adopt)), None)
link.sendall(first or encode(Started(1, found.number)))
link.recv(1)
link.sendall(then)
link.close() if not then else None
while os.getppid() == started_by:
    time.sleep(1)
"""
MALFORMED = [
    pytest.param(b"\xff" * 8, "a frame of 4294967295 bytes", id="too long"),
    pytest.param(b"\0\0\0\1\xc1", "malformed", id="no MessagePack"),
    pytest.param(messages.encode(Drain(1.0)), "Drain", id="no word of a worker"),
]


def pretender(first: bytes = b"", then: bytes = b"") -> Spawn:
    """Starts a process that is no worker; it says `first`, or that it listens, and `then` at the next order."""

    async def start(_name: str, _sock: socket.socket) -> Born:
        ours, theirs = socket.socketpair()
        with theirs:
            words = first.hex(), then.hex()
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", PRETENDER, str(theirs.fileno()), *words, pass_fds=[theirs.fileno()]
            )
        return Born(process, *await asyncio.open_connection(sock=ours))

    return start


def linked(spawn: Spawn, end_within: float = 5.0) -> ProcessLink:
    return ProcessLink("w1", bind("127.0.0.1:0", "listen"), HINTS.append, spawn=spawn, end_within=end_within)


@pytest.mark.parametrize(("frame", "why"), MALFORMED)
async def test_one_whose_words_cannot_be_understood_is_ended_and_keeps_nobody_waiting(frame: bytes, why: str) -> None:
    link = linked(pretender(then=frame))
    await link.start(sample_settings(), 1)
    asked = (
        asyncio.create_task(link.adopt(sample_settings(), 2)),
        asyncio.create_task(link.purge(Selection())),
        asyncio.create_task(link.explain("", "eth_chainId", b"[]")),
        asyncio.create_task(link.record(1.0)),
    )
    async with asyncio.timeout(20):
        adopted, purged, explained, recorded = await asyncio.gather(*asked)
        how = await link.ended()
    assert (adopted, purged.complete, explained, recorded.calls) == (GONE, False, None, ())
    assert how.startswith("said what cannot be understood (")
    assert how.endswith(") and was ended")
    assert why in how
    await link.drain(0.1)


async def test_one_whose_first_word_cannot_be_understood_does_not_come_up() -> None:
    link = linked(pretender(first=b"\xff" * 8))
    async with asyncio.timeout(20):
        with pytest.raises(RuntimeError, match="worker w1 said what cannot be understood"):
            await link.start(sample_settings(), 1)


async def test_one_that_ends_its_link_and_stays_is_ended_too() -> None:
    link = linked(pretender(), end_within=0.05)
    await link.start(sample_settings(), 1)
    async with asyncio.timeout(20):
        assert not (await link.purge(Selection())).complete
        assert await link.ended() == "ended its link alone and was ended"


async def test_one_that_cannot_be_understood_is_replaced_and_the_log_says_why(nodes: list[SimNode]) -> None:
    spawns = [spawn, pretender(then=b"\xff" * 8)]

    def make(name: str, sock: socket.socket) -> Link:
        return ProcessLink(name, sock, HINTS.append, spawn=spawns.pop())

    workers = Workers(make, [])
    workers.own([bind("127.0.0.1:0", "listen")])
    await workers.start(settings_for(nodes), 1)
    with capture_logs() as lines:
        assert await workers.adopt(settings_for(nodes), 2) == ""
        await until(lambda: workers.replaced)
    assert [line["event"] for line in lines] == ["a worker ended and is being replaced"]
    assert "said what cannot be understood (a frame of 4294967295 bytes" in lines[0]["how"]
    assert [(state.state, state.revision) for state in workers.states()] == [("serving", 2)]
    await workers.stop(0.1)


async def test_neither_news_that_nobody_can_use_nor_what_it_cannot_adopt_ends_a_worker(nodes: list[SimNode]) -> None:
    def fail(hint: Hint | Sent) -> None:
        raise KeyError(hint)

    link = ProcessLink("w1", bind("127.0.0.1:0", "listen"), fail)
    port = await link.start(settings_for(nodes), 1)
    with capture_logs() as lines:
        async with aiohttp.ClientSession() as http, asyncio.timeout(20):
            while not lines:
                body = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_getNodeMetadata", "params": []}
                await (await http.post(f"http://127.0.0.1:{port}/", json=body)).read()
    assert lines[0]["event"] == "what a worker said is not passed on"
    broken = settings_for(nodes).model_copy(update={"networks": {}})
    assert await link.adopt(broken, 2) != ""
    assert await link.adopt(settings_for(nodes), 3) == ""
    await link.drain(0.1)
    assert await link.ended() == "ended with exit code 0"
