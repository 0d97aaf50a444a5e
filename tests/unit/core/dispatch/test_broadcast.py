from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcaccel.core.dispatch.broadcast import Broadcast, BroadcastSettings
from rpcaccel.core.dispatch.retry_budget import Budget
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind, policy
from tests.support.properties import examples

HASH = b'"0xaa"'
OK = Answer(result=b'"0xbb"')
ERROR = Answer(error=b'{"code":-32000,"message":"no"}')


class InOrder:
    """Gives nodes in their order."""

    forced = False

    def __init__(self, count: int) -> None:
        self.nodes = [Node("abcdefghi"[number]) for number in range(count)]

    def next(self, avoid: Collection[str], now: float) -> Node | None:
        return next((node for node in self.nodes if node.id not in avoid), None)

    def spare(self, beside: Node, avoid: Collection[str], now: float) -> Node | None:
        return None

    def behind(self, now: float) -> bool:
        return False

    def nobody(self, now: float) -> Failure:
        return Failure(FailureKind.NO_NODE, "nobody", sent=False)


def broadcast(
    count: int, *, hash: bytes | None = HASH, ends: float = 30.0, budget: Budget | None = None, **options: float
) -> Broadcast:
    settings = BroadcastSettings(**options)  # type: ignore[arg-type]
    return Broadcast(InOrder(count), budget or Budget(), settings, ends=ends, hash=hash)


def refusal(kind: FailureKind, *, retry_after: float | None = None, sent: bool = True) -> Failure:
    return Failure(kind, kind.value, sent=sent, retry_after=retry_after)


@pytest.mark.parametrize(
    ("nodes", "options", "told"),
    [(1, {}, 1), (2, {}, 2), (3, {}, 2), (4, {}, 3), (6, {}, 4), (9, {}, 6), (5, {"share": 1.0}, 5), (0, {}, 0),
     (9, {"share": 0.1, "at_least": 1}, 1), (9, {"share": 0.1, "at_least": 4}, 4)],
)  # fmt: skip
def test_two_thirds_are_told_and_at_least_two(nodes: int, options: dict[str, float], told: int) -> None:
    assert len(broadcast(nodes, **options).start(nodes, 0.0)) == told


SCRIPTS: dict[str, tuple[int, dict[str, Any], str]] = {
    "the first acceptance answers and the others are still told": (3, {},
        "-> a b; b ok; a says rejected -> ended well"),
    "a node that knows it already has accepted it": (2, {},
        "-> a b; a says already-known; b fails timeout -> ended well"),
    "without a certain hash a node that knows it is asked to confirm": (1, {"hash": None},
        "-> a; a says already-known -> ended already-known"),
    "a node that is gone is replaced and not tried again": (3, {},
        "-> a b; a fails connect unsent -> c; c fails timeout; b fails timeout -> ended timeout"),
    "a busy node is asked again after a pause and not for ever": (2, {"again": 2, "pause": 0.5},
        "-> a b; a fails rate-limited -> a in 0.5; a fails rate-limited after 3 -> a in 3; a fails rate-limited"),
    "a busy node that wants longer than there is time is replaced": (3, {"ends": 10.0},
        "-> a b; a fails rate-limited after 60 -> c"),
    "a reset of a kept connection is sent again at once": (2, {},
        "-> a b; a fails reset-before-reply -> a; a fails reset-before-reply"),
    "all refusing gives the most telling refusal": (3, {"share": 1.0},
        "-> a b c; a fails timeout; b says rejected; c says unknown -> ended rejected"),
    "without nodes it says so": (0, {}, "-> ended no-node"),
    "what is broken off ends too": (1, {}, "-> a; a lost -> ended nothing"),
    "without budget nobody takes the place of a node that may have read it": (
        3, {"budget": Budget(share=0.0, floor=0.0)},
        "-> a b; a fails timeout; b fails connect unsent -> c"),
}  # fmt: skip


def step(run: Broadcast, count: int, event: list[str]) -> str:
    """What follows an event: who is asked next and when, or how the broadcast ended."""
    if not event:
        said = " ".join(node.id for node in run.start(count, 0.0))
    elif event[1] == "lost":
        said = str(run.lost() or "")
    else:
        node = Node(event[0])
        answer = OK if event[1] == "ok" else ERROR if event[1] == "says" else None
        after = float(event[-1]) if "after" in event else None
        failure = None
        if event[1] != "ok":
            failure = refusal(FailureKind(event[2]), sent="unsent" not in event, retry_after=after)
        ask = run.heard(node, answer, failure, 0.1)
        said = "" if ask is None else f"{ask.node.id} in {ask.delay:g}" if ask.delay else ask.node.id
    if run.open or said:
        return said
    end = run.end()
    return "ended " + ("nothing" if end is None else end.failure.kind.value if end.failure else "well")


@pytest.mark.parametrize("story", SCRIPTS)
def test_as_the_script_says(story: str) -> None:
    count, options, script = SCRIPTS[story]
    run = broadcast(count, **options)
    for line in script.split("; "):
        event, _, wanted = line.partition("-> ")
        assert step(run, count, event.split()) == wanted, line


def test_the_client_gets_the_first_acceptance_and_every_node_is_counted() -> None:
    run = broadcast(3, share=1.0)
    a, b, c = run.start(3, 0.0)
    assert run.end() is None
    run.heard(b, OK, None, 0.1)
    end = run.end()
    assert end
    assert (end.answer, end.node, run.open) == (OK, b, 2)
    run.heard(a, ERROR, refusal(FailureKind.REJECTED), 0.2)
    run.heard(c, ERROR, refusal(FailureKind.ALREADY_KNOWN), 0.2)
    assert run.end() is end
    assert run.told == {"accepted": 1, "known": 1, "refused": 1, "failed": 0}
    assert (run.steps, run.tried) == ((("a", "rejected"),), ("a", "b", "c"))


def test_a_node_that_knows_it_gives_the_hash_where_that_is_certain_and_is_looked_at_where_not() -> None:
    for hash in (HASH, None):
        run = broadcast(1, hash=hash)
        (node,) = run.start(1, 0.0)
        run.heard(node, ERROR, refusal(FailureKind.ALREADY_KNOWN), 0.1)
        end = run.end()
        assert end is not None
        assert (end.answer and end.answer.result, run.doubt) == ((HASH, None) if hash else (None, node))


@settings(max_examples=examples(200))
@given(
    st.integers(0, 9),
    st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["ok", *sorted(FailureKind)]), st.booleans()), max_size=60),
    st.floats(0.0, 0.4),
    st.booleans(),
)
def test_no_order_of_replies_breaks_the_rules(
    count: int, replies: list[tuple[int, str, bool]], floor: float, sure: bool
) -> None:
    budget = Budget(share=0.0, floor=floor)
    run = broadcast(count, budget=budget, hash=HASH if sure else None, ends=20.0)
    now, paid = 0.0, 0
    open_nodes = run.start(count, now)
    gone: set[str] = set()
    for which, word, sent in replies:
        if not open_nodes:
            break
        now += 0.1
        node = open_nodes.pop(which % len(open_nodes))
        if word == "ok":
            ask = run.heard(node, OK, None, now)
        else:
            failure = refusal(FailureKind(word), sent=sent)
            ask = run.heard(node, None, failure, now)
        if ask is None:
            gone.add(node.id)
            continue
        paid += sent and policy(failure.kind).pays != "nothing"
        assert ask.node.id not in gone, "a node that had its last word is left alone"
        gone |= {node.id} - {ask.node.id}
        open_nodes.append(ask.node)
    assert run.open == len(open_nodes), "every node is told to its end"
    assert len(run.tried) == len(set(run.tried)) <= count
    assert paid <= floor * budget.span + 1e-9, "the budget is never exceeded"
    while open_nodes:
        run.heard(open_nodes.pop(), None, refusal(FailureKind.REJECTED), now)
    assert run.end() is not None
