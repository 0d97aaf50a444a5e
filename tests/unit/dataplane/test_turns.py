"""How much of one client's or one node's text the event loop works through at once: calls of functions, which do not
waver as times do. A text that were read in one turn would take some times as many as are allowed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType
from typing import Any

import orjson

from rpcaccel.simnode.server.envelope import Parsed
from rpcaccel.simnode.server.factories import harmony_chain, harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.nesting import refused
from tests.support.proxy import Proxy, proxying

MOST = 10_000
"""Calls of functions of ours in one turn: in half a millisecond, no machine makes so many while they are counted."""
LOGS = 20_000


class Telling(SimNode):
    """A node that answers one method with a given result, as JSON text."""

    method: str
    result: bytes

    async def answer(self, parsed: Parsed) -> bytes:
        if not any(call.method == self.method for call in parsed.calls):
            return await super().answer(parsed)
        (call,) = parsed.calls
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (call.id or b"null", self.result)


@asynccontextmanager
async def before(method: str, result: bytes, **more: Any) -> AsyncIterator[Proxy]:
    """A proxy before a node that tells this result."""
    node = Telling(harmony_chain(6000), name="node-0")
    node.method, node.result = method, result
    async with node, proxying([node], **more) as proxy:
        yield proxy


class Turns:
    """Counts the calls of our functions by turns of the loop."""

    def __init__(self) -> None:
        self.most = 0
        self._count = 0

    def note(self, frame: FrameType, event: str, _argument: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and any(f"/rpcaccel/{part}/" in name for part in ("core", "dataplane", "balancers")):
            self._count += 1

    def over(self) -> None:
        self.most, self._count = max(self.most, self._count), 0


@contextmanager
def counted() -> Iterator[Turns]:
    """Count while the block runs: a chain of callbacks, one in each turn of the loop, tells the turns apart."""
    turns, loop = Turns(), asyncio.get_running_loop()
    counting = True

    def turn() -> None:
        turns.over()
        if counting:
            loop.call_soon(turn)

    loop.call_soon(turn)
    sys.setprofile(turns.note)
    try:
        yield turns
    finally:
        sys.setprofile(None)
        counting = False
        turns.over()


def logs(first: int, last: int) -> bytes:
    each = LOGS // (last + 1 - first)
    texts = (b'{"blockNumber":"0x%x","logIndex":"0x0"}' % block for block in range(first, last + 1))
    return b"[%b]" % b",".join(b",".join([text] * each) for text in texts)


async def test_a_wide_range_of_logs_is_shared_out_and_cut_in_turns() -> None:
    async with before("eth_getLogs", logs(0, 1023)) as proxy:
        with counted() as turns:
            reply = await proxy.call("eth_getLogs", {"fromBlock": "0x0", "toBlock": hex(1023)})
        assert len(reply.result) == len(range(1024)) * (LOGS // 1024)
        assert turns.most <= MOST
        with counted() as turns:
            again = await proxy.call("eth_getLogs", {"fromBlock": hex(100), "toBlock": hex(900)})
        assert again.cache == "memory"
        assert len(again.result) == len(range(100, 901)) * (LOGS // 1024)
        assert turns.most <= MOST


@refused(10_000)
async def test_an_answer_that_nests_deeply_is_followed_in_turns() -> None:
    result = b'{"calls":[' * 10_000 + b"]}" * 10_000
    async with before("debug_traceTransaction", result) as proxy:
        with counted() as turns:
            reply = await proxy.call("debug_traceTransaction", "0x" + "a5" * 32)
        assert result in reply.body
        assert turns.most <= MOST


async def test_many_who_wait_for_one_answer_are_told_in_turns() -> None:
    item = {"id": 1, "method": "hmyv2_getBlockByNumber", "params": [26, {}]}
    async with harmony_nodes(1, latency="100ms") as nodes, proxying(nodes, http={"batch_at_once": 1000}) as proxy:
        batches = [orjson.dumps([item] * 1000) for _ in range(5)]
        with counted() as turns:
            replies = await asyncio.gather(*map(proxy.post, batches))
        assert [len(reply.json) for reply in replies] == [1000] * 5
        assert proxy.asked("hmyv2_getBlockByNumber") == 1
        assert turns.most <= MOST


async def test_a_new_head_looks_through_the_calls_that_are_asked_most_in_turns() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, net={"refresh": 1.0}) as proxy:
        spellings = []
        for zeros in range(15):
            params = ([f"0x{'0' * zeros}{number:x}", False] for number in range(200))
            calls = [{"id": 1, "method": "eth_getBlockByNumber", "params": two} for two in params]
            spellings.append(orjson.dumps(calls))
        for body in spellings * 3:
            await proxy.post(body)
        nodes[0].chain.advance()
        with counted() as turns:
            proxy.see()
            await proxy.call("eth_chainId")
        assert turns.most <= MOST
