from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcaccel.core.dispatch.broadcast import AskNode, Broadcast, BroadcastSettings
from rpcaccel.core.dispatch.retry_budget import Budget
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind, policy
from tests.support.properties import examples

HASH = b'"0xaa"'
OK = Answer(result=b'"0xbb"')


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


def said(kind: FailureKind) -> tuple[Answer, Failure]:
    answer = Answer(error=b'{"code":-32000,"message":"%b"}' % kind.value.encode())
    return answer, Failure(kind, kind.value, error=answer.error)


@pytest.mark.parametrize(
    ("nodes", "options", "told"),
    [(1, {}, 1), (2, {}, 2), (3, {}, 2), (4, {}, 3), (6, {}, 4), (9, {}, 6), (5, {"share": 1.0}, 5), (0, {}, 0),
     (9, {"share": 0.1, "at_least": 1}, 1), (9, {"share": 0.1, "at_least": 4}, 4)],
)  # fmt: skip
def test_two_thirds_are_told_and_at_least_two(nodes: int, options: dict[str, float], told: int) -> None:
    assert len(broadcast(nodes, **options).start(nodes, 0.0)) == told


def test_the_first_acceptance_answers_and_the_others_are_still_told() -> None:
    run = broadcast(3)
    first, second = run.start(3, 0.0)
    assert run.end() is None
    assert run.heard(second, OK, None, 0.1) is None
    end = run.end()
    assert end
    assert (end.answer, end.node) == (OK, second)
    assert run.open == 1
    assert run.heard(first, *said(FailureKind.REJECTED), 0.2) is None
    assert run.end() is end
    assert run.told == {"accepted": 1, "known": 0, "refused": 1, "failed": 0}


def test_a_node_that_knows_it_already_has_accepted_it() -> None:
    run = broadcast(2)
    first, _ = run.start(2, 0.0)
    run.heard(first, *said(FailureKind.ALREADY_KNOWN), 0.1)
    end = run.end()
    assert end
    assert end.answer
    assert (end.answer.result, end.failure) == (HASH, None)


def test_without_a_certain_hash_a_node_that_knows_it_is_asked_to_confirm() -> None:
    run = broadcast(1, hash=None)
    (node,) = run.start(1, 0.0)
    run.heard(node, *said(FailureKind.ALREADY_KNOWN), 0.1)
    assert run.doubt is node
    end = run.end()
    assert end
    assert end.failure
    assert end.failure.kind is FailureKind.ALREADY_KNOWN


def test_a_node_that_is_gone_is_replaced_and_not_tried_again() -> None:
    run = broadcast(3)
    first, _ = run.start(3, 0.0)
    ask = run.heard(first, None, refusal(FailureKind.CONNECT, sent=False), 0.1)
    assert ask
    assert (ask.node.id, ask.delay) == ("c", 0.0)
    assert run.heard(ask.node, None, refusal(FailureKind.TIMEOUT), 0.2) is None
    assert run.tried == ("a", "b", "c")


def test_a_busy_node_is_asked_again_after_a_pause_and_not_for_ever() -> None:
    run = broadcast(2, again=2, pause=0.5)
    first, _ = run.start(2, 0.0)
    limited = refusal(FailureKind.RATE_LIMITED)
    assert run.heard(first, None, limited, 0.1) == AskNode(first, 0.5)
    assert run.heard(first, None, refusal(FailureKind.RATE_LIMITED, retry_after=3.0), 0.7) == AskNode(first, 3.0)
    assert run.heard(first, None, limited, 4.0) is None


def test_a_busy_node_that_wants_longer_than_there_is_time_is_replaced() -> None:
    run = broadcast(3, ends=10.0)
    first, _ = run.start(3, 0.0)
    ask = run.heard(first, None, refusal(FailureKind.RATE_LIMITED, retry_after=60.0), 0.1)
    assert ask
    assert ask.node.id == "c"


def test_a_reset_of_a_kept_connection_is_sent_again_at_once() -> None:
    run = broadcast(2)
    first, _ = run.start(2, 0.0)
    reset = refusal(FailureKind.RESET_BEFORE_REPLY)
    assert run.heard(first, None, reset, 0.1) == AskNode(first)
    assert run.heard(first, None, reset, 0.2) is None


def test_all_refusing_gives_the_most_telling_refusal() -> None:
    run = broadcast(3, share=1.0)
    a, b, c = run.start(3, 0.0)
    run.heard(a, None, refusal(FailureKind.TIMEOUT), 0.1)
    run.heard(b, *said(FailureKind.REJECTED), 0.2)
    run.heard(c, *said(FailureKind.UNKNOWN), 0.3)
    end = run.end()
    assert end
    assert end.failure
    assert end.failure.kind is FailureKind.REJECTED
    assert run.steps == (("a", "timeout"), ("b", "rejected"), ("c", "unknown"))


def test_without_nodes_it_says_so() -> None:
    run = broadcast(0)
    assert run.start(0, 0.0) == []
    end = run.end()
    assert end
    assert end.failure
    assert end.failure.kind is FailureKind.NO_NODE


def test_what_is_broken_off_ends_too() -> None:
    run = broadcast(1)
    run.start(1, 0.0)
    run.lost()
    assert (run.open, run.told["failed"]) == (0, 1)


def test_without_budget_nobody_takes_the_place_of_a_node_that_may_have_read_it() -> None:
    run = broadcast(3, budget=Budget(share=0.0, floor=0.0))
    first, second = run.start(3, 0.0)
    assert run.heard(first, None, refusal(FailureKind.TIMEOUT), 0.1) is None
    assert run.heard(second, None, refusal(FailureKind.CONNECT, sent=False), 0.1) is not None


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
