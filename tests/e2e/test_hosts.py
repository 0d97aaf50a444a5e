"""Two hosts on one Redis: a change or a purge on one is one on the other, and Redis is in nobody's way."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from rpcaccel.testing.factories import harmony_nodes
from tests.e2e.conftest import Serve
from tests.e2e.running import Running, until
from tests.e2e.test_control import change, served_by, weights
from tests.services import Redis

pytestmark = pytest.mark.e2e


async def weight_of(proxy: Running, node: str) -> int:
    told = await proxy.api("settings")
    weight: int = told["document"]["networks"]["harmony-s0"]["nodes"][node]["weight"]
    return weight


async def shared(proxy: Running, up: bool) -> None:
    async def holds() -> bool:
        return bool((await proxy.api("settings"))["shared"]["up"] == up)

    await until("sharing up" if up else "sharing down", holds)


async def test_a_change_on_one_host_is_adopted_by_the_other_within_a_second(
    serve: Serve, new_redis: Callable[..., Redis]
) -> None:
    redis = new_redis()
    async with harmony_nodes(2) as nodes:
        a, b = (node.name for node in nodes)
        one = await serve(nodes, "--redis", redis.url)
        other = await serve(nodes, "--redis", redis.url, "--workers", "2")
        for proxy in (one, other):
            await shared(proxy, True)
        begun = time.monotonic()
        assert (await change(one, weights(**{a: 0})))[0] == 200

        async def adopted() -> bool:
            return await weight_of(other, a) == 0

        await until("the change on the other host", adopted)
        print(f"adopted by the other host in {time.monotonic() - begun:.2f} s")
        assert await served_by(other) == {b: 60}
        newest = (await other.api("changes"))["changes"][0]
        assert (newest["action"], newest["text"]) == ("shared", f"harmony-s0 {a}: weight 1 to 0")

        redis.kill()
        await shared(one, False)
        begun = time.monotonic()
        assert (await change(one, weights(**{a: 3})))[0] == 200
        print(f"changed without Redis in {time.monotonic() - begun:.2f} s")
        assert (await change(other, weights(**{b: 4})))[0] == 200
        assert (await weight_of(one, a), await weight_of(one, b), await weight_of(other, a)) == (3, 1, 0)
        redis.restart()

        async def agreed() -> bool:
            return all([(await weight_of(p, a), await weight_of(p, b)) == (3, 4) for p in (one, other)])

        await until("both changes on both hosts", agreed)


async def test_a_purge_on_one_host_empties_the_memory_of_the_other(
    serve: Serve, new_redis: Callable[..., Redis]
) -> None:
    redis = new_redis()
    async with harmony_nodes(1) as nodes:
        one = await serve(nodes, "--redis", redis.url)
        other = await serve(nodes, "--redis", redis.url)
        for proxy in (one, other):
            await shared(proxy, True)
            await proxy.call("hmyv2_getBlockByNumber", 7, {})
            assert (await proxy.call("hmyv2_getBlockByNumber", 7, {})).cache == "memory"
        assert (await change(one, {"all": True}, "purge", "POST"))[0] == 200

        async def emptied() -> bool:
            return (await other.metrics()).sum("rpcaccel_tier_entries", tier="memory") == 0

        await until("the other host's memory empty", emptied)
        assert (await other.call("hmyv2_getBlockByNumber", 7, {})).cache != "memory"

        redis.kill()
        for proxy in (one, other):
            await shared(proxy, False)
        assert (await other.call("hmyv2_getBlockByNumber", 7, {})).cache == "memory"
        assert (await change(one, {"all": True}, "purge", "POST"))[0] == 200
        redis.restart()
        await until("the other host's memory empty once it is back", emptied)
