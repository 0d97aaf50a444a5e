"""The cache tiers as clients see them: memory alone, with Redis, and with a Redis that hangs, dies and comes back."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest

from rpcaccel.core.memo import LEAST
from rpcaccel.testing.factories import harmony_nodes
from tests.e2e.conftest import Serve
from tests.e2e.running import PATIENT, Running, until
from tests.proxy import Reply
from tests.services import START_SECONDS, Redis

pytestmark = pytest.mark.e2e

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


async def test_memory_alone_serves_hits_and_stays_within_its_bytes(serve: Serve) -> None:
    async with harmony_nodes(1, head=2000) as nodes:
        proxy = await serve(nodes, "--memory", "100KB")
        assert sources(await proxy.load(about(range(1, 51)))) == {"miss": 50}
        assert sources(await proxy.load(about(range(1, 51)))) == {"memory": 50}
        await proxy.load(about(range(51, 1001)))
        told = await proxy.metrics()
        limit = told.sum("rpcaccel_tier_limit_bytes", tier="memory")
        assert limit == 90_000 + LEAST  # so small a cache has a tenth less, and what remembering calls takes at least
        assert 50_000 < told.sum("rpcaccel_tier_bytes", tier="memory") <= limit
        assert told.sum("rpcaccel_tier_removed_total", tier="memory", reason="evicted") > 100
        assert not any(sample.labels.get("tier") == "redis" for sample in told.samples)


async def test_what_one_proxy_learnt_another_finds_in_redis(serve: Serve, redis_server: Redis) -> None:
    async with harmony_nodes(2) as nodes:
        one = await serve(nodes, "--redis", redis_server.url)
        first = await one.load(about(range(1, 41)), at_once=1)
        blocks = await one.call("hmyv2_getBlocks", 1, 30, {"fullTx": True})
        await stored(one, 41)
        other = await serve(nodes, "--redis", redis_server.url, env=PATIENT)
        again = await other.load(about(range(1, 41)), at_once=1)
        assert sources(again) == {"redis": 40}
        assert [reply.result for reply in again] == [reply.result for reply in first]
        large = await other.call("hmyv2_getBlocks", 1, 30, {"fullTx": True}, id="x")
        assert (large.cache, large.result) == ("redis", blocks.result)
        assert sum(node.counts.asked(COUNT) for node in nodes) == 40
        assert sources(await other.load(about(range(1, 41)))) == {"memory": 40}


async def test_a_restarted_proxy_starts_warm(serve: Serve, redis_server: Redis) -> None:
    async with harmony_nodes(1) as nodes:
        proxy = await serve(nodes, "--redis", redis_server.url)
        await proxy.load(about(range(1, 21)))
        assert await proxy.end() == 0  # what was not yet written is written before it ends
        again = await serve(nodes, "--redis", redis_server.url, env=PATIENT)
        assert sources(await again.load(about(range(1, 21)))) == {"redis": 20}


async def test_a_redis_killed_under_load_costs_no_call_and_comes_back(
    serve: Serve, new_redis: Callable[..., Redis]
) -> None:
    redis = new_redis()
    async with harmony_nodes(2, head=4000) as nodes:
        proxy = await serve(nodes, "--redis", redis.url, measured=False)
        replies: list[Reply] = []

        async def kill_it() -> None:
            while len(replies) < 400:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(redis.kill)

        killing = asyncio.create_task(kill_it())
        await proxy.load(about(range(1, 1501)), into=replies)
        await killing
        assert sources(replies) == {"miss": 1500}
        assert sources(await proxy.load(about(range(1, 1501)))) == {"memory": 1500}

        async def up() -> bool:
            return (await proxy.metrics()).sum("rpcaccel_tier_up", tier="redis") == 1

        async def noticed() -> bool:  # what the admin side shows is a second old at the most
            return not await up() and "redis" in str((await proxy.api("overview"))["attention"])

        await until("Redis known to be gone", noticed)
        await asyncio.to_thread(redis.restart)

        async def back() -> bool:
            await proxy.load(about(range(2000 + len(replies), 2010 + len(replies))), into=replies)
            return await up()

        await until("Redis in use again", back)
        await asyncio.to_thread(proxy.program.wait_for, "redis is reached again")
        said = re.findall("redis is (not reached|reached again)", proxy.program.output)
        # Once for each loss; on a busy machine it may be lost, and found, once more.
        assert [word for word, following in pairwise(said) if word == following] == []
        assert len(said) < 10
        assert "has no maxmemory" in proxy.program.output
        assert all("result" in reply.json for reply in replies)


async def test_a_redis_that_hangs_costs_no_call_and_little_time(serve: Serve, new_redis: Callable[..., Redis]) -> None:
    redis = new_redis()
    async with harmony_nodes(1, head=2000) as nodes:
        proxy = await serve(nodes, "--redis", redis.url)
        await proxy.load(about(range(1, 11)))
        redis.process.pause()
        loop = asyncio.get_running_loop()
        slowest, since = 0.0, loop.time()
        async with asyncio.timeout(START_SECONDS):  # Redis says nothing for as long as the test lasts
            for number in range(100, 140):
                began = loop.time()
                assert (await proxy.call(COUNT, number)).cache == "miss"
                slowest = max(slowest, loop.time() - began)
        redis.process.resume()
        print(f"40 calls beside a hanging Redis in {loop.time() - since:.2f} s, the slowest in {slowest * 1000:.0f} ms")


async def test_it_starts_while_redis_is_not_there(serve: Serve, free_port: Callable[[], int]) -> None:
    async with harmony_nodes(1) as nodes:
        proxy = await serve(nodes, "--redis", f"redis://:hunter2@127.0.0.1:{free_port()}/0")
        assert sources(await proxy.load(about(range(1, 21)))) == {"miss": 20}
        assert sources(await proxy.load(about(range(1, 21)))) == {"memory": 20}
        assert await proxy.end() == 0
        assert "Traceback" not in proxy.program.output
        assert "hunter2" not in proxy.program.output
