"""The cache tiers as clients see them: memory alone, with Redis, and with a Redis that hangs, dies and comes back."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
import pytest_asyncio

from rpcaccel.simnode.server.factories import harmony_chain, harmony_nodes
from tests.support import waiting
from tests.support.fixtures import shared
from tests.support.fleet import STEADY, Fleet, GatedNode, fleet_of
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


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def _on_redis(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Fleet, RedisServer]]:
    chain = harmony_chain(4000)
    with RedisServer(tmp_path_factory.mktemp("redis")) as redis:
        nodes = [GatedNode(chain, name=name) for name in ("node-0", "node-1")]
        async with fleet_of(nodes, "--redis", redis.url) as fleet:
            yield fleet, redis


@shared
async def on_redis(_on_redis: tuple[Fleet, RedisServer]) -> tuple[Running, RedisServer]:
    """A program over two nodes, and its Redis, which is there; tests ask about blocks that no other asks about."""
    fleet, redis = _on_redis
    await fleet.fresh()
    await until("Redis in use", lambda: up(fleet.proxy))
    return fleet.proxy, redis


async def up(proxy: Running) -> bool:
    return (await proxy.metrics()).sum("rpcaccel_tier_up", tier="redis") == 1


async def test_a_redis_killed_under_load_costs_no_call_and_comes_back(on_redis: tuple[Running, RedisServer]) -> None:
    proxy, redis = on_redis
    before = len(proxy.program.output)
    replies: list[Reply] = []

    async def kill_it() -> None:
        await waiting.until(lambda: len(replies) >= 200)
        await asyncio.to_thread(redis.kill)

    killing = asyncio.create_task(kill_it())
    await proxy.load(about(range(1001, 1601)), into=replies)
    await killing
    assert sources(replies) == {"miss": 600}
    assert sources(await proxy.load(about(range(1001, 1601)))) == {"memory": 600}

    def said() -> list[str]:
        return re.findall(r"redis is (not reached[^;\n]*|reached again)", proxy.program.output[before:])

    async def noticed() -> bool:  # page and log look once a second: a loss that ends sooner is in neither
        shown = "redis" in str((await proxy.api("overview"))["attention"])
        return not await up(proxy) and shown and "".join(said()[-1:]).startswith("not reached")

    await until("Redis known to be gone", noticed)
    await asyncio.to_thread(redis.restart)

    async def back() -> bool:
        await proxy.load(about(range(first := 2000 + len(replies) % 1900, first + 10)), into=replies)
        return await up(proxy)

    await until("Redis in use again", back)

    async def told() -> bool:
        return said()[-1:] == ["reached again"]

    await until("the log says so", told)
    # Once for each loss and each reason: on a busy machine it may be lost, and found, several times.
    assert [line for line, following in pairwise(said()) if line == following] == []
    assert "has no maxmemory" in proxy.program.output
    assert all("result" in reply.json for reply in replies)
