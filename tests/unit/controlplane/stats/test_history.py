import pytest

from rpcaccel.controlplane.stats.history import METHOD_BUCKETS, SPACING, History
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.core.stats.tally import Tally


def called(
    tally: Tally, times: int, source: AnswerSource = AnswerSource.NODE, seconds: float = 0.01, failed: bool = False
) -> None:
    for _ in range(times):
        tally.cell("s0", "eth_call", CacheClass.HEAD).done(source, seconds, 10, failed)


def test_the_first_snapshot_is_no_point_since_nothing_was_seen_before() -> None:
    history, tally = History(), Tally(["eth_call"])
    called(tally, 5)
    history.add(tally.snapshot(), now=100.0, at=1.0)
    assert history.buckets() == []
    assert history.window(10) is None
    assert repr(history) == "<History 5m 0, 1h 0, 24h 0, 7d 0>"


def test_nothing_seen_has_no_window() -> None:
    assert History().window(10) is None


def test_a_point_tells_only_what_came_since_the_one_before() -> None:
    history, tally = History(), Tally(["eth_call"])
    called(tally, 5)
    history.add(tally.snapshot(), now=100.0, at=1000.0)
    called(tally, 3, AnswerSource.MEMORY, seconds=1e-5)
    called(tally, 2, failed=True)
    called(tally, 1, AnswerSource.REFUSED)
    history.add(tally.snapshot(), now=102.0, at=1002.0)
    (point,) = history.buckets()
    assert (point.at, point.seconds, point.calls, point.hits, point.errors, point.refused) == (1002.0, 2.0, 6, 3, 2, 1)
    assert point.hit.quantile(0.99) == pytest.approx(20e-6, rel=0.02)
    assert point.miss.quantile(0.99) == pytest.approx(10e-3, rel=0.02)


def test_a_quiet_second_has_no_latency() -> None:
    history, tally = History(), Tally()
    history.add(tally.snapshot(), now=1.0, at=1.0)
    history.add(tally.snapshot(), now=2.0, at=2.0)
    (point,) = history.buckets()
    assert (point.calls, point.hit.quantile(0.99), point.miss.quantile(0.99)) == (0, None, None)


def test_a_clock_that_did_not_move_makes_no_point() -> None:
    history, tally = History(), Tally()
    history.add(tally.snapshot(), now=1.0, at=1.0)
    history.add(tally.snapshot(), now=1.0, at=1.0)
    assert history.buckets() == []


def test_a_window_reaches_back_as_far_as_asked_and_not_further_than_needed() -> None:
    history, tally = History(spacing=5.0, span=60.0), Tally(["eth_call"])
    for second in range(200):
        called(tally, 1)
        history.add(tally.snapshot(), now=float(second), at=float(second))
    ten, minute = history.window(10.0), history.window(60.0)
    assert ten is not None
    assert minute is not None
    assert 10.0 <= ten.seconds < 15.0
    assert ten.passed.cells[0].calls == ten.seconds
    assert 55.0 <= minute.seconds <= 65.0
    assert minute.passed.cells[0].calls == minute.seconds


def test_a_short_past_is_a_short_window() -> None:
    history, tally = History(), Tally(["eth_call"])
    history.add(tally.snapshot(), now=0.0, at=0.0)
    called(tally, 4)
    history.add(tally.snapshot(), now=2.0, at=2.0)
    window = history.window(60.0)
    assert window is not None
    assert (window.seconds, window.passed.cells[0].calls) == (2.0, 4)


def test_a_window_is_worked_out_once_and_anew_after_the_next_snapshot() -> None:
    history, tally = History(), Tally()
    for second in range(2):
        history.add(tally.snapshot(), now=float(second), at=0.0)
    before = history.window(10.0)
    assert history.window(10.0) is before
    history.add(tally.snapshot(), now=3.0, at=0.0)
    assert history.window(10.0) is not before


def test_every_range_is_bounded_and_covers_what_its_name_says() -> None:
    history, snapshot = History(), Tally().snapshot()
    for quarter in range(25 * 60 * 4):
        history.add(snapshot, now=quarter * 15.0, at=quarter * 15.0)
    newest = history.buckets("5m")[-1].at
    for over, seconds in (("1h", 3600), ("24h", 86400)):
        points = history.buckets(over)
        assert len(points) <= SPACING[over][1] + 1
        assert newest - points[0].at == pytest.approx(seconds, rel=0.01)
    assert len(history.buckets("5m")) == SPACING["5m"][1]


def test_a_coarse_point_is_all_that_was_counted_over_its_time_and_the_open_one_is_shown_too() -> None:
    history, tally = History(), Tally(["eth_call"])
    for second in range(41):
        called(tally, 2)
        history.add(tally.snapshot(), now=float(second), at=1000.0 + second)
    points = history.buckets("1h")
    assert [(point.at, point.seconds, point.calls) for point in points] == [
        (1015.0, 15.0, 30),
        (1030.0, 15.0, 30),
        (1040.0, 10.0, 20),
    ]
    assert points[0].miss.count == 30


def test_a_method_has_its_own_past_with_gaps_where_it_was_not_called() -> None:
    history, tally = History(), Tally(["eth_call"])
    every, keep = history.spacing, METHOD_BUCKETS
    for second in range(int(every * (keep + 5))):
        if second < 2 * every or second > every * keep:
            called(tally, 1)
        history.add(tally.snapshot(), now=float(second), at=float(second))
    past = history.method("s0", "eth_call")
    assert len(past) == keep
    assert past[0].calls == 0
    assert (past[-1].calls, past[-1].hits, past[-1].seconds, past[-1].hit.count) == (every, 0, every, 0)
    assert history.method("s0", "eth_gasPrice")[0].calls == 0
