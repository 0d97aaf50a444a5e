"""When the next call may be made."""

from __future__ import annotations

from rpcaccel.warming.pace import LONGEST_PAUSE, Pace, backoff


def test_calls_keep_their_distance() -> None:
    pace = Pace(10)
    assert pace.wait(100.0) <= 0
    pace.take(100.0)
    assert abs(pace.wait(100.0) - 0.1) < 1e-9
    assert pace.wait(100.2) <= 0


def test_a_late_timer_is_made_up_for_and_a_pause_is_not() -> None:
    pace = Pace(10)
    pace.take(100.0)
    pace.take(100.15)
    assert abs(pace.wait(100.15) - 0.05) < 1e-9
    pace.take(160.0)
    assert abs(pace.wait(160.0) - 0.1) < 1e-9


def test_without_a_rate_nothing_waits_but_for_a_pause() -> None:
    pace = Pace()
    pace.take(100.0)
    assert pace.wait(100.0) <= 0
    pace.hold(7.0, 100.0)
    pace.hold(1.0, 100.0)
    assert pace.wait(100.0) == 7.0
    assert pace.wait(107.0) <= 0
    assert repr(pace) == "<Pace a call every 0 s>"


def test_pauses_grow_up_to_a_bound() -> None:
    assert [backoff(times) for times in (1, 2, 3, 4)] == [1, 2, 4, 8]
    assert backoff(10_000) == LONGEST_PAUSE
