"""A batch of a thousand calls takes turns with everybody else."""

from __future__ import annotations

import asyncio
import time

import orjson

from rpcaccel.dataplane.http.aiohttp_server import MAX_PART_BYTES
from rpcaccel.dataplane.http.fast_protocol import RequestState
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.dataplane.conversation import HEAD, Conversation, call
from tests.support.proxy import proxying
from tests.support.waiting import until

BLOCK = "hmyv2_getBlockByNumber"


async def test_single_hits_are_answered_while_batches_of_misses_wait_for_nodes() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy, Conversation.open(proxy.worker.port) as single:
        await proxy.call(BLOCK, 26, {})
        nodes[0].knobs.turn({"latency": "20ms"})
        items = [{"id": n, "method": "hmyv2_getBalance", "params": [f"0x{n:040x}"]} for n in range(1000)]
        batches = [asyncio.create_task(proxy.post(orjson.dumps(items))) for _ in range(2)]
        answered = 0
        while not all(batch.done() for batch in batches):
            single.send(call(answered, BLOCK, params=[26, {}]))
            assert (await single.answer()).json["id"] == answered
            answered += 1
        assert answered > 20
        for batch in batches:
            assert [reply["id"] for reply in batch.result().json] == list(range(1000))


async def test_a_batch_of_hits_holds_the_loop_for_a_fraction_of_its_work() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, http={"max_batch": 5000}) as proxy:
        await proxy.call(BLOCK, 26, {})
        items = [{"id": n, "method": BLOCK, "params": [26, {}]} for n in range(5000)]
        route = proxy.worker._front.routes["/"]
        # Time of this thread alone, one part of it against another: what other programs do meanwhile does not count.
        batch = asyncio.create_task(proxy.worker._calls.answer(orjson.dumps(items), route))
        holds, started = [], time.thread_time()
        last = started
        while not batch.done():
            await asyncio.sleep(0)
            now = time.thread_time()
            holds.append(now - last)
            last = now
        whole = last - started
        assert len(holds) > 10
        assert sorted(holds)[len(holds) // 2] < whole / 10


async def test_a_large_body_that_comes_in_parts_is_not_put_together_anew_for_each_part() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy, Conversation.open(proxy.worker.port) as drip:
        for size in (1000, MAX_PART_BYTES + 1):
            drip.send(HEAD + b"Content-Length: %d\r\n\r\n" % (size + 2) + b" " * size)
            state = RequestState.BODY if size < MAX_PART_BYTES else RequestState.GIVEN
            await until(
                lambda state=state: any(one.state is state and one.body_since for one in proxy.worker._lanes.open)
            )
            for _ in range(2):
                drip.send(b" ")
                await asyncio.sleep(0)
            assert (await drip.answer()).json["error"]["code"] == -32700
