from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.nodes.limits import ConcurrencyPolicy, Limit


def test_it_starts_at_the_most_and_stays_there_while_all_is_well() -> None:
    limit = Limit(64)
    limit.answered(64)
    assert limit.value == 64
    assert repr(limit) == "<limit 64 of 64>"


def test_overload_cuts_it_below_what_was_in_flight() -> None:
    limit = Limit(512)
    limit.overloaded(100, 1.0)
    assert limit.value == 70


def test_one_jam_is_one_sign() -> None:
    limit = Limit(512)
    for _ in range(50):
        limit.overloaded(100, 1.0)
    assert limit.value == 70
    limit.overloaded(70, 2.0)
    assert limit.value == 49


def test_it_grows_by_one_a_round_and_only_while_it_is_used() -> None:
    limit = Limit(512)
    limit.overloaded(100, 1.0)
    limit.answered(10)
    assert limit.value == 70
    for _ in range(70):
        limit.answered(70)
    assert 70.9 < limit.value <= 71


def test_a_few_slow_calls_do_not_shut_a_node_down() -> None:
    limit = Limit(512)
    for second in range(20):
        limit.overloaded(1, float(second * 2))
    assert limit.value == ConcurrencyPolicy().least


def test_new_bounds_keep_what_was_learnt() -> None:
    learnt, unhurt = Limit(512), Limit(512)
    learnt.overloaded(100, 1.0)
    learnt.adopt(1024, ConcurrencyPolicy())
    unhurt.adopt(1024, ConcurrencyPolicy())
    assert (learnt.value, unhurt.value) == (70, 1024)
    learnt.adopt(8, ConcurrencyPolicy())
    assert learnt.value == 8


@given(st.integers(1, 1000), st.lists(st.tuples(st.booleans(), st.integers(0, 2000), st.floats(0, 3)), max_size=80))
def test_it_never_leaves_its_bounds(most: int, events: list[tuple[bool, int, float]]) -> None:
    limit, now = Limit(most), 0.0
    for well, in_flight, passed in events:
        now += passed
        if well:
            limit.answered(in_flight)
        else:
            limit.overloaded(in_flight, now)
        assert 1 <= min(16, most) <= limit.value <= most
