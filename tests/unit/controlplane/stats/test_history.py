import math
import sqlite3
import threading

import pytest

from rpcaccel.controlplane.stats.buckets import bucket_of
from rpcaccel.controlplane.stats.history import LIVE_SECONDS, METHOD_BUCKETS, SPARSE_SPACING_SECONDS, History, spared
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.core.stats.tally import Tally


def called(
    tally: Tally,
    times: int,
    source: AnswerSource = AnswerSource.NODE,
    seconds: float = 0.01,
    failed: bool = False,
    method: str = "eth_call",
) -> None:
    for _ in range(times):
        tally.cell("s0", method, CacheClass.HEAD).done(source, seconds, 10, failed)


def test_the_first_snapshot_is_no_point_since_nothing_was_seen_before() -> None:
    history, tally = History(), Tally(["eth_call"])
    assert history.window(10) is None
    called(tally, 5)
    history.add(tally.snapshot(), now=100.0, at=1.0)
    assert history.buckets() == []
    assert history.window(10) is None
    assert repr(history) == "<History 0 live, <HistoryTable after 0 changes>>"


def test_a_clock_that_did_not_move_makes_no_point() -> None:
    history, tally = History(), Tally()
    history.add(tally.snapshot(), now=1.0, at=1.0)
    history.add(tally.snapshot(), now=1.0, at=1.0)
    assert history.buckets() == []


def test_a_window_reaches_back_as_far_as_asked_and_not_further_than_needed() -> None:
    history, tally = History(), Tally(["eth_call"])
    for second in range(2000):
        called(tally, 1)
        history.add(tally.snapshot(), now=float(second), at=float(second))
    for asked, most in ((10.0, 15.0), (60.0, 65.0), (300.0, 300.0 + SPARSE_SPACING_SECONDS)):
        window = history.window(asked)
        assert asked <= window.seconds <= most
        assert window.passed.cells[0].calls == window.seconds
    longest = history.window(math.inf)
    assert longest.seconds < 400, "snapshots are bounded"


def test_a_short_past_is_a_short_window() -> None:
    history, tally = History(), Tally(["eth_call"])
    history.add(tally.snapshot(), now=0.0, at=0.0)
    called(tally, 4)
    history.add(tally.snapshot(), now=2.0, at=2.0)
    window = history.window(60.0)
    assert (window.seconds, window.passed.cells[0].calls) == (2.0, 4)


def test_a_window_is_worked_out_once_and_anew_after_the_next_snapshot() -> None:
    history, tally = History(), Tally()
    for second in range(2):
        history.add(tally.snapshot(), now=float(second), at=0.0)
    before = history.window(10.0)
    assert history.window(10.0) is before
    history.add(tally.snapshot(), now=3.0, at=0.0)
    assert history.window(10.0) is not before


def test_every_range_tells_the_same_of_the_same_time_and_the_seconds_are_bounded() -> None:
    history, tally = History(), Tally(["eth_call"])
    for second in range(LIVE_SECONDS + 101):
        called(tally, 2)
        history.add(tally.snapshot(), now=float(second), at=1000.0 + second)
    assert len(history.buckets()) == len(history.points()) == LIVE_SECONDS
    for over in ("1h", "24h", "7d"):
        points = history.buckets(over, "s0")
        assert sum(point.calls for point in points) == 2 * (LIVE_SECONDS + 100)
        assert points[-1].at == 1000.0 + LIVE_SECONDS + 100
        assert sum(point.calls for point in history.buckets(over)) == 2 * (LIVE_SECONDS + 100)
    (live, hour) = (history.total(over, "s0") for over in ("5m", "1h"))
    assert (live.calls, live.miss.count, hour.miss.count) == (600, 600, 800)


def test_the_finest_range_that_reaches_as_far_back_is_found() -> None:
    history, snapshot = History(), Tally().snapshot()
    assert history.covering("24h") == "24h", "there is nothing"
    for number in range(400):
        history.add(snapshot, now=15.0 * number, at=1_000_000.0 + 15.0 * number)
    newest = 1_000_000.0 + 15.0 * 399
    assert history.covering("1h") == "5m", "so few seconds are as old as an hour of snapshots that come seldom"
    assert history.covering("7d", newest - 3000.0) == "5m"
    assert history.covering("7d", newest - 5000.0) == "24h"
    assert history.covering("5m", 1.0) == "24h", "nothing is older"


def test_what_a_clock_that_was_put_back_makes_come_later_is_not_shown() -> None:
    history, snapshot = History(), Tally().snapshot()
    for now, at in enumerate((0.0, 1.0, 2.0, 700.0, 701.0, 5.0, 6.0)):
        history.add(snapshot, now=float(now), at=1000.0 + at)
    assert [one.at for one in history.buckets()] == [1001.0, 1002.0, 1005.0, 1006.0]


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


def test_the_event_loop_never_waits_for_whoever_reads_the_table() -> None:
    history, tally = History(), Tally(["eth_call"])
    begun, ended = threading.Event(), threading.Event()

    def read() -> None:
        with history.table.lock:
            begun.set()
            ended.wait(20)

    reader = threading.Thread(target=read)
    reader.start()
    begun.wait(20)
    for second in range(1000):
        called(tally, 1)
        history.add(tally.snapshot(), now=float(second), at=1000.0 + second)
    assert len(history.points()) == len(history.buckets("5m")) == LIVE_SECONDS
    assert (history.window(10.0), repr(history)) != (None, "")
    assert not ended.is_set(), "the reader is still there"
    ended.set()
    reader.join(20)
    total = history.total("1h")
    assert (total.calls, history.nodes.total("hour").seconds) == (999, 999.0)


def test_an_error_of_the_table_costs_one_slot_and_none_of_those_behind_it() -> None:
    history, tally = History(), Tally(["eth_call"])
    for second in range(-20, 40):
        called(tally, 1)
        history.add(tally.snapshot(), now=float(second), at=float(second))
    with pytest.raises(sqlite3.IntegrityError):
        history.flush()  # the table takes no time before 1970
    total = history.total("1h")
    assert (total.calls, total.at) == (54, 39.0)


def test_a_hit_spares_a_node_call_and_the_mean_miss_of_its_method() -> None:
    tally = Tally(["eth_call", "eth_gasPrice"])
    called(tally, 4, AnswerSource.NODE, 0.1)
    called(tally, 10, AnswerSource.MEMORY, 0.001)
    called(tally, 2, AnswerSource.FLIGHT, 0.5, method="eth_gasPrice")
    calls, seconds = spared(tally.snapshot().cells, {})
    assert calls == 12
    assert seconds == pytest.approx(10 * 0.1 - 10 * 0.001)


def test_a_method_that_is_only_hit_now_is_measured_by_its_misses_of_before() -> None:
    before, now = Tally(["eth_call"]), Tally(["eth_call"])
    means: dict[tuple[str, str], float] = {}
    called(before, 1, AnswerSource.NODE, 0.2)
    spared(before.snapshot().cells, means)
    called(now, 5, AnswerSource.MEMORY, 0.0)
    assert spared(now.snapshot().cells, means) == (5, 1.0)
    assert spared(now.snapshot().cells, {}) == (5, 0.0)


def test_a_hit_that_is_slower_than_a_miss_spares_no_time() -> None:
    tally = Tally(["eth_call"])
    called(tally, 1, AnswerSource.NODE, 0.01)
    called(tally, 1, AnswerSource.SHARED, 0.02)
    assert spared(tally.snapshot().cells, {}) == (1, 0.0)


def test_a_subscribe_spares_no_node_call_and_is_no_part_of_the_hit_ratio() -> None:
    tally = Tally(["eth_call", "eth_subscribe"])
    called(tally, 10, AnswerSource.LIVE, 0.001, method="eth_subscribe")
    alone = tally.snapshot().cells
    assert spared(alone, {}) == (0, 0.0)
    assert (bucket_of(alone, 1.0).calls, bucket_of(alone, 1.0).hit_ratio) == (10, None)
    called(tally, 3, AnswerSource.MEMORY, 0.001)
    called(tally, 1, AnswerSource.NODE, 0.1)
    called(tally, 2, AnswerSource.REFUSED, 0.1)
    assert bucket_of(tally.snapshot().cells, 1.0).hit_ratio == 0.75


def test_a_point_tells_what_came_since_the_one_before_by_outcome_and_node() -> None:
    history, tally = History(), Tally(["eth_call"])
    called(tally, 5)
    history.add(tally.snapshot(), now=1.0, at=3.0)
    called(tally, 3, AnswerSource.MEMORY, 1e-5)
    called(tally, 2, AnswerSource.NODE, 0.01, failed=True)
    called(tally, 1, AnswerSource.REFUSED)
    tally.refused("not JSON")
    tally.node("s0", "idle")
    node = tally.node("s0", "a")
    for _ in range(3):
        node.calls += 1
    node.answered(0.01)
    node.answered(0.03)
    node.failed("timeout")
    history.add(tally.snapshot(), now=3.0, at=5.0)
    (made,) = history.buckets()
    assert (made.at, made.seconds, made.spared_calls) == (5.0, 2.0, 3)
    assert (made.calls, made.hits, made.errors, made.refused, made.turned_away) == (6, 3, 2, 1, 1)
    assert (made.hit.count, made.miss.count) == (3, 2)
    hit, miss = made.hit.quantile(0.99), made.miss.quantile(0.99)
    assert (hit, miss) == (pytest.approx(20e-6, rel=0.02), pytest.approx(10e-3, rel=0.02))
    (found,) = made.nodes.values()
    assert (found.calls, found.failures, found.answers) == (3, 1, 2)
    assert found.seconds == pytest.approx(0.04)
