"""A call at the nodes: which of them are asked, in what order, what ends it, and that nothing is left open."""

from __future__ import annotations

import asyncio

import pytest

from rpcaccel.core.dispatch.dispatch_policy import DispatchSettings
from rpcaccel.core.nodes.breaker import BreakerState
from rpcaccel.core.nodes.limits import MethodCosts, Quota, QuotaLimits
from rpcaccel.core.plan.rules import Bulkhead
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.stats.counters import NodeCell
from rpcaccel.dataplane.upstream.pool import WaitQueue
from tests.support.dataplane.scripted_nodes import (
    WELL,
    Behaviour,
    Reply,
    Scripted,
    World,
    after_a_while,
    breaks,
    error,
    hang,
    our_tasks,
    says,
)
from tests.support.instant_time import instantly

EMPTY = says(Answer(result=b'"0x"'))


@pytest.mark.parametrize(
    ("second", "block", "lag"),
    [
        (WELL, 970, 30),
        (EMPTY, 970, 0),  # that is what it would say, too, if it had not got the block
        (error("behind"), 970, 0),  # a client can bring the words about
        (error("revert"), 970, 0),
        (WELL, 1, 0),  # it no longer has old blocks
        (WELL, None, 0),
    ],
)
@instantly
async def test_a_node_is_taken_to_lag_only_when_another_shows_that_the_block_is_there(
    second: Behaviour, block: int | None, lag: int
) -> None:
    world = World(Scripted(error("behind")), Scripted(second), most_lag=400)
    for node in world.nodes:
        node.head = 1000
    await world.call(block=block)
    assert [node.hidden_lag(world.pool.clock()) for node in world.nodes] == [lag, 0]


@instantly
async def test_an_answer_comes_back_with_who_gave_it() -> None:
    world = World(Scripted(WELL), Scripted(WELL))
    world.nodes[0].head = 77
    found = await world.call()
    assert (found.answer, found.failure) == (Answer(result=b"1"), None)
    assert (found.node_id, found.node_head, found.attempts, found.tried) == ("a", 77, 1, ("a",))
    assert found.legs == ()  # one attempt has nothing to tell
    assert world.nodes[0].latency.known
    world.assert_nothing_is_left_open()


@pytest.mark.parametrize("hedge_after", [None, 0.5])
@instantly
async def test_no_task_is_made_before_a_hedge_is_due(hedge_after: float | None) -> None:
    tasks: list[set[asyncio.Task[object]]] = []

    async def look(timeout: float) -> Reply:  # noqa: ARG001
        tasks.append(our_tasks())
        return Answer(result=b"1")

    before = our_tasks()
    await World(Scripted(look)).call(hedge_after=hedge_after)
    assert tasks == [before]


@instantly
async def test_a_dead_node_is_passed_over_and_then_left_alone() -> None:
    dead = Scripted(breaks(FailureKind.CONNECT, sent=False))
    world = World(dead, Scripted(WELL), Scripted(WELL))
    first = await world.call()
    assert [(leg.node, leg.end) for leg in first.legs] == [("a", "connect"), ("b", "answered")]
    for _ in range(199):
        assert (await world.call()).failure is None
    assert world.nodes[0].breaker.state is BreakerState.OPEN
    assert dead.asked == 5
    world.assert_nothing_is_left_open()


@instantly
async def test_a_rate_limited_node_is_parked_and_not_blamed() -> None:
    world = World(Scripted(says(Failure(FailureKind.RATE_LIMITED, "429", retry_after=60.0))), Scripted(WELL))
    for _ in range(10):
        assert (await world.call()).node_id == "b"
    assert world.asked == [1, 10]
    assert world.nodes[0].breaker.in_row == 0


@instantly
async def test_when_all_are_limited_the_client_hears_the_proxys_own_words() -> None:
    world = World(Scripted(error("limit")))
    first = await world.call()
    assert first.answer is None
    assert first.failure
    assert first.failure.kind is FailureKind.RATE_LIMITED
    second = await world.call()
    assert second.failure
    assert second.failure.retry_after == pytest.approx(1.0, abs=0.2)
    assert world.asked == [1]


@instantly
async def test_the_least_bad_is_asked_when_all_are_out_and_recovery_needs_nobody() -> None:
    world = World(Scripted(*[breaks(FailureKind.CONNECT, sent=False)] * 6, WELL))
    kinds = [found.failure.kind if found.failure else None for found in [await world.call() for _ in range(8)]]
    assert kinds == [FailureKind.CONNECT] * 6 + [None, None]
    assert world.nodes[0].breaker.state is BreakerState.CLOSED


@instantly
async def test_the_deadline_holds_over_all_attempts() -> None:
    world = World(*[Scripted(hang) for _ in range(3)])
    world.nodes[0].timeout = 0.05
    started = world.pool.clock()
    found = await world.call(within=0.1)
    assert found.failure
    assert found.failure.kind is FailureKind.TIMEOUT
    assert world.pool.clock() - started == pytest.approx(0.1)
    assert world.asked == [1, 1, 0]
    assert world.nodes[0].breaker.in_row == 1
    assert world.nodes[1].breaker.in_row == 0, "it was not given its full time"


@pytest.mark.parametrize("hedge_after", [None, 0.01])
@instantly
async def test_a_cancelled_call_gives_everything_back(hedge_after: float | None) -> None:
    world = World(Scripted(hang), Scripted(hang))
    world.nodes[0].breaker.force(0.0)
    call = asyncio.create_task(world.call(hedge_after=hedge_after))
    async with asyncio.timeout(60):
        while sum(node.in_flight for node in world.nodes) < (1 if hedge_after is None else 2):
            await asyncio.sleep(0.001)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    world.assert_nothing_is_left_open()
    assert sum(script.cancelled for script in world.scripts) == sum(world.asked)
    assert world.nodes[0].breaker.in_row == 0


@instantly
async def test_a_cancelled_trial_does_not_shut_the_node_out() -> None:
    world = World(Scripted(hang, WELL))
    breaker = world.nodes[0].breaker
    for _ in range(5):
        breaker.learn(breaker.force(0.0), "failure", 0.0)
    breaker.probed(0.0, answered=True)
    call = asyncio.create_task(world.call())
    await asyncio.sleep(0)
    assert not breaker.allows(world.pool.clock())
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert breaker.allows(world.pool.clock())
    assert (await world.call()).failure is None


@instantly
async def test_who_polls_for_a_block_that_nobody_has_is_told_so_at_once_by_one_node() -> None:
    settings = DispatchSettings(behind_pause=0.5)
    world = World(Scripted(error("behind")), Scripted(error("behind")), settings=settings)
    for node in world.nodes:
        node.head = 5
    started = world.pool.clock()
    found = await world.call(block=6)
    assert (found.attempts, sum(world.asked)) == (1, 1)
    assert world.pool.clock() - started < 0.2


@pytest.mark.parametrize("hedge_after", [None, 0.5])
@instantly
async def test_a_bug_on_the_way_to_a_node_leaves_nothing_open(hedge_after: float | None) -> None:
    async def stumble(timeout: float) -> Reply:  # noqa: ARG001
        raise KeyError("a bug")

    world = World(Scripted(stumble))
    found = await world.call(hedge_after=hedge_after)
    assert found.failure is not None
    assert found.failure.kind is FailureKind.UNKNOWN
    world.assert_nothing_is_left_open()


@instantly
async def test_more_calls_than_a_node_may_have_wait_for_their_turn() -> None:
    world = World(Scripted(after_a_while))
    world.nodes[0].limit.value = 2.0
    world.nodes[0].limit.most = 2
    started = world.pool.clock()
    found = await asyncio.gather(*(world.call() for _ in range(8)))
    assert all(one.failure is None for one in found)
    assert world.pool.clock() - started >= 0.07
    world.assert_nothing_is_left_open()


@instantly
async def test_a_call_that_waited_in_vain_is_told_that_the_nodes_are_busy() -> None:
    world = World(Scripted(hang), rooms=tuple(WaitQueue(seconds=0.03) for _ in Bulkhead))
    world.nodes[0].limit.value = 1.0
    taking = asyncio.create_task(world.call())
    await asyncio.sleep(0)
    started = world.pool.clock()
    found = await world.call()
    assert found.failure
    assert (found.failure.kind, found.failure.retry_after, found.attempts) == (FailureKind.BUSY, 1.0, 0)
    assert 0.02 < world.pool.clock() - started < 0.2
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    assert sum(len(room) for room in world.pool.rooms) == 0


@instantly
async def test_a_used_up_second_is_waited_for() -> None:
    world = World(Scripted(WELL))
    now = world.pool.clock()
    world.nodes[0].quota = Quota(QuotaLimits(second=20), now=now, epoch=0.0)
    found = await asyncio.gather(*(world.call() for _ in range(25)))
    assert all(one.failure is None for one in found)
    assert world.pool.clock() - now >= 0.2


def billed(world: World, costs: MethodCosts) -> list[NodeCell]:
    """The counters of the nodes, all of which have these costs and a quota of a month."""
    world.pool.cells = {node.id: NodeCell("n", node.id) for node in world.nodes}
    for node in world.nodes:
        node.quota = Quota(QuotaLimits(month=1e9, costs=costs), now=0.0, epoch=0.0)
    return list(world.pool.cells.values())


def used(world: World) -> list[float]:
    return [node.quota.uses(0.0)[0].used for node in world.nodes if node.quota is not None]


@instantly
async def test_each_attempt_costs_its_method_whether_it_is_the_first_a_retry_or_a_hedge() -> None:
    world = World(Scripted(breaks(FailureKind.BROKEN_REPLY)), Scripted(WELL))
    cells = billed(world, MethodCosts({"m": 26, "*": 3}))
    await world.call()
    assert used(world) == [26, 26]
    assert [(cell.credits, cell.credited, cell.retries) for cell in cells] == [(26, 1, 0), (26, 1, 1)]
    world = World(Scripted(hang), Scripted(WELL))
    cells = billed(world, MethodCosts({"m": 26, "*": 3}))
    await world.call(hedge_after=0.5)
    assert used(world) == [26, 26]
    assert [(cell.credits, cell.hedges) for cell in cells] == [(26, 0), (26, 1)]


@instantly
async def test_without_costs_a_quota_counts_calls_and_no_credits() -> None:
    world = World(Scripted(WELL))
    (cell,) = billed(world, MethodCosts(heavy=20))
    await world.call(heavy=True)
    assert (used(world), cell.calls, cell.credits, cell.credited) == ([20], 1, 0, 0)


@instantly
async def test_a_retry_does_not_wait_for_room() -> None:
    world = World(Scripted(breaks(FailureKind.BROKEN_REPLY)), Scripted(WELL))
    world.nodes[1].limit.value, world.nodes[1].held[Bulkhead.LIGHT] = 1.0, 1
    assert (await world.call()).node_id == "b"


@instantly
async def test_heavy_calls_queue_among_themselves_and_a_light_one_passes_them_by() -> None:
    gate = asyncio.Event()

    async def slow(timeout: float) -> Reply:  # noqa: ARG001
        await gate.wait()
        return Answer(result=b"2")

    world = World(Scripted(slow, slow, WELL))
    world.nodes[0].max_heavy = 2
    heavy = [asyncio.create_task(world.call(heavy=True)) for _ in range(5)]
    await asyncio.sleep(0)
    assert [len(room) for room in world.pool.rooms] == [0, 3, 0, 0]
    assert (await world.call()).answer == Answer(result=b"1")
    assert [len(room) for room in world.pool.rooms] == [0, 3, 0, 0]
    heavy.pop().cancel()
    await asyncio.sleep(0)
    assert [len(room) for room in world.pool.rooms] == [0, 2, 0, 0], "whoever leaves waits no more"
    gate.set()
    assert all(found.failure is None for found in await asyncio.gather(*heavy))
    assert [len(room) for room in world.pool.rooms] == [0, 0, 0, 0]
    world.assert_nothing_is_left_open()


@instantly
async def test_a_heavy_call_for_which_there_is_no_place_to_wait_is_told_so() -> None:
    world = World(Scripted(hang), rooms=tuple(WaitQueue(most=0) for _ in Bulkhead))
    world.nodes[0].begin(0.0, Bulkhead.HEAVY)
    world.nodes[0].max_heavy = 1
    found = await world.call(heavy=True)
    assert found.failure
    assert found.failure.kind is FailureKind.BUSY
    assert found.failure.text == "every node that may be asked has as many heavy calls as it may have at once"
    assert [room.refused for room in world.pool.rooms] == [0, 1, 0, 0]
    world.nodes[0].quota = Quota(QuotaLimits(second=0.01), now=asyncio.get_running_loop().time(), epoch=0.0)
    world.nodes[0].quota.spend("eth_call", False, asyncio.get_running_loop().time())
    found = await world.call()
    assert found.failure
    assert found.failure.text == "every node that may be asked has used up its quota of this second"
