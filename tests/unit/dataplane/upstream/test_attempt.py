from __future__ import annotations

import asyncio
from functools import partial

import pytest
from msgspec.structs import replace

from rpcaccel.core.dispatch.machine import Asked
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import UNKNOWN_RULE, Bulkhead, CacheClass, Rule
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.stats.counters import NodeCell
from rpcaccel.dataplane.upstream.attempt import Attempt, attempt
from rpcaccel.dataplane.upstream.pool import NodePool
from tests.support.dataplane.fake_client import FakeClient, pool_of
from tests.support.plans import plan_of
from tests.support.waiting import until

PLAN = plan_of()


class Says(FakeClient):
    """An upstream with one answer."""

    def __init__(self, reply: Answer | Failure | None) -> None:
        self.reply = reply

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        if self.reply is None:
            await asyncio.sleep(timeout)
            raise AssertionError("nobody waited")
        return self.reply


class Run:
    """Attempts of one call, one after the other."""

    def __init__(self, plan: Plan, pool: NodePool) -> None:
        self.plan = plan
        self.pool = pool
        self.made: list[Attempt] = []

    async def send(self, asked: Asked) -> tuple[Answer | Failure, FailureKind | None]:
        made, reply, kind = await attempt(self.plan, self.pool, asked)
        self.made.append(made)
        return reply, kind


def attempts(reply: Answer | Failure | None, plan: Plan = PLAN) -> tuple[Run, Node, NodeCell]:
    cell = NodeCell("n", "a")
    pool = pool_of(Says(reply), clock=lambda: 5.0, cells={"a": cell})
    return Run(plan, pool), pool.nodes[0], cell


async def test_an_answer_is_counted_with_its_bytes() -> None:
    run, node, cell = attempts(Answer(result=b"1234", elapsed=0.2))
    node.head = 9
    assert await run.send(Asked(1, node, 1.0)) == (Answer(result=b"1234", elapsed=0.2), None)
    assert (cell.calls, cell.retries, cell.hedges, cell.size_in, cell.latency.count) == (1, 0, 0, 4, 1)
    assert (run.made[0].head, run.made[0].end, node.in_flight) == (9, "answered", 0)
    assert repr(run.made[0]) == "<attempt 1 of m at a>"


@pytest.mark.parametrize(
    ("rule", "reply", "timed"),
    [
        (PLAN.rule, Answer(result=b"1", elapsed=0.2), {"m": (1, 0.2)}),
        (Rule(method="m", cache=CacheClass.NEVER, heavy=True), Answer(result=b"1", elapsed=9.0), {"m": (1, 9.0)}),
        (UNKNOWN_RULE, Answer(result=b"1", elapsed=0.2), {}),
        (PLAN.rule, Answer(error=b'{"code":3,"message":"no"}', elapsed=0.2), {}),
    ],
)
async def test_good_answers_are_timed_by_the_method_of_their_rule(
    rule: Rule, reply: Answer, timed: dict[str, tuple[int, float]]
) -> None:
    run, node, cell = attempts(reply, replace(PLAN, rule=rule))
    await run.send(Asked(1, node, 1.0))
    assert {method: (one.count, one.seconds) for method, one in cell.by_method.items()} == timed


@pytest.mark.parametrize(("hedge", "counts"), [(False, (1, 0)), (True, (0, 1))])
async def test_a_second_attempt_is_a_retry_or_a_hedge(hedge: bool, counts: tuple[int, int]) -> None:
    run, node, cell = attempts(Answer(result=b"1"))
    await run.send(Asked(2, node, 1.0, hedge))
    assert (cell.retries, cell.hedges) == counts


async def test_a_failure_is_counted_by_its_kind() -> None:
    run, node, cell = attempts(Failure(FailureKind.CONNECT, "refused", sent=False))
    assert (await run.send(Asked(1, node, 1.0)))[1] is FailureKind.CONNECT
    assert (cell.failures, cell.latency.count, node.breaker.in_row) == ({"connect": 1}, 0, 1)


async def test_a_nodes_error_is_judged_by_the_chain() -> None:
    run, node, cell = attempts(Answer(error=b'{"code":3,"message":"no"}'))
    assert (await run.send(Asked(1, node, 1.0)))[1] is FailureKind.REVERT
    assert (cell.failures, cell.latency.count) == ({"revert": 1}, 1)


async def test_a_result_that_the_method_never_has_is_a_failure_of_the_node() -> None:
    scalar = Rule(method="m", cache=CacheClass.HEAD, form="scalar")
    run, node, cell = attempts(Answer(result=b"[]"), replace(PLAN, rule=scalar))
    assert (await run.send(Asked(1, node, 1.0)))[1] is FailureKind.IMPOSSIBLE
    assert (cell.failures, node.breaker.in_row) == ({"impossible-result": 1}, 1)


@pytest.mark.parametrize(
    ("rule", "in_row"),
    [(PLAN.rule, 1), (Rule(method="m", cache=CacheClass.NEVER, heavy=True), 0), (UNKNOWN_RULE, 0)],
)
async def test_only_a_light_call_that_takes_too_long_is_a_failure_of_the_node(rule: Rule, in_row: int) -> None:
    run, node, cell = attempts(Failure(FailureKind.TIMEOUT, "no answer"), replace(PLAN, rule=rule))
    assert (await run.send(Asked(1, node, 1.0)))[1] is FailureKind.TIMEOUT
    assert (cell.failures, node.breaker.in_row, node.limit.value < 512) == ({"timeout": 1}, in_row, bool(in_row))


@pytest.mark.parametrize("bulkhead", Bulkhead)
async def test_whoever_cannot_be_reached_fails_whatever_the_call(bulkhead: Bulkhead) -> None:
    rules = {
        Bulkhead.HEAVY: Rule(method="m", cache=CacheClass.NEVER, heavy=True),
        Bulkhead.UNKNOWN: UNKNOWN_RULE,
        Bulkhead.EXECUTION: Rule(method="m", cache=CacheClass.NEVER, executes=True),
    }
    plan = replace(PLAN, rule=rules.get(bulkhead, PLAN.rule))
    run, node, _ = attempts(Failure(FailureKind.CONNECT, "refused", sent=False), plan)
    await run.send(Asked(1, node, 1.0))
    assert (node.breaker.in_row, node.held) == (1, [0, 0, 0, 0])


async def test_methods_without_a_rule_rest_no_longer_once_one_of_them_is_answered() -> None:
    run, node, _ = attempts(Answer(result=b"1"), replace(PLAN, method="foo_one", rule=UNKNOWN_RULE))
    node.learn(FailureKind.RATE_LIMITED, replace(PLAN, method="foo_two", rule=UNKNOWN_RULE), 1.0, retry_after=2.0)
    await run.send(Asked(1, node, 1.0))
    assert not node.parking.methods


async def test_a_bug_in_judging_a_reply_is_a_failure_and_leaves_nothing_open() -> None:
    unseen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unseen.append(context["exception"]))
    run, node, cell = attempts(Answer(error=b'{"code":3,"message":"no"}'))

    def stumble(_code: int, _message: str, _status: int) -> FailureKind:
        raise KeyError("a bug")

    run.pool.classify = stumble
    reply, kind = await run.send(Asked(1, node, 1.0))
    assert isinstance(reply, Failure)
    assert (kind, node.in_flight, cell.failures) == (FailureKind.UNKNOWN, 0, {"unknown": 1})
    assert isinstance(unseen[0], KeyError)


class Holds(FakeClient):
    """An upstream that sends nothing by itself."""

    def call(self, attempt: Attempt) -> None: ...

    def leave(self, attempt: Attempt) -> None: ...


Told = list[tuple[int, FailureKind | None]]


def together(count: int) -> tuple[list[Attempt], NodePool, NodeCell, Told]:
    """Attempts that one request carries, begun at 1, 2, ... and what each is told."""
    told: Told = []
    cell = NodeCell("n", "a")
    pool = pool_of(Holds(), clock=lambda: 10.0, cells={"a": cell})

    def over(attempt: Attempt, _reply: Answer | Failure, kind: FailureKind | None) -> None:
        told.append((attempt.asked.number, kind))
        if attempt.asked.number == 2:
            raise KeyError("a bug")

    asked = [Asked(number, pool.nodes[0], 1.0) for number in range(1, count + 1)]
    return [Attempt(PLAN, pool, one, float(one.number), over) for one in asked], pool, cell, told


async def test_what_one_reply_says_to_several_attempts_is_booked_for_each() -> None:
    made, pool, cell, told = together(5)
    node, unseen = pool.nodes[0], []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unseen.append(context["exception"]))
    made[3].cut("cancelled")
    revert = Answer(error=b'{"code":3,"message":"no"}', elapsed=0.2)
    good = Answer(result=b"1234", elapsed=0.2)
    Attempt.settle(made, [good, good, revert, good, Failure(FailureKind.CONNECT, "refused", sent=False)])
    assert told == [(1, None), (2, None), (3, FailureKind.REVERT), (5, FailureKind.CONNECT)]
    assert [type(error) for error in unseen] == [KeyError], "a bug of one caller keeps no other waiting"
    assert (node.in_flight, node.held, node.replied_at) == (0, [0] * 4, 10.0)
    assert (cell.calls, cell.latency.count, cell.size_in) == (5, 3, 8)
    assert cell.latency.seconds == pytest.approx(0.6)
    assert cell.failures == {"cancelled": 1, "revert": 1, "connect": 1}
    assert node.attempts.totals(10.0)[0] == 3
    assert node.breaker.counts.totals(10.0) == [3, 1]
    pace = node.pace.of("m")
    assert pace is not None
    assert (pace.count, node.latency.ewma) == (2, 9.0)
    Attempt.settle(made, [good] * 5)
    assert (len(told), cell.latency.count) == (4, 3), "an attempt that is over is told nothing more"


async def test_room_that_several_attempts_leave_is_for_as_many_calls_that_wait() -> None:
    made, pool, _, _ = together(3)
    looked: list[int] = []
    waiting = [partial(looked.append, number) for number in range(5)]
    for one in waiting:
        pool.rooms[Bulkhead.LIGHT].wait(one, 1.0)
    Attempt.settle(made, [Answer(result=b"1")] * 3)
    await until(lambda: len(looked) >= 3)
    assert looked == [0, 1, 2]
    for one in waiting:
        pool.rooms[Bulkhead.LIGHT].leave(one)


async def test_a_bug_in_booking_keeps_no_caller_waiting() -> None:
    made, pool, _, told = together(1)
    pool.cells["a"].latency.counts.clear()
    with pytest.raises(IndexError):
        Attempt.settle(made, [Answer(result=b"1")])
    assert told == [(1, None)]
