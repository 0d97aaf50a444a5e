"""The board in a real Redis."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rpcaccel.stores.redis.board import KEPT, Board, Heard, Posted, UnreachableError
from tests.support.services import RedisServer
from tests.support.stores.settings import Settings, Url


async def opened(redis: RedisServer, prefix: str = "test") -> Board:
    board = Board(Settings(url=Url(redis.url), prefix=prefix))
    await board.open()
    return board


async def test_of_two_hosts_that_post_at_once_one_is_first(redis_server: RedisServer) -> None:
    one, other = await opened(redis_server), await opened(redis_server)
    assert (await one.mark(), await one.read()) == ("", None)
    assert await one.post("", "1-a", b"a")
    assert not await other.post("", "1-b", b"b")
    assert await other.read() == Posted("1-a", b"a")
    assert await other.post("1-a", "2-b", b"b")
    assert await one.mark() == "2-b"
    await one.close()
    await other.close()


async def test_words_are_heard_once_and_in_order_from_where_one_was(redis_server: RedisServer) -> None:
    board = await opened(redis_server)
    first = await board.last()
    assert await board.last() == first, "an empty board has a place too"
    await board.say(b"before")
    place = await board.last()
    assert await board.heard(place) == Heard(place, [])
    await board.say(b"one")
    await board.say(b"two")
    heard = await board.heard(place)
    assert (heard.words, heard.lost) == ([b"one", b"two"], "")
    assert (await board.heard(heard.place)).words == []
    assert (await board.heard(first)).words == [b"before", b"one", b"two"]
    await board.close()


async def test_what_is_missing_is_said(redis_server: RedisServer) -> None:
    board = await opened(redis_server)
    place = await board.last()
    for _ in range(2 * KEPT):
        await board.say(b"word")
    assert (await board.heard(place)).lost == "older"
    place = await board.last()
    redis_server.empty()
    heard = await board.heard(place)
    assert (heard.lost, heard.words) == ("all", [b""])
    await board.say(b"one")
    assert (await board.heard(heard.place)) == Heard(await board.last(), [b"one"])
    await board.close()


async def test_another_prefix_is_another_board(redis_server: RedisServer) -> None:
    one, other = await opened(redis_server, "a"), await opened(redis_server, "b")
    await one.post("", "1-x", b"x")
    await one.say(b"x")
    assert (await other.mark(), (await other.heard(await other.last())).words) == ("", [])
    await one.close()
    await other.close()


async def test_without_redis_it_says_so_in_time_and_comes_back_by_itself(new_redis: Callable[..., RedisServer]) -> None:
    redis = new_redis()
    board = await opened(redis)
    redis.kill()
    for _ in range(5):
        with pytest.raises(UnreachableError):
            await board.mark()
    assert "down" in repr(board)
    await board.close()
