"""The token bucket: rate, burst, debts, and what no order of events can break."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.client_limits import TokenBucket


def test_a_burst_is_let_through_and_then_the_rate_holds() -> None:
    bucket = TokenBucket(rate=2, burst=3, now=0.0)
    assert [bucket.take(1, 0.0) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert bucket.take(1, 0.0) == 0.5
    assert bucket.take(1, 0.25) == 0.25
    assert bucket.take(1, 0.5) == 0.0


def test_the_wait_it_names_is_enough() -> None:
    bucket = TokenBucket(rate=3, burst=5, now=0.0)
    bucket.take(5, 0.0)
    wait = bucket.take(4, 0.1)
    assert bucket.take(4, 0.1 + wait + 1e-9) == 0.0


def test_what_costs_more_than_it_holds_passes_when_it_is_full_and_is_paid_off() -> None:
    bucket = TokenBucket(rate=1, burst=2, now=0.0)
    assert bucket.take(10, 0.0) == 0.0
    assert bucket.take(1, 0.0) == pytest.approx(9.0)


def test_what_was_spent_elsewhere_counts_up_to_one_bucket_of_debt() -> None:
    bucket = TokenBucket(rate=1, burst=4, now=0.0)
    bucket.charge(1000, 0.0)
    assert bucket.take(1, 0.0) == 5.0


def test_a_clock_that_stands_or_steps_back_gives_nothing() -> None:
    bucket = TokenBucket(rate=1, burst=1, now=10.0)
    bucket.take(1, 10.0)
    assert bucket.take(1, 5.0) == 1.0
    assert bucket.take(1, 11.0) == 0.0


def test_new_settings_keep_what_is_left() -> None:
    bucket = TokenBucket(rate=1, burst=10, now=0.0)
    bucket.take(8, 0.0)
    bucket.adopt(5, 20, 0.0)
    assert (bucket.level, bucket.rate, bucket.burst) == (2, 5, 20)
    bucket.adopt(5, 1, 0.0)
    assert bucket.level == 1
    assert repr(bucket) == "<bucket 1 of 1, 5/s>"


@given(
    rate=st.floats(0.1, 1000),
    burst=st.floats(1, 1000),
    steps=st.lists(st.tuples(st.floats(0, 2), st.floats(0.1, 20)), max_size=60),
)
def test_nobody_ever_gets_more_than_the_burst_and_the_rate(
    rate: float, burst: float, steps: list[tuple[float, float]]
) -> None:
    bucket, now, taken, dearest = TokenBucket(rate, burst, 0.0), 0.0, 0.0, 0.0
    for passed, cost in steps:
        now += passed
        if bucket.take(cost, now) == 0.0:
            taken += cost
            dearest = max(dearest, cost)
        assert taken <= burst + rate * now + max(dearest - burst, 0) + 1e-6
        assert bucket.level <= burst
