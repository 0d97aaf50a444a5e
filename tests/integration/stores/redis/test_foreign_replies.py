"""Whatever answers at the address of Redis, and whatever it answers: nothing of this program fails by it."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.nodes.limits import Brought
from rpcaccel.stores.redis.board import RedisBoard
from rpcaccel.stores.redis.shared_counters import RedisQuotaSums
from rpcaccel.stores.redis.store import RedisStore
from rpcaccel.stores.shared_board import UnreachableError
from tests.support.stores.any_redis import any_redis, resp
from tests.support.stores.settings import Settings, Url, an_entry, every

WORDS = st.sampled_from([b"", b"0", b"\xff\xfe", b"run", b"word", b"1-1", b"9" * 5000, b"nan", b"{}", b"[" * 3000])
VALUES = st.recursive(
    st.none()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | WORDS
    | st.sampled_from(["+OK", "+", "-ERR no", "-WRONGTYPE x"]),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)
QUOTA = Brought(network="n", node="a", window="day", used=3.0, since=50.0, renews=4e9)
KEY = b"s0:call:1"
MOST = 1 << 30
"""Bytes; a list of 10^9 elements takes eight times as much."""


def patient(url: str) -> Settings:
    return Settings(url=Url(url), read_timeout=2.0, write_timeout=2.0, connect_timeout=2.0)


async def ask_board(board: RedisBoard) -> None:
    """Ask all that the control plane asks; that it is not there is the one answer that may be raised."""
    place = b"1-1"
    asking = (
        board.mark(), board.read(), board.post("1-a", "2-b", b"{}"), board.say(b"word"), board.last(),
        board.heard(place), board.meet("run", b"{}"), board.leave("run"),
    )  # fmt: skip
    for one in asking:
        with suppress(UnreachableError):
            await one


async def ask_store(store: RedisStore) -> None:
    """Ask all that a worker asks."""
    store.put(KEY, an_entry(), 60.0)
    await store.get(KEY)
    await store.left(KEY)
    lease = await store.lease(KEY, 1.0)
    if lease is not None:
        await lease.release()
    await store.wait(KEY, 0.02, every)
    await store.exchange({b"a": 1, b"b": 2})
    await store.purge(Selection(key=KEY))
    await store.purge(Selection(network="s0"), dry=True)


@given(values=st.lists(VALUES, min_size=1, max_size=6))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
async def test_any_reply_to_any_command_is_no_answer_or_a_miss(values: list[object]) -> None:
    answers: Iterator[bytes] = iter(())

    def next_value(words: list[bytes]) -> bytes:
        nonlocal answers
        value = next(answers, None)
        if value is None:
            answers = iter(map(resp, values))
            value = next(answers)
        # A cursor that never comes back to its beginning is for ever, also of a real Redis.
        return resp([b"0", values]) if words[0] == b"SCAN" else value

    async with any_redis(next_value) as url, asyncio.timeout(60):
        board, sums, store = RedisBoard(patient(url)), RedisQuotaSums(patient(url), "host"), RedisStore(patient(url))
        await asyncio.gather(board.open(), sums.open(), store.start())
        await ask_board(board)
        await sums.exchange([QUOTA])
        await ask_store(store)
        await asyncio.gather(board.close(), sums.close(), store.close())


@pytest.mark.parametrize(
    "reply",
    [
        b"+OK\r\n",
        b"*1000000000\r\n",
        b"*1\r\n" * 50_000,
        b"*2\r\n*1000000000\r\n",
        b"~1000000000\r\n",
        b"$500000000\r\nx",
        b"$-9\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x15\x03\x03\x00\x02\x02P",
    ],
)
async def test_no_reply_makes_the_lists_that_it_announces(reply: bytes) -> None:
    """A list of 10^9 elements takes the garbage collector many seconds, in which no call is answered."""
    tracemalloc.start()
    async with any_redis(lambda _words: reply, connects=False) as url, asyncio.timeout(60):
        own = Settings(url=Url(url), read_timeout=0.05, write_timeout=0.2, connect_timeout=0.2)
        board, sums, store = RedisBoard(own), RedisQuotaSums(own, "host"), RedisStore(own)
        await asyncio.gather(board.open(), sums.open(), store.start())
        await ask_board(board)
        await sums.exchange([QUOTA])
        await ask_store(store)
        await asyncio.gather(board.close(), sums.close(), store.close())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MOST
