from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.nodes.latency import MOST_METHODS, LatencyAverage, MethodLatencies, MethodLatency


@pytest.mark.parametrize("share", [0.5, 0.9, 0.95])
def test_the_quantile_is_found(share: float) -> None:
    rng, pace = Random(3), MethodLatency()
    samples = [rng.lognormvariate(-3, 0.5) for _ in range(5000)]
    seen = []
    for number, seconds in enumerate(samples):
        pace.answered(seconds, share, float(number))
        seen.append(pace.quantile)
    late = sum(seen[-1000:]) / 1000
    assert late == pytest.approx(sorted(samples)[int(share * 5000)], rel=0.15)
    assert pace.mean == pytest.approx(sum(samples) / 5000, rel=0.35)


def test_it_follows_a_node_that_becomes_slow() -> None:
    pace = MethodLatency()
    for number in range(500):
        pace.answered(0.04, 0.95, float(number))
    for number in range(120):
        pace.answered(2.0, 0.95, 500.0 + number)
    assert pace.quantile > 1.0
    assert pace.mean > 1.8


def test_calls_that_were_overtaken_do_not_make_the_node_look_quick() -> None:
    rng, pace = Random(5), MethodLatency()
    for number in range(4000):
        seconds = rng.expovariate(10.0)
        if pace.count > 50 and seconds > pace.quantile:
            pace.overtaken(pace.quantile, 0.95)
        else:
            pace.answered(seconds, 0.95, float(number))
    assert 0.15 < pace.quantile < 0.6


def test_a_call_given_up_early_says_nothing() -> None:
    pace = MethodLatency()
    pace.answered(1.0, 0.95, 0.0)
    pace.overtaken(0.5, 0.95)
    assert (pace.count, pace.quantile) == (1, 1.0)


def test_methods_are_apart_and_bounded() -> None:
    pace = MethodLatencies()
    for number in range(1000):
        pace.answered(f"m{number}", 0.1, float(number))
    assert pace.of("m0") is None
    assert pace.of("m999") is not None
    assert len(list(pace.lately(0.0))) == MOST_METHODS
    assert [method for method, _ in pace.lately(998.0)] == ["m998", "m999"]
    assert not pace.overtaken("unheard of", 0.3)
    assert pace.of("unheard of") is None
    assert pace.overtaken("m999", 0.3)
    assert not pace.overtaken("m999", 0.001)
    assert repr(pace) == f"<latencies of {MOST_METHODS} methods>"
    pace.forget()
    assert pace.of("slow") is None


@given(st.lists(st.tuples(st.booleans(), st.floats(1e-6, 100)), min_size=1, max_size=200))
def test_the_quantile_stays_among_the_samples_or_near(samples: list[tuple[bool, float]]) -> None:
    pace = MethodLatency()
    for cut, seconds in samples:
        if cut:
            pace.overtaken(seconds, 0.95)
        else:
            pace.answered(seconds, 0.95, 0.0)
    assert pace.quantile > 0


def test_an_unused_average_knows_nothing() -> None:
    average = LatencyAverage()
    assert not average.known
    assert average.peak(5.0) == 0.0


def test_old_samples_are_forgotten() -> None:
    average = LatencyAverage()
    average.add(5.0, 0.0)
    average.add(0.01, 120.0)
    assert average.ewma == pytest.approx(0.01, rel=0.01)


def test_the_peak_jumps_up_at_once_and_sinks_slowly() -> None:
    average = LatencyAverage(decay=10.0)
    average.add(0.01, 0.0)
    average.add(2.0, 0.1)
    assert average.last_peak == 2.0
    average.add(0.01, 0.2)
    assert 1.9 < average.peak(0.2) < 2.0
    assert average.peak(60.0) < 0.01
    assert average.ewma < 0.1


def test_a_clock_that_does_not_move_spoils_nothing() -> None:
    average = LatencyAverage()
    average.add(0.1, 1.0)
    average.add(0.2, 1.0)
    assert average.ewma == 0.1
    assert "100.0 ms" in repr(average)
