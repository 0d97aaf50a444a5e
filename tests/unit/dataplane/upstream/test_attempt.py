from __future__ import annotations

import asyncio
from random import Random

import pytest
from msgspec.structs import replace

from rpcaccel import balancers
from rpcaccel.core.dispatch.machine import Asked
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import UNKNOWN, Bulkhead, CacheClass, Rule
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.stats.counters import NodeCell
from rpcaccel.dataplane.upstream.attempt import Attempt, attempt
from rpcaccel.dataplane.upstream.pool import NodePool
from tests.support.dataplane.fake_client import FakeClient

PLAN = Plan(
    network="n",
    method="m",
    rule=Rule(method="m", cache=CacheClass.HEAD),
    params=b"[]",
    asked=b"[]",
    cache=CacheClass.HEAD,
)


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
    node, cell = Node("a"), NodeCell("n", "a")
    pool = NodePool(
        nodes=[node],
        balancer=balancers.load("smooth_weighted"),
        upstreams={"a": Says(reply)},
        classify=lambda _code, _message, _status: FailureKind.REVERT,
        clock=lambda: 5.0,
        rng=Random(1),
        cells={"a": cell},
    )
    return Run(plan, pool), node, cell


async def test_an_answer_is_counted_with_its_bytes() -> None:
    run, node, cell = attempts(Answer(result=b"1234", elapsed=0.2))
    node.head = 9
    assert await run.send(Asked(1, node, 1.0)) == (Answer(result=b"1234", elapsed=0.2), None)
    assert (cell.calls, cell.retries, cell.hedges, cell.size_in, cell.latency.count) == (1, 0, 0, 4, 1)
    assert (run.made[0].head, run.made[0].end, node.in_flight) == (9, "answered", 0)
    assert repr(run.made[0]) == "<attempt 1 of m at a>"


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


async def test_a_cancelled_attempt_gives_its_permit_back() -> None:
    run, node, _ = attempts(None)
    sending = asyncio.create_task(run.send(Asked(1, node, 10.0)))
    await asyncio.sleep(0)
    assert node.in_flight == 1
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert (node.in_flight, node.breaker.in_row) == (0, 0)


async def test_a_result_that_the_method_never_has_is_a_failure_of_the_node() -> None:
    scalar = Rule(method="m", cache=CacheClass.HEAD, form="scalar")
    run, node, cell = attempts(Answer(result=b"[]"), replace(PLAN, rule=scalar))
    assert (await run.send(Asked(1, node, 1.0)))[1] is FailureKind.IMPOSSIBLE
    assert (cell.failures, node.breaker.in_row) == ({"impossible-result": 1}, 1)


@pytest.mark.parametrize(
    ("rule", "in_row"),
    [(PLAN.rule, 1), (Rule(method="m", cache=CacheClass.NEVER, heavy=True), 0), (UNKNOWN, 0)],
)
async def test_only_a_light_call_that_takes_too_long_is_a_failure_of_the_node(rule: Rule, in_row: int) -> None:
    run, node, cell = attempts(Failure(FailureKind.TIMEOUT, "no answer"), replace(PLAN, rule=rule))
    assert (await run.send(Asked(1, node, 1.0)))[1] is FailureKind.TIMEOUT
    assert (cell.failures, node.breaker.in_row, node.limit.value < 512) == ({"timeout": 1}, in_row, bool(in_row))


@pytest.mark.parametrize("bulkhead", Bulkhead)
async def test_whoever_cannot_be_reached_fails_whatever_the_call(bulkhead: Bulkhead) -> None:
    rules = {
        Bulkhead.HEAVY: Rule(method="m", cache=CacheClass.NEVER, heavy=True),
        Bulkhead.UNKNOWN: UNKNOWN,
        Bulkhead.EXECUTION: Rule(method="m", cache=CacheClass.NEVER, executes=True),
    }
    plan = replace(PLAN, rule=rules.get(bulkhead, PLAN.rule))
    run, node, _ = attempts(Failure(FailureKind.CONNECT, "refused", sent=False), plan)
    await run.send(Asked(1, node, 1.0))
    assert (node.breaker.in_row, node.held) == (1, [0, 0, 0, 0])


async def test_methods_without_a_rule_rest_no_longer_once_one_of_them_is_answered() -> None:
    run, node, _ = attempts(Answer(result=b"1"), replace(PLAN, method="foo_one", rule=UNKNOWN))
    node.learn(FailureKind.RATE_LIMITED, replace(PLAN, method="foo_two", rule=UNKNOWN), 1.0, retry_after=2.0)
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
