"""A call that begins without a task ends like one that has the machine of attempts from the beginning."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rpcaccel.core.dispatch.batching import Gathering
from rpcaccel.core.dispatch.commands import Hedging
from rpcaccel.core.dispatch.retry_budget import Budget
from rpcaccel.core.nodes.quota import Quota, QuotaLimits
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass, Rule, RuleTable
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.dataplane.upstream import first_attempt
from rpcaccel.dataplane.upstream.batcher import Batcher
from rpcaccel.dataplane.upstream.first_attempt import FirstAttempt
from rpcaccel.dataplane.upstream.forward import Forwarded, forward
from tests.support.instant_time import instantly
from tests.unit.dataplane.upstream.test_forward import WELL, Behaviour, Scripted, World, breaks, error, hang

BAD: dict[str, Behaviour] = {
    "well": WELL,
    "connect": breaks(FailureKind.CONNECT, sent=False),
    "timeout": breaks(FailureKind.TIMEOUT),
    "reset": breaks(FailureKind.RESET_BEFORE_REPLY),
    "garbage": breaks(FailureKind.NOT_JSON_RPC),
    "revert": error("revert"),
    "pruned": error("pruned"),
    "missing": error("missing"),
    "limit": error("limit"),
    "behind": error("behind"),
    "unknown": error("never seen"),
}


def plan_of(*, repeat: bool = True, kind: str = "read", heavy: bool = False) -> Plan:
    rule = Rule(method="m", cache=CacheClass.HEAD, repeat=repeat, kind=kind, heavy=heavy)  # type: ignore[arg-type]
    return Plan(network="n", method="m", rule=rule, params=b"[1]", asked=b"[1]", cache=CacheClass.HEAD, hedge=True)


class Run:
    """A call over a world, and what it ended with."""

    def __init__(self, world: World, *, gathered: bool, repeat: bool = True, within: float = 5.0) -> None:
        self.world = world
        self.plan = plan_of(repeat=repeat)
        pool = world.pool
        if gathered:
            rules = RuleTable({"m": self.plan.rule})
            pool.upstreams = {
                id: Batcher(upstream, rules, 512, pool.clock, Gathering())  # type: ignore[arg-type]
                for id, upstream in pool.upstreams.items()
            }
        self.ends: list[Forwarded | Exception] = []
        self.over = asyncio.Event()
        self.first = first_attempt.begin(
            self.plan, pool, deadline=pool.clock() + within, route_key=b"", ended=self._ended
        )  # fmt: skip

    def _ended(self, end: Forwarded | Exception) -> None:
        self.ends.append(end)
        self.over.set()

    async def end(self) -> Forwarded:
        """How it ended, once; nothing is left open."""
        async with asyncio.timeout(20):
            await self.over.wait()
        await asyncio.sleep(0)
        self.world.assert_nothing_is_left_open()
        assert len(self.ends) == 1
        (end,) = self.ends
        assert isinstance(end, Forwarded)
        return end

    def begun(self) -> FirstAttempt:
        assert self.first is not None
        return self.first


def seen(world: World, end: Forwarded) -> tuple[object, ...]:
    """All that a call did."""
    nodes = [
        (node.breaker.in_row, bool(node.parking.methods), sorted(node.lacks), node.in_flight) for node in world.nodes
    ]
    failure = end.failure and end.failure.kind
    return end.answer, failure, end.node_id, end.attempts, end.tried, end.steps, end.forced, world.asked, nodes


@pytest.mark.parametrize("gathered", [True, False])
@pytest.mark.parametrize("repeat", [True, False])
@pytest.mark.parametrize("bad", BAD)
@instantly
async def test_it_ends_as_if_the_machine_had_been_there(bad: str, repeat: bool, gathered: bool) -> None:
    def world() -> World:
        return World(Scripted(BAD[bad]), Scripted(BAD[bad], WELL), Scripted(WELL))

    one, other = world(), world()
    end = await Run(one, gathered=gathered and repeat, repeat=repeat).end()
    plan = plan_of(repeat=repeat)
    wanted = await forward(plan, other.pool, deadline=other.pool.clock() + 5.0)
    assert seen(one, end) == seen(other, wanted)


@pytest.mark.parametrize("gathered", [True, False])
@instantly
async def test_a_slow_first_attempt_is_hedged_and_the_quicker_one_wins(gathered: bool) -> None:
    world = World(Scripted(hang), Scripted(WELL))
    world.pool.hedging = Hedging(at_least=0.02, samples=1)
    for node in world.nodes:
        node.pace.answered("m", 0.001, 0.0)
    end = await Run(world, gathered=gathered).end()
    assert (end.node_id, end.attempts, world.asked) == ("b", 2, [1, 1])
    assert world.scripts[0].cancelled == 1


@pytest.mark.parametrize("gathered", [True, False])
@instantly
async def test_what_waits_for_a_node_that_is_found_to_hang_goes_to_another_at_once(gathered: bool) -> None:
    world = World(Scripted(hang), Scripted(WELL))
    world.pool.hedging = Hedging(at_least=4.0, samples=1)
    for node in world.nodes:
        node.pace.answered("m", 0.001, 0.0)
    run = Run(world, gathered=gathered)
    async with asyncio.timeout(20):
        while not world.scripts[0].asked:
            await asyncio.sleep(0.001)
    world.pool.desert("b")
    assert world.asked == [1, 0]
    world.pool.desert("a")
    world.pool.desert("a")
    end = await run.end()
    assert (end.node_id, end.attempts, world.asked) == ("b", 2, [1, 1])
    assert not any(world.pool.waiting.values())


@instantly
async def test_what_waits_for_a_node_that_hangs_needs_no_budget_and_no_known_pace() -> None:
    world = World(Scripted(hang), Scripted(WELL), budget=Budget(share=0.0, floor=0.0))
    world.pool.hedging = Hedging()
    run = Run(world, gathered=True)
    async with asyncio.timeout(20):
        while not world.scripts[0].asked:
            await asyncio.sleep(0.001)
    world.pool.desert("a")
    end = await run.end()
    assert (end.node_id, end.attempts, world.asked) == ("b", 2, [1, 1])
    assert world.scripts[0].cancelled == 1, "it was not waited for"


@instantly
async def test_a_first_attempt_that_answers_beside_its_hedge_wins() -> None:
    go = asyncio.Event()

    async def when_told(timeout: float) -> object:
        await go.wait()
        return await WELL(timeout)

    async def tells(timeout: float) -> object:
        go.set()
        return await hang(timeout)

    world = World(Scripted(when_told), Scripted(tells))  # type: ignore[arg-type]
    world.pool.hedging = Hedging(at_least=0.02, samples=1)
    for node in world.nodes:
        node.pace.answered("m", 0.001, 0.0)
    end = await Run(world, gathered=True).end()
    assert (end.node_id, world.asked, world.scripts[1].cancelled) == ("a", [1, 1], 1)


@instantly
async def test_a_quick_call_is_not_hedged() -> None:
    world = World(Scripted(WELL), Scripted(WELL))
    world.pool.hedging = Hedging(at_least=0.02, samples=1)
    world.nodes[0].pace.answered("m", 0.001, 0.0)
    assert (await Run(world, gathered=True).end()).attempts == 1
    assert len(world.pool.late) == 0


def _before_a_task(run: Run) -> None:
    pass


def _with_a_task_that_has_not_begun(run: Run) -> None:
    run.begun().late()


@pytest.mark.parametrize("gathered", [True, False])
@pytest.mark.parametrize("state", [_before_a_task, _with_a_task_that_has_not_begun])
@instantly
async def test_a_cancelled_call_leaves_nothing_open_and_tells_nobody(
    gathered: bool, state: Callable[[Run], None]
) -> None:
    world = World(Scripted(hang), Scripted(hang))
    run = Run(world, gathered=gathered)
    await asyncio.sleep(0.01)
    state(run)
    run.begun().cancel()
    await asyncio.sleep(0.01)
    assert [node.in_flight for node in world.nodes] == [0, 0]
    assert (run.ends, world.scripts[0].cancelled) == ([], 1)


@instantly
async def test_a_cancelled_call_that_a_task_has_taken_over_is_ended_with_its_hedge() -> None:
    world = World(Scripted(hang), Scripted(hang))
    run = Run(world, gathered=True)
    run.begun().late()
    for _ in range(10):
        await asyncio.sleep(0.001)
    run.begun().cancel()
    await asyncio.sleep(0.01)
    assert [node.in_flight for node in world.nodes] == [0, 0]
    assert run.ends == []


@instantly
async def test_a_bug_belongs_to_the_call() -> None:
    async def broken(timeout: float) -> object:  # noqa: ARG001
        raise RuntimeError("broken")

    world = World(Scripted(broken))  # type: ignore[arg-type]
    run = Run(world, gathered=False)
    async with asyncio.timeout(20):
        await run.over.wait()
    (end,) = run.ends
    assert isinstance(end, Forwarded)
    assert end.failure is not None
    assert end.failure.kind is FailureKind.UNKNOWN
    assert world.nodes[0].in_flight == 0


@instantly
async def test_what_cannot_begin_so_does_nothing() -> None:
    world = World(Scripted(WELL))
    pool = world.pool

    def begin(plan: Plan, deadline: float) -> FirstAttempt | None:
        return first_attempt.begin(plan, pool, deadline=deadline, route_key=b"", ended=lambda _end: None)

    assert begin(plan_of(kind="write"), pool.clock() + 1) is None
    assert begin(plan_of(), pool.clock() - 1) is None
    world.nodes[0].drained = True
    assert begin(plan_of(), pool.clock() + 1) is None
    assert world.asked == [0]


@instantly
async def test_a_quota_is_spent() -> None:
    world = World(Scripted(WELL))
    world.nodes[0].quota = quota = Quota(QuotaLimits(second=1), now=world.pool.clock(), epoch=0.0)
    await Run(world, gathered=True).end()
    assert "1 today" in repr(quota)
