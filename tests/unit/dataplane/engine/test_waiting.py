"""A wait for a flight, with what each room makes of its outcome."""

from __future__ import annotations

import asyncio

import pytest

from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.dataplane.engine.single_flight import PendingOutcome

ANSWER = Outcome(source=AnswerSource.NODE, result=b"1")


async def test_each_room_makes_something_of_what_comes() -> None:
    future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    waiting = PendingOutcome(future, lambda outcome: outcome.result).then(lambda result: (result, b"2"))
    assert "under way" in repr(waiting)
    future.set_result(ANSWER)
    assert await waiting == (b"1", b"2")
    assert "landed" in repr(waiting)


async def test_who_gives_up_waiting_makes_nothing_of_it() -> None:
    future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    made: list[Outcome] = []
    waiting = PendingOutcome(future, made.append)
    future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not made
