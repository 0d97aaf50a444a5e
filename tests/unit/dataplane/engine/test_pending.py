"""A value to come: what is made of it, who is told, and in which context."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from rpcaccel.dataplane.engine.single_flight import Pending
from tests.support.waiting import until

WHOSE: ContextVar[str] = ContextVar("whose", default="")


class Source:
    """Notes who leaves."""

    def __init__(self) -> None:
        self.left: list[Pending[Any]] = []

    def leave(self, pending: Pending[Any]) -> None:
        self.left.append(pending)


async def test_each_room_makes_something_of_what_comes() -> None:
    pending: Pending[bytes] = Pending(Source())
    made = pending.then(len).then(lambda length: (length, "bytes"))
    assert repr(pending) == "<pending, under way>"
    pending.land(b"four")
    assert await made == (4, "bytes")
    assert repr(pending) == "<pending, came>"


async def test_the_first_that_comes_counts() -> None:
    pending: Pending[int] = Pending(Source())
    pending.land(1)
    pending.land(2)
    pending.land(None, KeyError())
    assert pending.result() == 1
    assert not pending.cancelled()


async def test_who_listens_is_told_in_the_context_of_the_wait() -> None:
    WHOSE.set("the caller's")
    pending: Pending[int] = Pending(Source())
    told: list[str] = []
    pending.listen(lambda _pending: told.append(WHOSE.get()))
    WHOSE.set("of whoever brings the answer")
    pending.land(1)
    assert told == ["the caller's"]


async def test_who_listens_late_is_told_at_once() -> None:
    pending: Pending[int] = Pending(Source())
    pending.land(1)
    told: list[int] = []
    pending.listen(lambda came: told.append(came.result()))
    assert told == [1]


async def test_a_caller_that_leaves_is_told_so_and_makes_nothing_of_it() -> None:
    source, made = Source(), []
    pending: Pending[int] = Pending(source)
    waiting = asyncio.ensure_future(_wait(pending.then(made.append)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert source.left == [pending]
    assert pending.cancelled()
    pending.cancel()
    assert (source.left, made) == ([pending], [])


async def test_what_it_ends_with_is_raised() -> None:
    pending: Pending[int] = Pending(Source())
    pending.land(None, KeyError("a bug"))
    with pytest.raises(KeyError):
        await pending


async def test_a_wait_within_a_time_ends_with_something_else() -> None:
    source = Source()
    pending: Pending[bytes] = Pending(source)
    pending.within(0.001, b"too late")
    made = pending.then(len)
    await until(pending.done)
    assert made.result() == 8
    assert source.left == [pending]
    pending.land(b"late")
    assert made.result() == 8


async def test_what_comes_in_time_is_not_replaced() -> None:
    pending: Pending[int] = Pending(Source())
    pending.within(0.0, 2)
    pending.land(1)
    await asyncio.sleep(0.01)
    assert pending.result() == 1
    pending.within(0.0, 2)
    await asyncio.sleep(0.01)
    assert pending.result() == 1


async def _wait(pending: Pending[Any]) -> Any:
    return await pending
