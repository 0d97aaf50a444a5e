"""What only a worker in a process of its own can do: not come up, die. What every worker does is in test_link.py."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.workers.link import GONE
from rpcaccel.controlplane.workers.process_link import ProcessLink, spawn
from rpcaccel.controlplane.workers.sockets import bind
from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.heads.recent_writes import Sent
from rpcaccel.core.messages import Hint
from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.proxy import settings_for

HINTS: list[Any] = []


@pytest.fixture
async def nodes() -> Any:
    async with harmony_nodes(1) as started:
        yield started


def of_no_chain(good: Settings) -> Settings:
    """Settings that no worker can adopt, as only a fault of ours would let them come to one."""
    networks = {name: one.model_copy(update={"chain": "nowhere"}) for name, one in good.networks.items()}
    return good.model_copy(update={"networks": networks})


async def test_a_worker_that_does_not_come_up_is_an_error_not_a_wait(nodes: list[SimNode]) -> None:
    sock = bind("127.0.0.1:0", "listen")
    link = ProcessLink("w1", sock, HINTS.append)
    broken = of_no_chain(settings_for(nodes))
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
    broken = of_no_chain(settings_for(nodes))
    assert await link.adopt(broken, 2) != ""
    assert await link.adopt(settings_for(nodes), 3) == ""
    await link.drain(0.1)
    assert await link.ended() == "ended with exit code 0"
