"""What hosts used of quotas, added up in Redis."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from rpcaccel.core.nodes.limits import Brought
from rpcaccel.stores.redis.quota_sums import QuotaSums
from tests.support.services import RedisServer
from tests.support.stores.settings import Settings, Url

DAY = Brought(network="n", node="a", window="day", used=3.0, since=50.0, renews=4e9)
MONTH = replace(DAY, window="month", used=7.5)


async def host(server: RedisServer, name: str) -> QuotaSums:
    sums = QuotaSums(Settings(url=Url(server.url)), name)
    await sums.open()
    return sums


async def test_each_host_hears_what_the_others_used_and_since_when(redis_server: RedisServer) -> None:
    one, two, three = [await host(redis_server, name) for name in ("one", "two", "three")]
    assert [use.used for use in await one.exchange([DAY, MONTH])] == [0, 0]
    await two.exchange([replace(DAY, used=10.0, since=20.0)])
    assert await three.exchange([replace(DAY, used=0.0, since=60.0)]) == [replace(DAY, used=13.0, since=20.0)]
    assert [use.used for use in await one.exchange([DAY, MONTH])] == [10, 0]
    await one.exchange([replace(DAY, used=4.0)])  # said again, and not added up
    assert [use.used for use in await two.exchange([DAY])] == [4]
    for sums in (one, two, three):
        await sums.close()


async def test_a_host_hears_what_it_said_before_a_restart(redis_server: RedisServer) -> None:
    one, two = await host(redis_server, "one"), await host(redis_server, "two")
    assert await one.earlier([DAY, MONTH]) == [replace(DAY, used=0.0), replace(MONTH, used=0.0)]
    await one.exchange([DAY])
    await two.exchange([replace(DAY, used=10.0)])
    again = await host(redis_server, "one")
    unused = replace(DAY, used=0.0, since=99.0)
    assert await again.earlier([unused, MONTH]) == [DAY, replace(MONTH, used=0.0)]
    (name,) = redis_server.reply("KEYS", "*quota*").split()
    for command in (("HSET", name.decode(), "one", "much"), ("DEL", name.decode()), ("SET", name.decode(), "text")):
        redis_server.command(*command)
        assert await again.earlier([unused]) == [unused], command
    for sums in (one, two, again):
        await sums.close()


async def test_another_window_has_another_count_and_each_expires(redis_server: RedisServer) -> None:
    one, two = await host(redis_server, "one"), await host(redis_server, "two")
    await one.exchange([DAY])
    assert [use.used for use in await two.exchange([replace(DAY, renews=5e9)])] == [0]
    keys = redis_server.reply("KEYS", "*quota*").split()
    assert len(keys) == 2
    assert all(int(redis_server.command("PTTL", key.decode())[1:]) > 0 for key in keys)
    for sums in (one, two):
        await sums.close()


async def test_hosts_that_used_nothing_leave_nothing_behind_however_often_one_starts(redis_server: RedisServer) -> None:
    for name in ("one", "two", "three"):
        sums = await host(redis_server, name)
        assert [use.used for use in await sums.exchange([replace(DAY, used=0.0)])] == [0]
        await sums.close()
    assert redis_server.reply("KEYS", "*quota*").split() == []


async def test_without_an_answer_nothing_is_known(new_redis: Callable[..., RedisServer]) -> None:
    server = new_redis()
    sums = await host(server, "one")
    server.kill()
    assert await sums.exchange([DAY]) == await sums.earlier([DAY]) == []
    await sums.close()


async def test_what_another_program_wrote_there_is_passed_over_and_said(redis_server: RedisServer) -> None:
    one, two = await host(redis_server, "one"), await host(redis_server, "two")
    await two.exchange([replace(DAY, used=10.0)])
    (name,) = redis_server.reply("KEYS", "*quota*").split()
    for text in ("much", "-9 1", "nan 1", "inf 1", "1 nan", "1 2 3", "1e300 1", "9" * 100_000):
        redis_server.command("HSET", name.decode(), "other", text)
        assert await one.exchange([DAY]) == [replace(DAY, used=10.0)], text
    redis_server.command("DEL", name.decode())
    redis_server.command("SET", name.decode(), "text")
    assert [use.used for use in await one.exchange([DAY])] == [0]
    assert [use.used for use in await two.exchange([DAY])] == [3]
    (said,) = one.notices()
    assert "the counts of quotas" in said
    for sums in (one, two):
        await sums.close()
