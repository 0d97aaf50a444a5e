"""Whoever awaits an answer gets it, or the one to be taken otherwise, and never waits for ever."""

from __future__ import annotations

import asyncio

import pytest

from rpcaccel.controlplane.workers.process_link import PendingAnswers
from rpcaccel.core.messages import ExplainReply, PurgeDone, Recorded

NOTHING = PurgeDone(0, 0, complete=False)


class Sent(list[int]):
    """The numbers that orders went out with."""


@pytest.fixture
async def pending() -> PendingAnswers:
    found = PendingAnswers()
    found.begin()
    return found


async def test_each_answer_reaches_who_asked_for_it_in_whatever_order_they_come(pending: PendingAnswers) -> None:
    sent = Sent()
    first = asyncio.create_task(pending.answer(sent.append, NOTHING))
    second = asyncio.create_task(pending.answer(sent.append, Recorded()))
    await asyncio.sleep(0)
    assert repr(pending) == "<PendingAnswers 2>"
    pending.settle(Recorded(missed=5, number=sent[1]))
    pending.settle(PurgeDone(3, 4, number=sent[0]))
    assert await first == PurgeDone(3, 4, number=sent[0])
    assert (await second).missed == 5
    assert repr(pending) == "<PendingAnswers 0>"


async def test_when_it_ends_all_get_what_was_to_be_taken_otherwise(pending: PendingAnswers) -> None:
    sent = Sent()
    asked = [asyncio.create_task(pending.answer(sent.append, NOTHING)) for _ in range(3)]
    await asyncio.sleep(0)
    pending.end()
    assert await asyncio.gather(*asked) == [NOTHING] * 3
    assert repr(pending) == "<PendingAnswers none any more>"


async def test_before_there_is_anybody_and_afterwards_nothing_is_sent_and_nobody_waits() -> None:
    pending, sent = PendingAnswers(), Sent()
    assert await pending.answer(sent.append, NOTHING) == NOTHING
    pending.begin()
    pending.end()
    assert await pending.answer(sent.append, NOTHING) == NOTHING
    assert sent == []


async def test_an_answer_that_nobody_awaits_any_more_is_dropped(pending: PendingAnswers) -> None:
    sent = Sent()
    asked = asyncio.create_task(pending.answer(sent.append, NOTHING))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    pending.settle(PurgeDone(1, 1, number=sent[0]))
    assert repr(pending) == "<PendingAnswers 0>"


async def test_an_answer_to_something_else_is_none(pending: PendingAnswers) -> None:
    sent = Sent()
    asked = asyncio.create_task(pending.answer(sent.append, NOTHING))
    await asyncio.sleep(0)
    with pytest.raises(ValueError, match="ExplainReply as the answer where PurgeDone was due"):
        pending.settle(ExplainReply(sent[0], None))
    pending.end()
    assert await asked == NOTHING


async def test_an_order_that_cannot_be_sent_leaves_nothing_to_wait_for(pending: PendingAnswers) -> None:
    def fail(_number: int) -> None:
        raise OSError("no way out")

    with pytest.raises(OSError, match="no way out"):
        await pending.answer(fail, NOTHING)
    assert repr(pending) == "<PendingAnswers 0>"
