"""A second attempt beside the first: who wins, what each is told, and that nothing is left open."""

from __future__ import annotations

import asyncio

import pytest

from rpcaccel.core.dispatch.dispatch_policy import DispatchSettings
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.stats.counters import NodeCell
from rpcaccel.dataplane.rpc.admission import Caller
from tests.support.dataplane.scripted_nodes import (
    WELL,
    Reply,
    Scripted,
    Trace,
    World,
    error,
    hang,
)
from tests.support.instant_time import instantly


@instantly
async def test_a_slow_node_is_overtaken_by_the_hedge_and_cancelled() -> None:
    slow = Scripted(hang)
    world = World(slow, Scripted(WELL))
    found = await world.call(hedge_after=0.01)
    assert (found.node_id, found.attempts) == ("b", 2)
    assert slow.cancelled == 1
    assert [(leg.node, leg.end) for leg in found.legs] == [("a", "overtaken"), ("b", "answered")]
    assert found.legs[0].start == 0 < found.legs[1].start <= found.legs[0].seconds
    world.assert_nothing_is_left_open()


@instantly
async def test_what_waits_for_a_node_that_is_found_to_hang_goes_to_another_at_once() -> None:
    hanging = Scripted(hang)
    world = World(hanging, Scripted(WELL))
    call = asyncio.create_task(world.call(hedge_after=4.0))
    while not hanging.asked:
        await asyncio.sleep(0.001)
    world.pool.abandon("b")
    assert world.asked == [1, 0]
    world.pool.abandon("a")
    world.pool.abandon("a")
    found = await call
    assert (found.node_id, found.attempts, world.asked) == ("b", 2, [1, 1])
    assert hanging.cancelled == 1
    assert len(world.pool.hedged) == 0
    world.assert_nothing_is_left_open()


@instantly
async def test_an_attempt_for_a_node_that_hangs_belongs_to_the_trace_of_its_call() -> None:
    hanging, trace = Scripted(hang), Trace()
    world = World(hanging, Scripted(WELL))
    call = asyncio.create_task(world.call(hedge_after=4.0, origin=Caller(trace=trace)))
    while not hanging.asked:
        await asyncio.sleep(0.001)
    world.pool.abandon("a")
    await call
    assert trace.asked == ["a", "b"]
    assert trace.ended == [Answer(result=b"1"), None]


@instantly
async def test_a_caller_that_leaves_at_the_moment_the_hedge_answers_is_cancelled() -> None:
    async def answer_and_cancel(timeout: float) -> Reply:  # noqa: ARG001
        call.cancel()
        return Answer(result=b"1")

    world = World(Scripted(hang), Scripted(answer_and_cancel))
    call = asyncio.create_task(world.call(hedge_after=0.01))
    with pytest.raises(asyncio.CancelledError):
        await call
    world.assert_nothing_is_left_open()


@instantly
async def test_when_the_first_fails_the_hedge_is_waited_for() -> None:
    async def fail(timeout: float) -> Reply:  # noqa: ARG001
        await asyncio.sleep(0.02)
        return Failure(FailureKind.BROKEN_REPLY, "broken")

    async def slowly(timeout: float) -> Reply:  # noqa: ARG001
        await asyncio.sleep(0.03)
        return Answer(result=b"1")

    found = await World(Scripted(fail), Scripted(slowly)).call(hedge_after=0.01)
    assert (found.node_id, found.attempts) == ("b", 2)


@instantly
async def test_a_hedged_call_may_pause_for_the_next_block() -> None:
    settings = DispatchSettings(behind_pause=0.02)
    world = World(Scripted(error("behind"), WELL), settings=settings)
    world.nodes[0].head = 5
    assert (await world.call(block=5, hedge_after=0.5)).attempts == 2


@instantly
async def test_an_overtaken_node_is_known_to_be_slow_and_the_attempts_are_counted() -> None:
    world = World(Scripted(hang), Scripted(WELL))
    world.pool.cells = {node.id: NodeCell("n", node.id) for node in world.nodes}
    await world.call(hedge_after=0.01)
    slow, quick = world.pool.cells["a"], world.pool.cells["b"]
    assert (slow.failures, quick.hedges, quick.latency.count) == ({"overtaken": 1}, 1, 1)
    assert world.nodes[0].attempts.totals(world.pool.clock()) == [0, 1]
    pace = world.nodes[0].pace.of("m")
    assert pace
    assert pace.quantile > 0.001


@instantly
async def test_a_hedge_that_loses_is_not_called_slow() -> None:
    async def slowly(timeout: float) -> Reply:  # noqa: ARG001
        await asyncio.sleep(0.03)
        return Answer(result=b"1")

    world = World(Scripted(slowly), Scripted(hang))
    for _ in range(3):
        world.nodes[1].pace.answered("m", 1.0, 0.0)
    assert (await world.call(hedge_after=0.02)).node_id == "a"
    assert world.nodes[1].attempts.totals(world.pool.clock()) == [0, 0]


@instantly
async def test_a_first_attempt_that_answers_beside_its_hedge_wins() -> None:
    go = asyncio.Event()

    async def when_told(timeout: float) -> Reply:
        await go.wait()
        return await WELL(timeout)

    async def tells(timeout: float) -> Reply:
        go.set()
        return await hang(timeout)

    world = World(Scripted(when_told), Scripted(tells))
    found = await world.call(hedge_after=0.02)
    assert (found.node_id, world.asked, world.scripts[1].cancelled) == ("a", [1, 1], 1)
    world.assert_nothing_is_left_open()
