"""The board in a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from rpcaccel.stores.redis.board import (
    MAX_HOST_BYTES,
    MAX_HOSTS,
    MAX_MESSAGES,
    HostEntries,
    HostEntry,
    MessagesSince,
    RedisBoard,
    SharedDocument,
    UnreachableError,
)
from rpcaccel.stores.redis.topology import FAILURES
from tests.support.services import RedisServer
from tests.support.stores.settings import Settings, Url
from tests.support.stores.topologies import cluster

WORDS, SETTINGS = "test:words", "test:settings"


Opener = Callable[..., Awaitable[RedisBoard]]


@pytest.fixture
async def opened() -> AsyncIterator[Opener]:
    """Opens boards, and closes them at the end of the test."""
    async with AsyncExitStack() as stack:

        async def one(redis: RedisServer, prefix: str = "test") -> RedisBoard:
            made = RedisBoard(Settings(url=Url(redis.url), prefix=prefix))
            await made.open()
            stack.push_async_callback(made.close)
            return made

        yield one


@pytest.fixture
async def board(opened: Opener, redis_server: RedisServer) -> RedisBoard:
    return await opened(redis_server)


async def test_of_two_hosts_that_post_at_once_one_is_first(opened: Opener, redis_server: RedisServer) -> None:
    one, other = await opened(redis_server), await opened(redis_server)
    assert (await one.mark(), await one.read()) == ("", None)
    assert await one.post("", "1-a", b"a")
    assert not await other.post("", "1-b", b"b")
    assert await other.read() == SharedDocument("1-a", b"a")
    assert await other.post("1-a", "2-b", b"b")
    assert await one.mark() == "2-b"


async def test_words_are_heard_once_and_in_order_from_where_one_was(board: RedisBoard) -> None:
    first = await board.last()
    assert await board.last() == first, "an empty board has a place too"
    await board.say(b"before")
    place = await board.last()
    assert await board.heard(place) == MessagesSince(place, [])
    await board.say(b"one")
    await board.say(b"two")
    heard = await board.heard(place)
    assert (heard.words, heard.lost) == ([b"one", b"two"], "")
    assert (await board.heard(heard.place)).words == []
    assert (await board.heard(first)).words == [b"before", b"one", b"two"]


async def test_what_is_missing_is_said(board: RedisBoard, redis_server: RedisServer) -> None:
    place = await board.last()
    many = f"for _ = 1, {2 * MAX_MESSAGES} do redis.call('XADD', KEYS[1], '*', 'run', '', 'word', 'x') end"
    redis_server.command("EVAL", many, "1", WORDS)
    await board.say(b"word")
    assert (await board.heard(place)).lost == "older"
    place = await board.last()
    redis_server.empty()
    heard = await board.heard(place)
    assert (heard.lost, heard.words) == ("all", [b""])
    await board.say(b"one")
    assert (await board.heard(heard.place)) == MessagesSince(await board.last(), [b"one"])


async def test_another_prefix_is_another_board(opened: Opener, redis_server: RedisServer) -> None:
    one, other = await opened(redis_server, "a"), await opened(redis_server, "b")
    await one.post("", "1-x", b"x")
    await one.say(b"x")
    assert (await other.mark(), (await other.heard(await other.last())).words) == ("", [])


async def test_without_redis_it_says_so_in_time_and_comes_back_by_itself(
    opened: Opener, new_redis: Callable[..., RedisServer]
) -> None:
    redis = new_redis()
    board = await opened(redis)
    redis.kill()
    for _ in range(5):
        with pytest.raises(UnreachableError):
            await board.mark()
    assert "down" in repr(board)


async def test_failures_that_are_not_in_a_row_do_not_take_the_board_down(
    board: RedisBoard, redis_server: RedisServer
) -> None:
    for _ in range(2 * FAILURES):
        redis_server.reply("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(UnreachableError):
            await board.say(b"word")
        redis_server.reply("CONFIG", "SET", "maxmemory", "0")
        await board.say(b"word")


# ---- what other programs leave there ---------------------------------------------------------------------------------

FOREIGN_ENTRIES = (
    ("*", "foreign", "entry"),
    ("*", "run", "x"),
    ("*", "word", "x", "run", "y"),
    ("*", "run", "r", "word", "x", "more", "y"),
    ("*", "", ""),
    ("*", *(str(number) for number in range(2000))),
    ("*", "run", "r", "word", "x" * (5 << 20)),
)


@pytest.mark.parametrize("entry", FOREIGN_ENTRIES, ids=lambda entry: "-".join(entry)[:20])
async def test_a_foreign_entry_is_passed_over_and_the_words_behind_it_are_heard(
    board: RedisBoard, redis_server: RedisServer, entry: tuple[str, ...]
) -> None:
    place = await board.last()
    redis_server.command("XADD", WORDS, *entry)
    for _ in range(3):  # the cursor may stand at such an entry as at any other
        heard = await board.heard(place)
        assert (heard.words, heard.lost) == ([], "")
        assert heard.place != place
        place = heard.place
        redis_server.command("XADD", WORDS, *entry)
    await board.say(b"a purge")
    heard = await board.heard(place)
    assert (heard.words, heard.lost) == ([b"a purge"], "")
    assert await board.last() == heard.place
    (said,) = board.notices()
    assert "the stream of purges" in said


async def test_where_foreign_entries_drove_out_the_words_they_count_as_missed(
    board: RedisBoard, redis_server: RedisServer
) -> None:
    place = await board.last()
    redis_server.command("EVAL", "for _ = 1, 2000 do redis.call('XADD', KEYS[1], '*', 'a', 'b') end", "1", WORDS)
    await board.say(b"word")
    assert (await board.heard(place)).lost == "older"


@pytest.mark.parametrize(
    "words", [("SET", WORDS, "x"), ("HSET", WORDS, "a", "b"), ("XADD", WORDS, f"{2**64 - 1}-{2**64 - 1}", "a", "b")]
)
async def test_a_stream_that_takes_no_words_is_replaced_and_what_was_lost_is_told(
    board: RedisBoard, redis_server: RedisServer, words: tuple[str, ...]
) -> None:
    place = b"5-0"  # another millisecond than that of a stream that takes its place
    redis_server.command("XADD", WORDS, place.decode(), "a", "b")
    if words[0] != "XADD":
        redis_server.command("DEL", WORDS)
    redis_server.command(*words)
    await board.say(b"one")
    heard = await board.heard(place)
    assert (heard.words[-1], heard.lost) == (b"one", "all")
    await board.say(b"two")
    assert (await board.heard(heard.place)).words == [b"two"]


@pytest.mark.parametrize(
    "words",
    [
        ("SET", SETTINGS, "x"),
        ("XADD", SETTINGS, "*", "a", "b"),
        ("HSET", SETTINGS, "mark", "m" * 65, "document", "{}"),
        ("HSET", SETTINGS, "document", "{}"),
    ],
)
async def test_settings_of_another_program_are_an_empty_board(
    board: RedisBoard, redis_server: RedisServer, words: tuple[str, ...]
) -> None:
    redis_server.command(*words)
    assert (await board.mark(), await board.read()) == ("", None)
    assert await board.post("", "1-a", b"{}")
    assert await board.read() == SharedDocument("1-a", b"{}")


async def test_of_hosts_that_replace_a_foreign_key_at_once_none_removes_what_another_put_there(
    opened: Opener, redis_server: RedisServer
) -> None:
    boards = [await opened(redis_server) for _ in range(20)]
    for _ in range(5):
        redis_server.command("DEL", SETTINGS)
        redis_server.command("SET", SETTINGS, "a cuckoo")
        posted = await asyncio.gather(*(board.post("", f"1-{n}", b"{}") for n, board in enumerate(boards)))
        assert sum(posted) == 1
        assert await boards[0].mark() == f"1-{posted.index(True)}"


async def test_a_mark_of_any_bytes_can_be_replaced_and_a_document_that_is_none_is_said(
    board: RedisBoard, redis_server: RedisServer
) -> None:
    redis_server.command("EVAL", r"redis.call('HSET', KEYS[1], 'mark', '\255\254') return 1", "1", SETTINGS)
    posted = await board.read()
    assert posted is not None
    assert posted.document == b""
    assert len(board.notices()) == 1
    assert await board.post(await board.mark(), "1-a", b"{}")


# ---- what hosts tell of themselves ----------------------------------------------------------------------------------

HOSTS = "test:hosts"


def told(met: HostEntries) -> dict[str, bytes]:
    """The documents by run."""
    return {entry.run: entry.document for entry in met.entries}


def number(redis: RedisServer, *command: str) -> int:
    """The reply to a command, a number."""
    return int(redis.reply(*command).removeprefix(b":"))


async def test_each_host_reads_what_all_tell_until_they_leave(opened: Opener, redis_server: RedisServer) -> None:
    one, other = await opened(redis_server), await opened(redis_server)
    assert await one.meet("a", b"1") == HostEntries([HostEntry("a", 0.0, b"1")])
    met = await other.meet("b", b"\x00:\xff")
    assert told(met) == {"a": b"1", "b": b"\x00:\xff"}
    assert met.entries[0].age <= met.entries[1].age
    assert told(await one.meet("a", b"2")) == {"a": b"2", "b": b"\x00:\xff"}
    await other.leave("b")
    assert told(await one.meet("a", b"2")) == {"a": b"2"}
    assert 290_000 < number(redis_server, "PTTL", HOSTS) <= 300_000, "nothing stays when all hosts are gone"


async def test_ages_are_those_of_the_clock_of_redis(board: RedisBoard, redis_server: RedisServer) -> None:
    seconds = number(redis_server, "EVAL", "return tonumber(redis.call('TIME')[1])", "0")
    redis_server.command("HSET", HOSTS, "young", f"{seconds - 60}000:x", "old", f"{seconds - 400}000:x")
    met = await board.meet("a", b"1")
    ages = {entry.run: entry.age for entry in met.entries}
    assert set(ages) == {"a", "young"}
    assert (ages["a"], met.dropped) == (0.0, 0)
    assert 60 <= ages["young"] < 90


@pytest.mark.parametrize("value", ["junk", "", ":x", "12x:y", "9999999999999:x", "9" * 4000, f"1:{'x' * 5000}"])
async def test_an_entry_that_is_no_entry_of_a_host_is_removed_and_counted(
    board: RedisBoard, redis_server: RedisServer, value: str
) -> None:
    redis_server.command("HSET", HOSTS, "x", value)
    met = await board.meet("a", b"1")
    assert told(met) == {"a": b"1"}
    assert number(redis_server, "HLEN", HOSTS) == 1
    assert met.dropped == (0 if value.startswith("1:") else 1), "what is old is forgotten, whatever it is"


async def test_an_entry_of_a_long_name_is_removed_and_counted(board: RedisBoard, redis_server: RedisServer) -> None:
    seconds = number(redis_server, "EVAL", "return tonumber(redis.call('TIME')[1])", "0")
    redis_server.command("HSET", HOSTS, "x" * 65, f"{seconds}000:y", "x" * 64, f"{seconds}000:y")
    met = await board.meet("a", b"1")
    assert (set(told(met)), met.dropped) == ({"a", "x" * 64}, 1)


async def test_a_key_of_another_kind_is_replaced(board: RedisBoard, redis_server: RedisServer) -> None:
    redis_server.command("SET", HOSTS, "a cuckoo")
    assert told(await board.meet("a", b"1")) == {"a": b"1"}


async def test_of_too_many_hosts_those_heard_last_are_kept(board: RedisBoard, redis_server: RedisServer) -> None:
    seconds, long = number(redis_server, "EVAL", "return tonumber(redis.call('TIME')[1])", "0"), "x" * MAX_HOST_BYTES
    hosts = {f"host-{place}": f"{seconds - 250 + place}000:{long}" for place in range(MAX_HOSTS + 4)}
    redis_server.command("HSET", HOSTS, *(word for host in hosts.items() for word in host))
    met = await board.meet("latest", long.encode())
    assert set(told(met)) == {*list(hosts)[5:], "latest"}
    assert number(redis_server, "HLEN", HOSTS) == MAX_HOSTS


async def test_hosts_meet_in_a_cluster_as_well(tmp_path: Path) -> None:
    with cluster(tmp_path) as servers:
        url = "redis+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in servers[:2])
        boards = [RedisBoard(Settings(url=Url(url), prefix=prefix)) for prefix in ("test", "test", "other")]
        for board in boards:
            await board.open()
        await boards[0].meet("a", b"1")
        assert told(await boards[1].meet("b", b"2")) == {"a": b"1", "b": b"2"}
        assert told(await boards[2].meet("c", b"3")) == {"c": b"3"}
        await boards[0].leave("a")
        assert told(await boards[1].meet("b", b"2")) == {"b": b"2"}
        for board in boards:
            await board.close()


async def test_why_hosts_do_not_meet_is_said(opened: Opener, new_redis: Callable[..., RedisServer]) -> None:
    redis = new_redis("--maxmemory", "1", "--maxmemory-policy", "noeviction")
    board = await opened(redis)
    with pytest.raises(UnreachableError, match=r"memory|it answered"):
        await board.meet("a", b"1")
