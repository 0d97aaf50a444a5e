"""How far a call travels through our code: calls of Python functions, which do not waver as times do.

A bound here is what the way of a call costs today. Who makes it cheaper lowers it.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from types import FrameType
from typing import Any

from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.dataplane.raw_socket import RawSocket, frame
from tests.support.fleet import gated_nodes
from tests.support.proxy import Proxy, proxying

MOST_OF_A_MISS = 75
"""Function calls of a lone read that no tier has; wanted: 45."""
MOST_FILES = 35
"""Files that these calls are in; wanted: 15."""
MOST_CHANGES = 64
"""Calls whose file is another one than that of the call before; wanted: 35."""
MOST_OBJECTS = 5
"""Objects of ours that the garbage collector looks through for each call that waits for a node."""
MOST_OF_A_HIT = 8
MOST_OF_A_MESSAGE = 28
"""Function calls of a hit that is asked for over a WebSocket."""
WARM = 60
"""Calls before those that are counted: what is made once for a method, a head or a second."""


class Counted:
    """The functions of the data plane and the core that are called while it is on."""

    def __init__(self) -> None:
        self.files: list[str] = []

    def __enter__(self) -> Counted:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _argument: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and any(f"/rpcaccel/{part}/" in name for part in ("core", "dataplane", "balancers")):
            self.files.append(name)


async def count(proxy: Proxy, body: Callable[[int], bytes]) -> Counted:
    """What the cheapest of several calls, one after the other on one connection, went through."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.worker.port)
    counts = []
    for number in range(WARM + 8):
        text = body(number)
        with Counted() as counted:
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))
            head = await reader.readuntil(b"\r\n\r\n")
            (length,) = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-len")]
            assert b'"result"' in await reader.readexactly(int(length))
        counts.append(counted)
    writer.close()
    return min(counts[WARM:], key=lambda one: len(one.files))


async def test_a_miss_goes_no_longer_way_than_it_did() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        found = await count(
            proxy, lambda n: b'{"id":1,"method":"eth_getTransactionCount","params":["0x%040x","0x10"]}' % n
        )
    assert len(found.files) <= MOST_OF_A_MISS
    assert len(set(found.files)) <= MOST_FILES
    assert sum(one != other for one, other in pairwise(found.files)) <= MOST_CHANGES


async def test_a_call_that_waits_is_few_objects() -> None:
    async with gated_nodes() as nodes, proxying(nodes) as proxy:
        await proxy.call("eth_getTransactionCount", "0x" + "a5" * 20, "0x10")
        nodes[0].hold("eth_getTransactionCount")
        before = objects_of_a_call()
        waiting = asyncio.create_task(proxy.call("eth_getTransactionCount", "0x" + "a6" * 20, "0x10"))
        await nodes[0].arrived.wait()
        more = objects_of_a_call() - before
        del more["ConnectTrace"]  # there is one where the pool had the connection back by then
        nodes[0].release()
        await waiting
    assert more.total() <= MOST_OBJECTS, more


def objects_of_a_call() -> Counter[str]:
    """The objects of the way of a call that the garbage collector knows, by their class."""
    gc.collect()
    ways = ("core.dispatch.", "core.plan.", "dataplane.engine.", "dataplane.http.", "dataplane.rpc.")
    ours = tuple(f"rpcaccel.{way}" for way in (*ways, "dataplane.upstream."))
    return Counter(type(one).__qualname__ for one in gc.get_objects() if type(one).__module__.startswith(ours))


async def test_a_hit_goes_the_short_way() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        found = await count(
            proxy, lambda _: b'{"id":1,"method":"eth_getTransactionCount","params":["0x%040x","0x10"]}' % 7
        )
    assert len(found.files) <= MOST_OF_A_HIT


async def test_a_hit_over_a_websocket_goes_the_short_way_too() -> None:
    async with (
        harmony_nodes(1) as nodes,
        proxying(nodes) as proxy,
        RawSocket.open(proxy.worker.port) as client,
    ):
        body, counts = b'{"id":1,"method":"eth_getTransactionCount","params":["0x%040x","0x10"]}' % 7, []
        for _ in range(WARM + 8):
            with Counted() as counted:
                client.send(frame(body))
                assert b'"result"' in (await client.got()).payload
            counts.append(len(counted.files))
    assert min(counts[WARM:]) <= MOST_OF_A_MESSAGE
