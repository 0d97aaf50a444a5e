from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.dispatch.retry_budget import UNPROVEN, Budget
from rpcaccel.core.replies.failure import Failure, FailureKind, policy


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


def test_calls_that_another_budget_counted_pay_in_once_and_only_those_of_the_span() -> None:
    budget = Budget(share=0.1, floor=0.0, span=10.0)
    budget.count_up_to(5000, 100.0)
    assert not budget.take(100.0), "nobody knows when calls were made that were counted before"
    budget.count_up_to(5020, 105.0)
    assert [budget.take(105.0) for _ in range(3)] == [True, True, False]
    budget.count_up_to(5120, 205.0)
    assert [budget.take(205.0) for _ in range(2)] == [True, False]


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
    assert [budget.hedge(1.0) for _ in range(6)] == [True] * 5 + [False]
    assert budget.refused == 0
    assert [budget.take(1.0) for _ in range(6)] == [True] * 5 + [False]
    assert budget.refused == 1


@pytest.mark.parametrize("kind", list(FailureKind))
def test_a_retry_is_paid_from_what_the_table_of_failures_says(kind: FailureKind) -> None:
    budget = Budget(share=0.0, floor=1.0, span=10.0)
    paid = sum(budget.retry(Failure(kind, "said"), 1.0) for _ in range(100))
    assert paid == {"nothing": 100, "apart": 2, "budget": 10}[policy(kind).pays]
    assert budget.left(1.0) == (0.0 if policy(kind).pays == "budget" else 10.0)
    assert budget.refused == 100 - paid


def test_an_error_that_one_node_alone_gives_costs_nothing_in_the_end() -> None:
    budget, error = Budget(share=0.0, floor=0.1, span=10.0), Failure(FailureKind.UNKNOWN, "said")
    for _ in range(1000):
        assert budget.retry(error, 1.0, told=True)
        budget.answered_elsewhere(1.0)
    assert sum(budget.retry(error, 1.0, told=True) for _ in range(100)) == UNPROVEN, "so many may be under way at once"


def test_an_error_that_all_nodes_give_uses_up_what_is_set_apart() -> None:
    budget, error = Budget(share=0.1, floor=1.0, span=10.0), Failure(FailureKind.UNKNOWN, "said")
    retried = 0
    for _ in range(1000):
        budget.call(1.0)
        if budget.retry(error, 1.0, told=True):
            retried += 1
            budget.failed_again(error, 1.0)
    assert retried <= 0.25 * (0.1 * 1000 + 10.0) + 1
    assert budget.left(1.0) == 110.0, "nothing is taken from other retries"


def test_second_opinions_are_bounded_and_cost_nothing_where_they_find_something() -> None:
    budget = Budget(share=0.0, floor=1.0, span=10.0)
    for _ in range(100):
        assert budget.doubt(1.0)
        budget.rightly_doubted(1.0)
    assert sum(budget.doubt(1.0) for _ in range(100)) == 2
    assert budget.left(1.0) == 10.0
    assert budget.retry(Failure(FailureKind.UNKNOWN, "said"), 1.0)


def test_an_address_is_asked_again_for_as_long_as_it_has_every_second_thing() -> None:
    budget = Budget(share=0.0, floor=3.0, span=10.0)
    for number in range(100):
        assert budget.doubt(1.0)
        if number % 2:
            budget.found_again(1.0)
    assert [budget.doubt(1.0) for _ in range(9)].count(True) <= 8


@pytest.mark.parametrize("known", [True, False])
def test_a_retry_of_what_was_not_sent_is_free(known: bool) -> None:
    unsent = Failure(FailureKind.TIMEOUT, "no time was left to ask the node", sent=False)
    assert Budget(share=0.0, floor=0.0).retry(unsent, 1.0, unknown="" if known else "m")


PROVOKED = [Failure(kind, "said") for kind in FailureKind if policy(kind).pays != "budget"]


@given(st.lists(st.tuples(st.sampled_from([*PROVOKED, None]), st.booleans()), max_size=300))
def test_nothing_that_clients_bring_about_takes_a_retry_from_a_read(spent: list[tuple[Failure | None, bool]]) -> None:
    budget = Budget(share=0.0, floor=1.0, span=10.0)
    for failure, known in spent:
        if failure is None:
            budget.hedge(1.0)
        else:
            budget.retry(failure, 1.0, unknown="" if known else "m")
    reset = Failure(FailureKind.BROKEN_REPLY, "the connection broke off")
    assert sum(budget.retry(reset, 1.0) for _ in range(10)) >= 5, "half of it, the other half is for hedges"
