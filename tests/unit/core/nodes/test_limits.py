"""The quotas of a node, and its adaptive limit of calls in flight."""

from __future__ import annotations

from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.nodes.limits import (
    Brought,
    ConcurrencyPolicy,
    Limit,
    MethodCosts,
    Quota,
    QuotaLimits,
    runs_out,
    window_end,
)
from tests.support.held_memory import bytes_held

DAY = 86_400.0


def unix(*date: int) -> float:
    return datetime(*date, tzinfo=UTC).timestamp()  # type: ignore[misc, arg-type]


NOON = unix(2026, 2, 10, 12)


def quota(*, epoch: float = NOON, **limits: Any) -> Quota:
    return Quota(QuotaLimits(**limits), now=0.0, epoch=epoch)


def test_a_day_that_is_used_up_parks_the_node_until_it_renews() -> None:
    found = quota(day=3)
    for _ in range(3):
        assert found.parked_until(1.0) is None
        found.spend("eth_call", False, 1.0)
    assert found.parked_until(2.0) == DAY / 2
    assert found.parked_until(DAY / 2) is None
    assert found.uses(DAY / 2)[0].used == 0


def test_the_later_of_two_renewals_counts() -> None:
    found = quota(day=1, month=1)
    found.spend("eth_call", False, 1.0)
    assert found.parked_until(1.0) == unix(2026, 3, 1) - NOON


def test_a_heavy_method_counts_more() -> None:
    found = quota(month=10, costs=MethodCosts(heavy=4))
    found.spend("eth_getLogs", True, 1.0)
    found.spend("eth_call", False, 1.0)
    assert [use.used for use in found.uses(1.0)] == [5.0]
    assert "5 this month" in repr(found)


def test_a_second_has_so_many_calls_and_fills_up_again() -> None:
    found = quota(second=2)
    found.spend("eth_call", False, 1.0)
    assert found.has_room(1.0)
    found.spend("eth_call", False, 1.0)
    assert not found.has_room(1.4)
    assert found.has_room(1.5)
    assert found.parked_until(1.0) is None


def test_a_share_of_less_than_a_call_a_second_still_lets_calls_through() -> None:
    found = Quota(QuotaLimits(second=2).shared_by(4), now=0.0, epoch=NOON)
    assert found.has_room(0.0)
    found.spend("eth_call", False, 0.0)
    assert not found.has_room(1.9)
    assert found.has_room(2.0)


def test_without_a_limit_there_is_always_room() -> None:
    assert not QuotaLimits().counts
    assert quota().has_room(0.0)
    assert quota().uses(0.0) == ()
    assert quota().parked_until(0.0) is None


@pytest.mark.parametrize(
    ("window", "at", "ends"),
    [("day", (2026, 2, 10, 23, 59), (2026, 2, 11)), ("day", (2026, 2, 10), (2026, 2, 11)),
     ("month", (2026, 2, 28), (2026, 3, 1)), ("month", (2026, 12, 31, 5), (2027, 1, 1))],
)  # fmt: skip
def test_windows_end_with_the_calendar(window: str, at: tuple[int, ...], ends: tuple[int, ...]) -> None:
    assert window_end(window, unix(*at)) == unix(*ends)  # type: ignore[arg-type]


def test_the_day_it_runs_out_is_where_the_pace_leads() -> None:
    march = {"since": unix(2026, 3, 1), "renews": unix(2026, 4, 1)}
    assert runs_out(1000, 2000, now=unix(2026, 3, 11), **march) == unix(2026, 3, 21)
    assert runs_out(300, 2000, now=unix(2026, 3, 11), **march) is None, "it renews before"
    assert runs_out(2000, 2000, now=unix(2026, 3, 11), **march) == unix(2026, 3, 11)
    assert runs_out(0, 2000, now=unix(2026, 3, 11), **march) is None
    assert runs_out(5, 2000, now=unix(2026, 3, 1), **march) is None, "no pace yet"


@given(st.floats(0, 1e9), st.floats(1, 1e9), st.floats(0, 31 * DAY))
def test_a_forecast_lies_between_now_and_the_renewal(used: float, limit: float, passed: float) -> None:
    out = runs_out(used, limit, since=0.0, now=passed, renews=31 * DAY)
    assert out is None or passed <= out <= max(31 * DAY, passed)


def brought(used: float, *, window: str = "day", renews: float = NOON + DAY / 2) -> Brought:
    return Brought(network="n", node="a", window=window, used=used, since=NOON - 60, renews=renews)  # type: ignore[arg-type]


def test_what_others_used_counts_once_however_often_it_is_said() -> None:
    found = quota(day=10, month=100)
    found.spend("eth_call", False, 1.0)
    for used in (4.0, 4.0, 9.0):
        found.bring(brought(used), 2.0)
    day, month = found.uses(2.0)
    assert (day.used, day.brought, day.own, day.since) == (10.0, 9.0, 1.0, NOON - 60)
    assert (month.used, month.since) == (1.0, NOON)
    assert found.parked_until(2.0) == DAY / 2


def test_what_was_used_in_another_day_does_not_count() -> None:
    found = quota(day=10)
    found.bring(brought(9.0, renews=NOON - DAY / 2), 1.0)
    assert found.uses(1.0)[0].used == 0
    found.bring(brought(9.0), 1.0)
    assert found.uses(DAY / 2)[0].used == found.uses(DAY / 2)[0].brought == 0, "the next day begins with nothing"


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 3 * DAY)), max_size=50), st.integers(1, 8))
def test_no_day_is_ever_overdrawn_by_more_than_one_call(calls: list[tuple[bool, float]], workers: int) -> None:
    settings = QuotaLimits(day=20, costs=MethodCosts(heavy=3))
    parts = [Quota(settings.shared_by(workers), now=0.0, epoch=NOON) for _ in range(workers)]
    for index, (heavy, at) in enumerate(sorted(calls, key=lambda call: call[1])):
        part = parts[index % workers]
        if part.parked_until(at) is None:
            part.spend("eth_getLogs" if heavy else "eth_call", heavy, at)
            (use,) = part.uses(at)
            assert use.used <= use.limit + 3


NAMES = st.sampled_from(["eth_call", "eth_getLogs", "eth_getBalance", "debug_traceCall", "trace_block", "x_y"])
PATTERNS = st.sampled_from(["*", "eth_*", "eth_get*", "debug_*", "trace_?lock", "*_*"])
ROWS = st.dictionaries(NAMES | PATTERNS, st.integers(0, 1000).map(float), max_size=8)


@given(ROWS, ROWS, NAMES, st.booleans(), st.integers(1, 50).map(float))
def test_names_come_before_patterns_own_rows_before_the_providers_and_the_star_last(
    own: dict[str, float], provider: dict[str, float], method: str, heavy: bool, heavy_cost: float
) -> None:
    cost = MethodCosts(own, provider, heavy_cost).of(method, heavy)
    for rows in (own, provider):
        if method in rows:
            assert cost == rows[method]
            return
        fitting = [units for name, units in rows.items() if name != "*" and fnmatchcase(method, name)]
        if fitting:
            assert cost == fitting[0]
            return
    assert cost == own.get("*", provider.get("*", heavy_cost if heavy else 1.0))


@given(ROWS, ROWS, st.lists(st.tuples(NAMES, st.floats(0, 5 * DAY)), max_size=60))
def test_a_quota_has_used_the_sum_of_what_its_calls_cost(
    own: dict[str, float], provider: dict[str, float], calls: list[tuple[str, float]]
) -> None:
    found = quota(month=1e15, costs=MethodCosts(own, provider))
    told = [found.spend(method, False, at) for method, at in sorted(calls, key=lambda call: call[1])]
    fresh = [MethodCosts(own, provider).of(method, False) for method, _ in calls]
    assert found.uses(5 * DAY)[0].used == sum(told) == sum(fresh)


def test_fractions_and_large_counts_of_units_are_kept() -> None:
    found = quota(month=1e15, costs=MethodCosts({"eth_call": 0.25}))
    found.bring(brought(9e14, window="month", renews=unix(2026, 3, 1)), 1.0)
    for _ in range(4000):
        found.spend("eth_call", False, 1.0)
    assert found.uses(1.0)[0].used == 9e14 + 1000
    assert found.parked_until(1.0) is None


def test_a_call_that_costs_more_than_a_second_has_is_made_up_for() -> None:
    found = quota(second=100, costs=MethodCosts({"debug_traceCall": 1000}))
    found.spend("debug_traceCall", False, 1.0)
    assert not found.has_room(9.9)
    assert found.has_room(10.1)


def test_invented_names_fill_no_memory_and_change_no_cost() -> None:
    costs = MethodCosts({"*": 7, "eth_call": 26})

    def invent() -> None:
        for number in range(10_000):
            assert costs.of(f"invented_{number}", False) == 7
            assert costs.of(f"{number}" * 1000, False) == 7

    held = bytes_held(invent)
    assert costs.of("eth_call", False) == 26
    assert held < 500_000


def test_a_name_too_many_lets_the_others_be_remembered() -> None:
    costs = MethodCosts({"*": 7})

    def ask() -> None:
        for number in range(2049):
            costs.of(f"method_{number:0100}", False)

    assert 300_000 < bytes_held(ask) < 800_000


def test_asterisks_alone_are_the_row_of_what_no_other_row_fits() -> None:
    costs = MethodCosts({"**": 7}, {"eth_call": 26, "debug_*": 40, "*": 20})
    assert [costs.of(method, False) for method in ("eth_call", "debug_x", "eth_x")] == [26, 40, 7]


def test_costs_without_a_limit_are_counted_as_well() -> None:
    assert QuotaLimits(costs=MethodCosts({"eth_call": 2})).counts
    assert not QuotaLimits(costs=MethodCosts(heavy=20)).counts
    shared = QuotaLimits(second=8, costs=MethodCosts({"eth_call": 2})).shared_by(4)
    assert (shared.second, shared.costs) == (2, MethodCosts({"eth_call": 2}))
    assert shared.costs != MethodCosts({"eth_call": 3})
    assert len({MethodCosts({"eth_call": 2}), shared.costs}) == 1
    assert (MethodCosts({"eth_call": 2, "*": 5}).most, MethodCosts().most) == (5, 1)
    assert repr(shared.costs) == "<costs of 1 rows>"


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
