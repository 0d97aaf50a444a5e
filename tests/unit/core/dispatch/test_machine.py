from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcaccel.core.dispatch.dispatch_policy import DispatchSettings, Settle
from rpcaccel.core.dispatch.machine import LEGAL_EVENTS, Asked, CallState, Dispatch, HedgeAfter, IllegalEvent, NextStep
from rpcaccel.core.dispatch.retry_budget import Budget
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.rules import UNKNOWN_RULE, CacheClass
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind, policy
from tests.support.plans import plan_of
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


class Run:
    """A machine that a script drives, and the words for what it wants done after each event."""

    def __init__(
        self,
        count: int = 3,
        *,
        cache: CacheClass = CacheClass.HEAD,
        repeat: bool = True,
        hedge_after: float | HedgeAfter | None = None,
        heavy: bool = False,
        budget: Budget | None = None,
        ends: float = 30.0,
        chooser: InOrder | None = None,
        **options: Any,
    ) -> None:
        self.chooser = chooser or InOrder(count)
        self.budget = budget or Budget()
        self.machine = Dispatch(
            plan_of(cache=cache, repeat=repeat, hedge=hedge_after is not None and not heavy),
            self.chooser,
            self.budget,
            DispatchSettings(**options),
            ends=ends,
            hedge_after=(lambda _method, _node: hedge_after) if isinstance(hedge_after, float) else hedge_after,
        )
        self.running: dict[str, int] = {}
        """The attempts under way, by the node of each."""
        self.asked: list[Asked] = []
        self.end: Settle | None = None
        self._due = inf

    def play(self, script: str) -> Run:
        """Play a script of steps `time event -> what is to be done`; the first one is the start.

        Events: `tick`, `abandoned` (the node is silent), `left` (it is slow), `NODE ok`, `NODE null`, `NODE says KIND`
        (an error object), `NODE fails KIND [unsent]`, and `out NODES` (these may not be asked from now on).
        """
        for line in script.replace(";", "\n").strip().splitlines():
            event, _, wanted = line.strip().partition("-> ")
            assert self._words(event.split()) == wanted.split(", ") if wanted else self._words(event.split()) == [], (
                line
            )
        return self

    def _words(self, event: list[str]) -> list[str]:
        if not event:
            return self._said(self.machine.start(0.0), 0.0)
        now, what, *more = float(event[0]), *event[1:]
        if what == "out":
            self.chooser.out = set(more)
            return []
        try:
            if what == "left":
                return self._said(self.machine.abandoned(now, silent=False), now)
            if what in ("tick", "abandoned"):
                return self._said(getattr(self.machine, what)(now), now)
            number = self.running.pop(what)
            if more[0] in ("ok", "null"):
                answer = OK if more[0] == "ok" else Answer(result=b"null")
                return self._said(self.machine.answered(number, answer, None, now), now)
            if more[0] == "says":
                return self._said(self.machine.answered(number, ERROR, FailureKind(more[1]), now), now)
            failure = fail(FailureKind(more[1]), sent=more[2:] != ["unsent"])
            return self._said(self.machine.failed(number, failure, now), now)
        except IllegalEvent:
            return ["illegal"]

    def _said(self, done: NextStep, now: float) -> list[str]:
        words: list[str] = []
        if isinstance(done, Asked):
            words.append(f"{'hedge' if done.hedge else 'ask'} {done.node.id}")
            self.running[done.node.id] = done.number
            self.asked.append(done)
        if isinstance(done, Settle):
            words += [f"stop {node}" for node in self.running]
            words.append(f"end {done.failure.kind.value if done.failure else 'well'}")
            self.end = done
        elif self.machine.due not in (inf, self._due):
            words.append(f"wait {self.machine.due - now:g}")
        self._due = self.machine.due
        return words


def fail(kind: FailureKind, *, sent: bool = True) -> Failure:
    return Failure(kind, kind.value, sent=sent)


def no_budget() -> Budget:
    return Budget(share=0.0, floor=0.0)


SCRIPTS: dict[str, tuple[dict[str, Any], str]] = {
    "without a node the call ends at once": ({"count": 0}, "-> end no-node"),
    "a call that comes too late is not sent": ({"ends": 0.0}, "-> end timeout"),
    "a broken attempt goes to a node not yet tried, and of broken ones the most telling is told": ({}, """
        -> ask a
        1 a fails timeout -> ask b
        2 b fails http-status -> ask c
        3 c fails connect unsent -> end timeout"""),
    "a call that a node refuses is shown to one other node": ({"count": 5, "attempts": 5},
        "-> ask a; 1 a fails call-refused -> ask b; 1 b fails call-refused -> end call-refused"),
    "a second refusal ends the call whatever the first failure was": ({"count": 5, "attempts": 5},
        "-> ask a; 1 a fails timeout -> ask b; 1 b fails call-refused -> end call-refused"),
    "attempts are limited": ({"count": 5, "attempts": 2},
        "-> ask a; 1 a fails timeout -> ask b; 1 b fails timeout -> end timeout"),
    "a single node is not asked twice after a broken reply": ({"count": 1},
        "-> ask a; 1 a fails broken-reply -> end broken-reply"),
    "a reset of a reused connection goes once to the same node": ({}, """
        -> ask a
        0.1 a fails reset-before-reply -> ask a
        0.2 a fails reset-before-reply -> ask b
        0.3 b fails reset-before-reply -> end reset-before-reply"""),
    "what may not be repeated goes on when nothing was sent; else what may have had an effect counts": (
        {"repeat": False}, """
        -> ask a
        0.1 a fails connect unsent -> ask b
        0.2 b says method-missing -> ask c
        0.3 c fails broken-reply -> end broken-reply"""),
    "a rate-limited node may be asked again when no other is left": ({"count": 2, "attempts": 4}, """
        -> ask a
        0.1 a says rate-limited -> ask b
        0.2 b says rate-limited -> ask a
        0.3 out a b
        0.3 a says rate-limited -> end rate-limited"""),
    "answers that are not there yet have a count of their own": ({"count": 5, "attempts": 1, "behind_attempts": 2}, """
        -> ask a
        0.1 a says node-behind -> ask b
        0.2 b says node-behind -> ask c
        0.3 c says node-behind -> end node-behind"""),
    "when no node has it yet the call waits and asks again": ({"count": 1, "behind_pause": 3.0},
        "-> ask a; 0.1 a says node-behind -> wait 1; 1.1 tick -> ask a; 1.2 a ok -> end well"),
    "a pause that the deadline forbids is not made": ({"count": 1, "behind_pause": 6.0, "ends": 2.0},
        "-> ask a; 0.1 a says node-behind -> end node-behind"),
    "after a pause with nobody left the best is given": ({"count": 1, "behind_pause": 2.0},
        "-> ask a; 0.1 a says node-behind -> wait 0.666667; 0.2 out a; 2.1 tick -> end node-behind"),
    "without budget nothing is sent again": ({"budget": no_budget()},
        "-> ask a; 1 a fails timeout -> end timeout"),
    "an attempt that never left costs no budget": ({"budget": no_budget()},
        "-> ask a; 1 a fails timeout unsent -> ask b"),
    "a kept connection that was closed costs no budget on the way to another node": ({"budget": no_budget()}, """
        -> ask a
        0.1 a fails reset-before-reply -> ask a
        0.2 a fails connect unsent -> ask b
        0.3 b ok -> end well"""),
    "a slow read is hedged on another node and the loser cancelled": ({"hedge_after": 0.2},
        "-> ask a, wait 0.2; 0.2 tick -> hedge b; 0.3 b ok -> stop a, end well"),
    "the failure of one of two waits for the other": ({"hedge_after": 0.2},
        "-> ask a, wait 0.2; 0.2 tick -> hedge b; 0.3 a fails timeout; 0.4 b fails timeout -> ask c"),
    "a retry takes the place of the hedge": ({"hedge_after": 0.2},
        "-> ask a, wait 0.2; 0.1 a fails timeout -> ask b; 0.2 tick -> illegal"),
    "a hedge needs another node": ({"count": 1, "hedge_after": 0.2}, "-> ask a, wait 0.2\n0.3 tick"),
    "a hedge needs budget": ({"hedge_after": 0.2, "budget": no_budget()}, "-> ask a, wait 0.2\n0.3 tick"),
    "a hedge needs time": ({"hedge_after": 0.2, "ends": 0.25}, "-> ask a, wait 0.2\n0.3 tick"),
    "what may not be repeated is not sent twice": ({"hedge_after": 0.2, "repeat": False}, "-> ask a; 1 abandoned"),
    "no hedge when one attempt is all there is": ({"hedge_after": 0.2, "attempts": 1}, "-> ask a"),
    "without another node, a result that says that there is nothing is the answer": (
        {"count": 1, "cache": CacheClass.FOREVER}, "-> ask a; 0.1 a null -> end well"),
    "a second opinion is not waited for when it comes late": ({"cache": CacheClass.FOREVER},
        "-> ask a; 0.1 a null -> ask b, wait 1; 1.1 tick -> stop b, end well"),
    "what waits for a node that hangs is asked of another at once, and of one": ({"hedge_after": 1.0}, """
        -> ask a, wait 1
        0.5 abandoned -> hedge b
        0.6 abandoned
        1 tick -> illegal
        1.1 b ok -> stop a, end well"""),
    "a call at a node that hangs is taken elsewhere also without budget": (
        {"hedge_after": 1.0, "budget": no_budget()},
        "-> ask a, wait 1; 1 tick; 1.5 abandoned -> hedge b"),
    "what may not be hedged is left at a node that hangs": ({}, "-> ask a\n0.5 abandoned"),
    "a call whose pace is not known is taken from a node that is slow": ({"hedge_after": lambda _method, _node: None},
        "-> ask a; 0.5 left -> hedge b"),
    "a call that may take long is taken from a node that is silent, not from one that is slow": (
        {"hedge_after": 0.2, "heavy": True}, "-> ask a; 0.5 left; 0.6 abandoned -> hedge b"),
    "a second attempt is taken from a node that hangs as well": ({"hedge_after": 0.2},
        "-> ask a, wait 0.2; 0.1 a fails timeout -> ask b; 0.5 abandoned -> hedge c"),
    "a call whose hedge would come too late is taken from a node that hangs": ({"hedge_after": 60.0},
        "-> ask a; 0.5 abandoned -> hedge b"),
}  # fmt: skip


@pytest.mark.parametrize("story", SCRIPTS)
def test_as_the_script_says(story: str) -> None:
    options, script = SCRIPTS[story]
    Run(**options).play(script)


def test_a_good_answer_is_told_with_who_gave_it_and_a_failed_one_with_every_step() -> None:
    run = Run().play("-> ask a\n1 a fails timeout -> ask b\n2 b ok -> end well")
    assert run.end == Settle(OK, None, run.chooser.nodes[1])
    assert (run.machine.steps, run.machine.tried) == ((("a", "timeout"),), ("a", "b"))
    assert run.machine.state is CallState.SETTLED


@pytest.mark.parametrize(
    ("second", "answers"), [("ok", "b"), ("null", "a"), ("fails timeout", "a"), ("says pruned", "a")]
)
def test_where_a_node_says_that_there_is_nothing_the_result_of_a_second_one_counts_and_no_other_word(
    second: str, answers: str
) -> None:
    run = Run(cache=CacheClass.FOREVER).play(f"-> ask a; 0.1 a null -> ask b, wait 1; 0.2 b {second} -> end well")
    assert run.end is not None
    assert run.end.node is not None
    assert run.end.node.id == answers


def test_a_deterministic_error_ends_the_call_with_the_nodes_words() -> None:
    end = Run().play("-> ask a\n0.1 a says revert -> end revert").end
    assert end is not None
    assert end.answer is ERROR
    assert end.failure == Failure(FailureKind.REVERT, "said the node", error=ERROR.error, retry_after=3.0, node="a")


def test_the_most_telling_answer_is_given_when_all_fail() -> None:
    run = Run().play("""-> ask a
        0.1 a says pruned -> ask b
        0.2 b fails timeout -> ask c
        0.3 c fails connect unsent -> end pruned""")
    assert run.end is not None
    assert run.end.answer is ERROR


def test_taking_a_call_from_a_node_that_hangs_leaves_the_budget_to_retries() -> None:
    run = Run(hedge_after=1.0, budget=Budget(share=0.0, floor=0.1))
    run.play("-> ask a, wait 1\n1 tick\n3 abandoned -> hedge b")
    assert run.budget.left(3.0) == 1.0


@pytest.mark.parametrize("kind", [FailureKind.TIMEOUT, FailureKind.RESET_BEFORE_REPLY, FailureKind.UNKNOWN])
def test_what_may_not_be_repeated_is_not_sent_again_once_bytes_left(kind: FailureKind) -> None:
    Run(repeat=False).play(f"-> ask a\n0.1 a fails {kind} -> end {kind}")


@given(attempts=st.integers(1, 100), pause=st.floats(0.0, 10.0))
def test_however_often_a_call_waits_its_pauses_grow_and_are_together_no_longer_than_one(
    attempts: int, pause: float
) -> None:
    run = Run(1, behind_pause=pause, behind_attempts=attempts, ends=1000.0).machine
    run.start(0.0)
    now, pauses = 0.0, list[float]()
    while not isinstance(run.answered(len(pauses) + 1, ERROR, FailureKind.NODE_BEHIND, now), Settle):
        pauses.append(run.due - now)
        now = run.due
        run.tick(now)
    assert pauses == sorted(pauses)
    assert len(pauses) == attempts
    assert sum(pauses) == pytest.approx(pause)


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
def test_however_many_nodes_lack_a_block_they_are_asked_again_after_pauses(nodes: int) -> None:
    asked = "abc"[: min(nodes, 3)]
    first = "".join(f"0 {one} says node-behind -> ask {other}\n" for one, other in pairwise(asked))
    Run(nodes, behind_pause=3.0, behind_attempts=2, ends=1000.0).play(f"""-> ask a
        {first}0 {asked[-1]} says node-behind -> wait 1
        1 tick -> ask a
        1 a says node-behind -> wait 2
        3 tick -> ask a
        3 a says node-behind -> end node-behind""")


@pytest.mark.parametrize(
    ("options", "script", "why"),
    [
        ({}, "-> ask a; 1 a ok -> end well", ""),
        ({"count": 0}, "-> end no-node", ""),
        ({}, "-> ask a; 1 a says revert -> end revert", "every node would say the same"),
        ({"repeat": False}, "-> ask a; 1 a fails timeout -> end timeout", "may have had an effect"),
        ({}, "-> ask a; 1 a fails call-refused -> ask b; 1 b fails call-refused -> end call-refused", "second node"),
        ({"attempts": 1}, "-> ask a; 1 a fails timeout -> end timeout", "used up (attempts = 1)"),
        ({"ends": 1.0}, "-> ask a; 1 a fails timeout -> end timeout", "no time was left"),
        ({"count": 1}, "-> ask a; 1 a fails timeout -> end timeout", "no other node could be asked"),
        ({"count": 1}, "-> ask a; 1 a says node-behind -> end node-behind", "no other node could be asked"),
        ({"count": 1, "behind_pause": 6.0, "ends": 2.0}, "-> ask a; 0.1 a says node-behind -> end node-behind",
         "no time was left"),
        ({"budget": no_budget()}, "-> ask a; 1 a fails timeout -> end timeout", "the budget for retries was used up"),
        ({"budget": no_budget()}, "-> ask a; 1 a says unknown -> end unknown",
         "the budget for errors that the call may be at fault for was used up"),
    ],
)  # fmt: skip
def test_why_no_further_node_was_asked_is_told(options: dict[str, Any], script: str, why: str) -> None:
    stopped = Run(**options).play(script).machine.stopped
    assert (why in stopped) if why else stopped == ""


def test_an_attempt_gets_what_the_node_allows_and_never_more_than_is_left() -> None:
    run = Run(ends=12.0).play("-> ask a\n10 a fails timeout -> ask b\n12 b fails timeout -> end timeout")
    assert [asked.timeout for asked in run.asked] == [10.0, 2.0]


@pytest.mark.parametrize(("kind", "asked"), [("method-missing", 6), ("role-missing", 6), ("rate-limited", 3)])
def test_what_costs_no_node_any_work_is_free_and_what_a_node_lacks_is_no_attempt(kind: str, asked: int) -> None:
    nodes = "abcdef"[:asked]
    steps = [f"0.1 {one} says {kind} -> ask {other}" for one, other in pairwise(nodes)]
    Run(6, budget=no_budget(), attempts=3).play(
        "\n".join(["-> ask a", *steps, f"0.3 {nodes[-1]} says {kind} -> end {kind}"])
    )


def test_a_node_that_cannot_be_reached_is_no_attempt() -> None:
    steps = [f"0.1 {one} fails connect -> ask {other}" for one, other in pairwise("abcdef")]
    Run(6, budget=no_budget(), attempts=1).play("\n".join(["-> ask a", *steps, "0.3 f fails connect -> end connect"]))


def test_methods_that_no_table_describes_are_looked_for_until_too_many_of_them_were_in_vain() -> None:
    budget, sends = Budget(share=0.0, floor=1.0, span=10.0), 0
    for number in range(1000):
        unknown = plan_of(f"m{number}", rule=UNKNOWN_RULE, cache=CacheClass.NEVER)
        run = Dispatch(unknown, InOrder(3), budget, DispatchSettings())
        run.start(0.0)
        while run.state is CallState.RUNNING:
            sends += 1
            run.answered(run.attempts, ERROR, FailureKind.METHOD_MISSING, 0.1)
    assert "methods that no rule names" in run.stopped
    assert sends == 1000 + 10 * 2
    assert (budget.left(0.1), budget.refused) == (10.0, 0)


def test_an_illegal_event_raises_and_changes_nothing() -> None:
    run = Run().machine
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
        plan_of(repeat=repeat, hedge=True),
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
