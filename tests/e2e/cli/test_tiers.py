"""What one proxy learnt another finds in Redis."""

from __future__ import annotations

from collections import Counter

import pytest

from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.fleet import STEADY
from tests.support.proxy import Reply
from tests.support.running import PATIENT, Running, Serve, until
from tests.support.services import RedisServer

COUNT = "hmyv2_getBlockTransactionCountByNumber"


def about(numbers: range) -> list[tuple[str, list[int]]]:
    return [(COUNT, [number]) for number in numbers]


def sources(replies: list[Reply]) -> dict[str, int]:
    assert all("result" in reply.json for reply in replies)
    return dict(Counter(reply.cache for reply in replies))


async def stored(proxy: Running, entries: int) -> None:
    """Wait until Redis has been written to: that happens behind the calls' backs."""

    async def holds() -> bool:
        return (await proxy.metrics()).sum("rpcaccel_tier_stored_total", tier="redis") >= entries

    await until(f"{entries} entries in Redis", holds)


@pytest.mark.smoke
async def test_what_one_proxy_learnt_another_finds_in_redis_also_what_it_learnt_just_before_its_end(
    serve: Serve, redis_server: RedisServer
) -> None:
    async with harmony_nodes(2) as nodes:
        one = await serve(nodes, "--redis", redis_server.url, env=PATIENT | STEADY)
        first = await one.load(about(range(1, 41)), at_once=1)
        blocks = await one.call("hmyv2_getBlocks", 1, 30, {"fullTx": True})
        await stored(one, 41)
        other = await serve(nodes, "--redis", redis_server.url, env=PATIENT | STEADY)
        again = await other.load(about(range(1, 41)), at_once=1)
        assert sources(again) == {"redis": 40}
        assert [reply.result for reply in again] == [reply.result for reply in first]
        large = await other.call("hmyv2_getBlocks", 1, 30, {"fullTx": True}, id="x")
        assert (large.cache, large.result) == ("redis", blocks.result)
        assert sum(node.counts.asked(COUNT) for node in nodes) == 40
        assert sources(await other.load(about(range(1, 41)))) == {"memory": 40}
        await one.load(about(range(41, 61)))
        assert await one.end() == 0  # what was not yet written is written before it ends
        assert sources(await other.load(about(range(41, 61)))) == {"redis": 20}
