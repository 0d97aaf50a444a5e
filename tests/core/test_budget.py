from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.budget import Budget


def test_a_quiet_proxy_may_retry() -> None:
    budget = Budget(share=0.1, floor=0.5, span=10.0)
    assert [budget.take(1.0) for _ in range(6)] == [True] * 5 + [False]
    assert budget.refused == 1


def test_the_budget_comes_back_as_time_passes() -> None:
    budget = Budget(share=0.0, floor=0.1, span=10.0)
    assert budget.take(1.0)
    assert not budget.take(2.0)
    assert budget.take(12.0)


def test_traffic_pays_in() -> None:
    budget = Budget(share=0.1, floor=0.0, span=10.0)
    assert not budget.take(1.0)
    for _ in range(20):
        budget.call(1.0)
    assert [budget.take(1.5) for _ in range(3)] == [True, True, False]
    assert repr(budget) == "<budget 10% + 0/s>"


@given(st.lists(st.tuples(st.booleans(), st.floats(0.0, 2.0)), max_size=200))
def test_extras_within_the_span_never_exceed_share_and_floor(events: list[tuple[bool, float]]) -> None:
    budget = Budget(share=0.1, floor=0.3, span=10.0)
    now, calls, extras = 0.0, [], []
    for is_call, passed in events:
        now += passed
        if is_call:
            budget.call(now)
            calls.append(now)
        elif budget.take(now):
            extras.append(now)
            recent = [sum(1 for time in times if int(time) > int(now) - 10) for times in (calls, extras)]
            assert recent[1] <= 0.1 * recent[0] + 3.0 + 1e-9


def test_hedges_leave_a_part_to_retries_and_are_not_missed() -> None:
    budget = Budget(share=0.0, floor=1.0, span=10.0)
    assert [budget.take(1.0, keep=0.5) for _ in range(6)] == [True] * 5 + [False]
    assert budget.refused == 0
    assert [budget.take(1.0) for _ in range(6)] == [True] * 5 + [False]
