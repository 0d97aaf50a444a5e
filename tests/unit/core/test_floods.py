"""What clients get wrong takes no retry from a read: one of three nodes goes bad while wrong calls come in floods."""

from __future__ import annotations

import heapq
from collections.abc import Collection
from itertools import count
from random import Random

import pytest

from rpcaccel.core.dispatch.dispatch_policy import DispatchSettings
from rpcaccel.core.dispatch.machine import Asked, CallState, Dispatch, NextStep
from rpcaccel.core.dispatch.retry_budget import Budget
from rpcaccel.core.nodes.eligibility import eligible
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import UNKNOWN_RULE, CacheClass, Rule
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind, policy

READS = 3_000
WRONG_PER_READ = 4
STEP = 0.001
"""Seconds between two reads."""
GOES_BAD, COMES_BACK = 0.5, 1.7
"""When the node goes bad, and when one that restarts is back."""
HANGS = 1.0
"""Seconds until an attempt on a frozen node has failed."""
MISSING = Failure(FailureKind.METHOD_MISSING, "the method does not exist")
WRONG: list[tuple[bool, Failure]] = [
    (False, MISSING),
    (True, Failure(FailureKind.INVALID_PARAMS, "invalid argument 0")),
    (True, Failure(FailureKind.REVERT, "execution reverted")),
    (True, Failure(FailureKind.UNKNOWN, "an error that no table knows")),
    (True, Failure(FailureKind.NODE_BEHIND, "header not found")),
    (True, Failure(FailureKind.CALL_REFUSED, "HTTP 413")),
    (True, Failure(FailureKind.NODE_TIMEOUT, "execution timeout")),
]
"""What a well node says to wrong calls, and whether a table describes their method."""
DYING = (
    Failure(FailureKind.RESET_BEFORE_REPLY, "the node had closed a connection it kept open for us"),
    Failure(FailureKind.CONNECT, "refused", sent=False),
)


class Balanced:
    """Who is asked, by eligibility and chance."""

    def __init__(self, nodes: list[Node], plan: Plan, rng: Random) -> None:
        self._nodes, self._plan, self._rng = nodes, plan, rng

    def next(self, avoid: Collection[str], now: float) -> Node | None:
        found = eligible(self._nodes, self._plan, now, avoid)
        return self._rng.choice(found.nodes) if found.nodes and not (found.forced and avoid) else None

    def spare(self, beside: Node, avoid: Collection[str], now: float) -> Node | None:
        return self.next(avoid, now)

    forced = False

    def behind(self, now: float) -> bool:
        return False

    def nobody(self, now: float) -> Failure:
        return Failure(FailureKind.NO_NODE, "nobody", sent=False)


class Flood:
    """Three nodes, of which one goes bad, and calls: each attempt ends at its time, as its node would end it."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.rng = Random(1)
        self.nodes = [Node(name) for name in "abc"]
        self.budget = Budget()
        self.sends = self.failed_reads = 0
        self._numbers = count()
        self._due: list[tuple[float, int, Dispatch, Plan, Asked, Failure | None]] = []

    def call(self, plan: Plan, wrong: Failure | None, now: float) -> None:
        """A call that a well node answers with what is `wrong` with it; None: it is a read, and answered."""
        machine = Dispatch(plan, Balanced(self.nodes, plan, self.rng), self.budget, DispatchSettings(), ends=now + 30.0)
        self._obey(machine, plan, wrong, machine.start(now), now)

    def go_on(self, until: float) -> None:
        """Let everything end that ends until then."""
        while self._due and self._due[0][0] <= until:
            now, _, machine, plan, start, wrong = heapq.heappop(self._due)
            failure = self._says(start.node, wrong, now)
            kind = None if failure is None else failure.kind
            permit = start.node.begin(now)
            start.node.finish(permit, "success" if kind is None else policy(kind).breaker, now)
            if kind is not None:
                start.node.learn(kind, plan, now)
            if failure is None:
                done = machine.answered(start.number, Answer(result=b"1"), None, now)
            else:
                done = machine.failed(start.number, failure, now)
            self._obey(machine, plan, wrong, done, now)

    def _obey(self, machine: Dispatch, plan: Plan, wrong: Failure | None, done: NextStep, now: float) -> None:
        if isinstance(done, Asked):
            self.sends += 1
            ends = now + (HANGS if self._bad(done.node, now) and self.how == "frozen" else 0.002)
            heapq.heappush(self._due, (ends, next(self._numbers), machine, plan, done, wrong))
        elif done is not None:
            assert machine.state is CallState.SETTLED
            self.failed_reads += wrong is None and done.failure is not None

    def _bad(self, node: Node, now: float) -> bool:
        ends = COMES_BACK if self.how == "restarting" else float("inf")
        return node.id == "a" and GOES_BAD <= now < ends

    def _says(self, node: Node, wrong: Failure | None, now: float) -> Failure | None:
        if not self._bad(node, now):
            return wrong
        return Failure(FailureKind.TIMEOUT, "no answer") if self.how == "frozen" else self.rng.choice(DYING)


def read() -> Plan:
    rule = Rule(method="read", cache=CacheClass.HEAD)
    return Plan(network="n", method="read", rule=rule, params=b"[]", asked=b"[]", cache=CacheClass.HEAD)


def wrong_call(number: int, *, known: bool) -> Plan:
    if known:
        return read()
    return Plan(
        network="n", method=f"invented_{number}", rule=UNKNOWN_RULE, params=b"[]", asked=b"[]", cache=CacheClass.NEVER
    )


@pytest.mark.parametrize("how", ["killed", "frozen", "restarting"])
def test_no_read_fails_while_wrong_calls_come_in_floods(how: str) -> None:
    flood = Flood(how)
    for number in range(READS):
        now = number * STEP
        flood.go_on(now)
        flood.call(read(), None, now)
        for which in range(WRONG_PER_READ):
            known, failure = flood.rng.choice(WRONG)
            flood.call(wrong_call(number * WRONG_PER_READ + which, known=known), failure, now)
    flood.go_on(float("inf"))
    assert flood.failed_reads == 0
    assert flood.sends < 1.5 * READS * (1 + WRONG_PER_READ), "and the flood is not multiplied"
