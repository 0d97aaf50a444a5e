"""When a node is asked last for what it fails and others answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.nodes.parking import LONG_ROW, ROW, SHOWN_SECONDS, SPAN, Contradictions

NEVER = float("-inf")


def failing(method: str, count: int, now: float, node: Contradictions) -> None:
    for _ in range(count):
        node.noted(method, now)


def test_some_errors_over_a_while_or_many_at_once_make_a_rest() -> None:
    for errors in ([0.0] * (ROW - 1) + [SPAN], [0.0] * LONG_ROW):
        node = Contradictions()
        for now in errors[:-1]:
            node.noted("m", now)
        assert node.until("m", NEVER) == NEVER
        node.noted("m", errors[-1])
        assert node.until("m", NEVER) == errors[-1] + 1.0
        assert node.until("other", NEVER) == NEVER


def test_each_trial_begins_a_longer_rest_and_an_answer_ends_them() -> None:
    node, rests, now = Contradictions(), [], 0.0
    failing("m", LONG_ROW, now, node)
    for _ in range(8):
        rests.append(node.until("m", NEVER) - now)
        now = node.until("m", NEVER)
        node.asked("m", now)  # the trial
        node.noted("m", now + 0.1)
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60]
    assert node.learnt(now) == ["m"]
    assert node.learnt(now + SHOWN_SECONDS + 61) == [], "nobody calls it any more"
    node.answered("m")
    assert node.until("m", NEVER) == NEVER
    failing("m", ROW, now, node)
    assert node.until("m", NEVER) == NEVER, "it begins anew"


def test_a_node_that_answers_nothing_else_either_is_asked_last_for_all() -> None:
    node = Contradictions()
    for method in ("a", "b", "c"):
        failing(method, LONG_ROW, 10.0, node)
    assert node.until("d", answered_at=9.0) == 11.0
    assert node.until("d", answered_at=10.5) == NEVER, "it answered another method meanwhile"


@given(st.lists(st.tuples(st.integers(0, LONG_ROW - 1), st.floats(0.0, 1.0))))
def test_good_answers_between_keep_a_node_its_share(rows: list[tuple[int, float]]) -> None:
    node, now = Contradictions(), 0.0
    for errors, passes in rows:
        failing("m", errors, now, node)
        now += passes
        node.answered("m")
        assert node.until("m", NEVER) == NEVER
