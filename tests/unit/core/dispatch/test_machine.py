from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcaccel.core.dispatch.dispatch_policy import DispatchSettings, Settle
from rpcaccel.core.dispatch.machine import LEGAL_EVENTS, Asked, CallState, Dispatch, HedgeAfter, IllegalEvent, NextStep
from rpcaccel.core.dispatch.retry_budget import Budget
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import UNKNOWN_RULE, CacheClass, Rule
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind, policy
from tests.support.properties import examples

OK = Answer(result=b"1")
ERROR = Answer(error=b'{"code":-32000,"message":"said the node"}', retry_after=3.0)


class InOrder:
    """Gives nodes in their order."""

    forced = False

    def __init__(self, count: int, timeout: float = 10.0) -> None:
        self.nodes = [Node("abcdef"[number], timeout=timeout) for number in range(count)]
        self.out: set[str] = set()

    def next(self, avoid: Collection[str], now: float) -> Node | None:
        return next((node for node in self.nodes if node.id not in avoid and node.id not in self.out), None)

    def spare(self, beside: Node, avoid: Collection[str], now: float) -> Node | None:
        return self.next(avoid, now)

    def behind(self, now: float) -> bool:
        return False

    def nobody(self, now: float) -> Failure:
        return Failure(FailureKind.NO_NODE, "nobody", sent=False)


def plan(*, repeat: bool = True, hedge: bool = False) -> Plan:
    rule = Rule(method="m", cache=CacheClass.HEAD, repeat=repeat)
    return Plan(network="n", method="m", rule=rule, params=b"[]", asked=b"[]", cache=CacheClass.HEAD, hedge=hedge)


class Words(list[str]):
    """What a machine said after an event."""

    asked: Asked | None = None
    end: Settle | None = None


class Run:
    """A machine, and what is to be done after each event, in words."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.machine = Dispatch(*args, **options)
        self._running: list[int] = []
        self._due = inf

    def start(self, now: float) -> Words:
        return self._said(self.machine.start(now), now)

    def answered(self, attempt: int, answer: Answer, kind: FailureKind | None, now: float) -> Words:
        return self._said(self.machine.answered(attempt, answer, kind, now), now, attempt)

    def failed(self, attempt: int, failure: Failure, now: float) -> Words:
        return self._said(self.machine.failed(attempt, failure, now), now, attempt)

    def tick(self, now: float) -> Words:
        return self._said(self.machine.tick(now), now)

    def abandoned(self, now: float) -> Words:
        return self._said(self.machine.abandoned(now), now)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.machine, name)

    def _said(self, done: NextStep, now: float, over: int | None = None) -> Words:
        machine, words = self.machine, Words()
        if over is not None:
            self._running.remove(over)
        if isinstance(done, Asked):
            words.append(f"{'hedge' if done.hedge else 'ask'} {done.node.id}")
            words.asked = done
            self._running.append(done.number)
        if isinstance(done, Settle):
            words.extend(f"stop {attempt}" for attempt in self._running)
            words.append(f"end {done.failure.kind.value if done.failure else 'well'}")
            words.end = done
        elif machine.due not in (inf, self._due):
            words.append(f"wait {machine.due - now:g}")
        self._due = machine.due
        return words


def machine(
    count: int = 3,
    call: Plan | None = None,
    *,
    budget: Budget | None = None,
    ends: float = 30.0,
    hedge_after: float | HedgeAfter | None = None,
    chooser: InOrder | None = None,
    **options: float,
) -> Run:
    return Run(
        call or plan(),
        chooser or InOrder(count),
        budget or Budget(),
        DispatchSettings(**options),  # type: ignore[arg-type]
        ends=ends,
        hedge_after=(lambda _method, _node: hedge_after) if isinstance(hedge_after, float) else hedge_after,
    )


def fail(kind: FailureKind, *, sent: bool = True) -> Failure:
    return Failure(kind, kind.value, sent=sent)


def settled(words: Words) -> Settle:
    assert words.end is not None
    return words.end


def test_a_good_answer_ends_the_call() -> None:
    run = machine()
    assert run.start(0.0) == ["ask a"]
    end = settled(run.answered(1, OK, None, 0.1))
    assert (end.answer, end.failure, end.node and end.node.id) == (OK, None, "a")
    assert run.state is CallState.SETTLED


def test_without_a_node_the_call_ends_at_once() -> None:
    assert machine(0).start(0.0) == ["end no-node"]


def test_a_broken_attempt_goes_to_a_node_not_yet_tried() -> None:
    run = machine()
    run.start(0.0)
    assert run.failed(1, fail(FailureKind.TIMEOUT), 1.0) == ["ask b"]
    assert run.failed(2, fail(FailureKind.HTTP_STATUS), 2.0) == ["ask c"]
    assert run.failed(3, fail(FailureKind.CONNECT, sent=False), 3.0) == ["end timeout"]
    assert run.steps == (("a", "timeout"), ("b", "http-status"), ("c", "connect"))
    assert run.tried == ("a", "b", "c")


def test_a_call_that_a_node_refuses_is_shown_to_one_other_node() -> None:
    run = machine(5, attempts=5)
    run.start(0.0)
    assert run.failed(1, fail(FailureKind.CALL_REFUSED), 1.0) == ["ask b"]
    assert run.failed(2, fail(FailureKind.CALL_REFUSED), 1.0) == ["end call-refused"]
    other = machine(5, attempts=5)
    other.start(0.0)
    other.failed(1, fail(FailureKind.TIMEOUT), 1.0)
    assert other.failed(2, fail(FailureKind.CALL_REFUSED), 1.0) == ["end call-refused"]


def test_what_waits_for_a_node_that_hangs_is_asked_of_another_at_once() -> None:
    run = machine(call=plan(hedge=True), hedge_after=1.0)
    assert run.start(0.0) == ["ask a", "wait 1"]
    assert run.abandoned(0.5) == ["hedge b"]
    assert run.abandoned(0.6) == [], "one beside it is enough"
    with pytest.raises(IllegalEvent):
        run.tick(1.0)
    assert run.answered(2, OK, None, 1.1) == ["stop 1", "end well"]
    late = machine(call=plan(hedge=True), hedge_after=1.0, budget=Budget(share=0.0, floor=0.0))
    late.start(0.0)
    assert late.tick(1.0) == [], "no budget"
    assert late.abandoned(1.5) == ["hedge b"], "who is with a node that hangs is taken elsewhere in any case"
    unhedged = machine()
    unhedged.start(0.0)
    assert unhedged.abandoned(0.5) == [], "a write is left where it is"


def test_taking_a_call_from_a_node_that_hangs_leaves_the_budget_to_retries() -> None:
    budget = Budget(share=0.0, floor=0.1)
    run = machine(call=plan(hedge=True), hedge_after=1.0, budget=budget)
    run.start(0.0)
    assert run.tick(1.0) == [], "half of the budget is for retries"
    assert run.abandoned(3.0) == ["hedge b"]
    assert budget.left(3.0) == 1.0


@pytest.mark.parametrize("known", [None, 60.0])
def test_a_call_that_no_hedge_is_planned_for_is_taken_from_a_node_that_hangs_all_the_same(known: float | None) -> None:
    run = machine(call=plan(hedge=True), hedge_after=lambda _method, _node: known)
    assert run.start(0.0) == ["ask a"]
    assert run.due == inf
    assert run.abandoned(0.5) == ["hedge b"]


def test_attempts_are_limited() -> None:
    run = machine(5, attempts=2)
    run.start(0.0)
    assert run.failed(1, fail(FailureKind.TIMEOUT), 1.0) == ["ask b"]
    assert run.failed(2, fail(FailureKind.TIMEOUT), 1.0) == ["end timeout"]


def test_a_single_node_is_not_asked_twice_after_a_broken_reply() -> None:
    run = machine(1)
    run.start(0.0)
    assert run.failed(1, fail(FailureKind.BROKEN_REPLY), 1.0) == ["end broken-reply"]


def test_a_reset_of_a_reused_connection_goes_once_to_the_same_node() -> None:
    run = machine()
    run.start(0.0)
    assert run.failed(1, fail(FailureKind.RESET_BEFORE_REPLY), 0.1) == ["ask a"]
    assert run.failed(2, fail(FailureKind.RESET_BEFORE_REPLY), 0.2) == ["ask b"]
    assert run.failed(3, fail(FailureKind.RESET_BEFORE_REPLY), 0.3) == ["end reset-before-reply"]


@pytest.mark.parametrize("kind", [FailureKind.TIMEOUT, FailureKind.RESET_BEFORE_REPLY, FailureKind.UNKNOWN])
def test_what_may_not_be_repeated_is_not_sent_again_once_bytes_left(kind: FailureKind) -> None:
    run = machine(call=plan(repeat=False))
    run.start(0.0)
    assert run.failed(1, fail(kind), 0.1) == [f"end {kind.value}"]


def test_what_may_not_be_repeated_goes_on_when_nothing_was_sent() -> None:
    run = machine(call=plan(repeat=False))
    run.start(0.0)
    assert run.failed(1, fail(FailureKind.CONNECT, sent=False), 0.1) == ["ask b"]
    assert run.answered(2, ERROR, FailureKind.METHOD_MISSING, 0.2) == ["ask c"]
    end = settled(run.failed(3, fail(FailureKind.BROKEN_REPLY), 0.3))
    assert end.failure
    assert end.failure.kind is FailureKind.BROKEN_REPLY, "it may have had an effect: that is what counts"


def test_a_deterministic_error_ends_the_call_with_the_nodes_words() -> None:
    run = machine()
    run.start(0.0)
    end = settled(run.answered(1, ERROR, FailureKind.REVERT, 0.1))
    assert end.answer is ERROR
    assert end.failure == Failure(FailureKind.REVERT, "said the node", error=ERROR.error, retry_after=3.0, node="a")


def test_the_most_telling_answer_is_given_when_all_fail() -> None:
    run = machine()
    run.start(0.0)
    run.answered(1, ERROR, FailureKind.PRUNED, 0.1)
    run.failed(2, fail(FailureKind.TIMEOUT), 0.2)
    assert settled(run.failed(3, fail(FailureKind.CONNECT, sent=False), 0.3)).answer is ERROR


def test_a_rate_limited_node_may_be_asked_again_when_no_other_is_left() -> None:
    chooser = InOrder(2)
    run = machine(chooser=chooser, attempts=4)
    run.start(0.0)
    assert run.answered(1, ERROR, FailureKind.RATE_LIMITED, 0.1) == ["ask b"]
    assert run.answered(2, ERROR, FailureKind.RATE_LIMITED, 0.2) == ["ask a"]
    chooser.out = {"a", "b"}  # parked
    assert run.answered(3, ERROR, FailureKind.RATE_LIMITED, 0.3) == ["end rate-limited"]


def test_answers_that_are_not_there_yet_have_a_count_of_their_own() -> None:
    run = machine(5, attempts=1, behind_attempts=2)
    run.start(0.0)
    assert run.answered(1, ERROR, FailureKind.NODE_BEHIND, 0.1) == ["ask b"]
    assert run.answered(2, ERROR, FailureKind.NODE_BEHIND, 0.2) == ["ask c"]
    assert run.answered(3, ERROR, FailureKind.NODE_BEHIND, 0.3) == ["end node-behind"]


def test_when_no_node_has_it_yet_it_waits_and_asks_again() -> None:
    run = machine(1, behind_pause=3.0)
    run.start(0.0)
    assert run.answered(1, ERROR, FailureKind.NODE_BEHIND, 0.1) == ["wait 1"]
    assert run.state is CallState.PAUSING
    assert run.tick(1.1) == ["ask a"]
    assert run.answered(2, OK, None, 1.2) == ["end well"]


@given(attempts=st.integers(1, 100), pause=st.floats(0.0, 10.0))
def test_however_often_a_call_waits_its_pauses_grow_and_are_together_no_longer_than_one(
    attempts: int, pause: float
) -> None:
    run = machine(1, behind_pause=pause, behind_attempts=attempts, ends=1000.0)
    run.start(0.0)
    now, pauses = 0.0, list[float]()
    while not run.answered(len(pauses) + 1, ERROR, FailureKind.NODE_BEHIND, now)[0].startswith("end"):
        pauses.append(run.due - now)
        now = run.due
        run.tick(now)
    assert pauses == sorted(pauses)
    assert len(pauses) == attempts
    assert sum(pauses) == pytest.approx(pause)


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
def test_however_many_nodes_lack_a_block_they_are_asked_again_after_pauses(nodes: int) -> None:
    run = machine(nodes, behind_pause=3.0, behind_attempts=2, ends=1000.0)
    run.start(0.0)
    further = min(nodes - 1, 2)
    for attempt in range(1, further + 1):
        assert run.answered(attempt, ERROR, FailureKind.NODE_BEHIND, 0.0)[0].startswith("ask")
    assert run.answered(further + 1, ERROR, FailureKind.NODE_BEHIND, 0.0) == ["wait 1"]
    run.tick(1.0)
    assert run.answered(further + 2, ERROR, FailureKind.NODE_BEHIND, 1.0) == ["wait 2"]
    run.tick(3.0)
    assert run.answered(further + 3, ERROR, FailureKind.NODE_BEHIND, 3.0) == ["end node-behind"]


def test_a_pause_that_the_deadline_forbids_is_not_made() -> None:
    run = machine(1, behind_pause=6.0, ends=2.0)
    run.start(0.0)
    early = Answer(result=b"null")
    assert settled(run.answered(1, early, FailureKind.NODE_BEHIND, 0.1)).answer is early


def test_after_a_pause_with_nobody_left_the_best_is_given() -> None:
    chooser = InOrder(1)
    run = machine(chooser=chooser, behind_pause=2.0)
    run.start(0.0)
    run.answered(1, ERROR, FailureKind.NODE_BEHIND, 0.1)
    chooser.out = {"a"}
    assert run.tick(2.1) == ["end node-behind"]


def test_an_attempt_gets_what_the_node_allows_and_never_more_than_is_left() -> None:
    run = machine(ends=12.0)
    first = run.start(0.0).asked
    second = run.failed(1, fail(FailureKind.TIMEOUT), 10.0).asked
    assert [asked and asked.timeout for asked in (first, second)] == [10.0, 2.0]
    assert run.failed(2, fail(FailureKind.TIMEOUT), 12.0) == ["end timeout"]


def test_a_call_that_comes_too_late_is_not_sent() -> None:
    assert machine(ends=1.0).start(1.0) == ["end timeout"]


def test_without_budget_nothing_is_sent_again() -> None:
    empty = Budget(share=0.0, floor=0.0)
    run = machine(budget=empty)
    run.start(0.0)
    assert run.failed(1, fail(FailureKind.TIMEOUT), 1.0) == ["end timeout"]
    assert empty.refused == 1


def test_an_attempt_that_never_left_costs_no_budget() -> None:
    run = machine(budget=Budget(share=0.0, floor=0.0))
    run.start(0.0)
    assert run.failed(1, fail(FailureKind.TIMEOUT, sent=False), 1.0) == ["ask b"]


def test_a_kept_connection_that_was_closed_costs_no_budget_on_the_way_to_another_node() -> None:
    run = machine(budget=Budget(share=0.0, floor=0.0))
    run.start(0.0)
    assert run.failed(1, fail(FailureKind.RESET_BEFORE_REPLY), 0.1) == ["ask a"]
    assert run.failed(2, fail(FailureKind.CONNECT, sent=False), 0.2) == ["ask b"]
    assert run.answered(3, OK, None, 0.3) == ["end well"]


@pytest.mark.parametrize(("kind", "asked"), [("method-missing", 6), ("role-missing", 6), ("rate-limited", 3)])
def test_what_costs_no_node_any_work_is_free_and_what_a_node_lacks_is_no_attempt(kind: str, asked: int) -> None:
    run = machine(6, budget=Budget(share=0.0, floor=0.0), attempts=3)
    run.start(0.0)
    for attempt in range(1, asked):
        assert run.answered(attempt, ERROR, FailureKind(kind), 0.1) == [f"ask {'abcdef'[attempt]}"]
    assert run.answered(asked, ERROR, FailureKind(kind), 0.3) == [f"end {kind}"]


def test_methods_that_no_table_describes_are_looked_for_until_too_many_of_them_were_in_vain() -> None:
    budget, sends = Budget(share=0.0, floor=1.0, span=10.0), 0
    for number in range(1000):
        unknown = Plan(
            network="n", method=f"m{number}", rule=UNKNOWN_RULE, params=b"[]", asked=b"[]", cache=CacheClass.NEVER
        )
        run = machine(call=unknown, budget=budget)
        run.start(0.0)
        while run.state is CallState.RUNNING:
            sends += 1
            run.answered(run.attempts, ERROR, FailureKind.METHOD_MISSING, 0.1)
    assert sends == 1000 + 10 * 2
    assert (budget.left(0.1), budget.refused) == (10.0, 0)


def test_a_slow_read_is_hedged_on_another_node_and_the_loser_cancelled() -> None:
    run = machine(call=plan(hedge=True), hedge_after=0.2)
    assert run.start(0.0) == ["ask a", "wait 0.2"]
    assert run.tick(0.2) == ["hedge b"]
    assert run.answered(2, OK, None, 0.3) == ["stop 1", "end well"]


def test_the_failure_of_one_of_two_waits_for_the_other() -> None:
    run = machine(call=plan(hedge=True), hedge_after=0.2)
    run.start(0.0)
    run.tick(0.2)
    assert run.failed(1, fail(FailureKind.TIMEOUT), 0.3) == []
    assert run.failed(2, fail(FailureKind.TIMEOUT), 0.4) == ["ask c"]


def test_a_retry_takes_the_place_of_the_hedge() -> None:
    run = machine(call=plan(hedge=True), hedge_after=0.2)
    run.start(0.0)
    assert run.failed(1, fail(FailureKind.TIMEOUT), 0.1) == ["ask b"]
    assert run.due == inf
    with pytest.raises(IllegalEvent):
        run.tick(0.2)


@pytest.mark.parametrize(
    ("count", "options"),
    [(1, {}), (3, {"budget": Budget(share=0.0, floor=0.0)}), (3, {"ends": 0.25})],
)
def test_a_hedge_needs_another_node_budget_and_time(count: int, options: dict[str, object]) -> None:
    run = machine(count, plan(hedge=True), hedge_after=0.2, **options)  # type: ignore[arg-type]
    run.start(0.0)
    assert run.tick(0.3) == []


@pytest.mark.parametrize("call", [plan(hedge=False), plan(hedge=True, repeat=False)])
def test_only_what_may_be_hedged_is(call: Plan) -> None:
    assert machine(call=call, hedge_after=0.2).start(0.0) == ["ask a"]


def test_no_hedge_when_one_attempt_is_all_there_is() -> None:
    assert machine(call=plan(hedge=True), hedge_after=0.2, attempts=1).start(0.0) == ["ask a"]


def test_an_illegal_event_raises_and_changes_nothing() -> None:
    run = machine()
    with pytest.raises(IllegalEvent):
        run.answered(1, OK, None, 0.0)
    run.start(0.0)
    for event in (
        lambda: run.start(0.1),
        lambda: run.tick(0.1),
        lambda: run.answered(2, OK, None, 0.1),
        lambda: run.failed(7, fail(FailureKind.TIMEOUT), 0.1),
    ):
        with pytest.raises(IllegalEvent):
            event()
    assert (run.state, run.attempts, run.steps) == (CallState.RUNNING, 1, ())
    run.answered(1, OK, None, 0.1)
    with pytest.raises(IllegalEvent):
        run.tick(0.2)


def test_every_state_says_what_is_legal() -> None:
    assert set(LEGAL_EVENTS) == set(CallState)


KINDS = st.sampled_from(sorted(FailureKind))
STEPS = st.lists(
    st.tuples(st.sampled_from(["ok", "error", "broken", "tick", "abandoned"]), KINDS, st.booleans(), st.floats(0, 3)),
    max_size=25,
)


@settings(max_examples=examples(300), deadline=None)
@given(
    STEPS,
    st.booleans(),
    st.sampled_from([None, 0.5]),
    st.sampled_from([None, 0.0, 1.0]),
    st.integers(1, 5),
    st.integers(0, 3),
)
def test_no_order_of_events_breaks_the_rules(
    steps: list[tuple[str, FailureKind, bool, float]],
    repeat: bool,
    hedge_after: float | None,
    pause: float | None,
    count: int,
    floor: int,
) -> None:
    budget = Budget(share=0.0, floor=floor / 10, span=10.0)
    run = Dispatch(
        plan(repeat=repeat, hedge=True),
        InOrder(count, timeout=4.0),
        budget,
        DispatchSettings(behind_pause=pause),
        ends=9.0,
        hedge_after=None if hedge_after is None else lambda _method, _node: hedge_after,
    )
    now, left_before, paid = 0.0, False, 0
    running: dict[int, Asked] = {}
    ended: dict[int, float] = {}

    def obey(done: NextStep, *, free: bool = False) -> None:
        nonlocal paid
        if isinstance(done, Asked):
            asked = done
            assert now + asked.timeout <= 9.0 + 1e-9, "the deadline is met"
            assert not (left_before and not repeat), "nothing is sent again that may not be"
            assert asked.node.id not in {other.node.id for other in running.values()}
            running[asked.number] = asked
            ended[asked.number] = now + asked.timeout
            paid += asked.number > 1 and not free
        elif done is not None:
            running.clear()
            assert run.state is CallState.SETTLED
            assert done.answer is not None or done.failure is not None
        assert paid <= floor, "the budget is never exceeded"

    obey(run.start(now))
    for action, kind, sent, passed in steps:
        if run.state is CallState.SETTLED:
            break
        now = min([now + passed, *(ended[attempt] for attempt in running)])
        attempt = next(iter(running), None)
        if action == "tick" and run.due < inf:
            paused = run.state is CallState.PAUSING
            obey(run.tick(now), free=paused)
        elif action == "abandoned":
            if run.state is CallState.RUNNING:
                obey(run.abandoned(now), free=True)
        elif attempt is not None and action != "tick":
            running.pop(attempt)
            if action == "ok":
                obey(run.answered(attempt, OK, None, now))
            elif action == "error":
                left_before |= policy(kind).retry != "always"
                obey(run.answered(attempt, ERROR, kind, now), free=policy(kind).pays != "budget")
            else:
                left_before |= sent and policy(kind).retry != "always"
                obey(run.failed(attempt, fail(kind, sent=sent), now), free=not sent or policy(kind).pays != "budget")
    if run.state is not CallState.SETTLED:
        assert running or run.due < inf, "something is still to come"
