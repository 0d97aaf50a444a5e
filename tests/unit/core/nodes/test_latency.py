from __future__ import annotations

from math import e
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.nodes.latency import (
    FADES_AFTER_SECONDS,
    MAX_METHODS_A_NODE,
    LatencyAverage,
    MethodLatencies,
    MethodLatency,
)


def latency(paces: MethodLatencies) -> MethodLatency:
    """The latency of the only method."""
    found = paces.of("m")
    assert found is not None
    return found


@pytest.mark.parametrize("share", [0.5, 0.9, 0.95])
def test_the_quantile_is_found(share: float) -> None:
    rng, paces = Random(3), MethodLatencies(share)
    samples = [rng.lognormvariate(-3, 0.5) for _ in range(5000)]
    seen = []
    for number, seconds in enumerate(samples):
        paces.answered("m", seconds, float(number))
        seen.append(latency(paces).quantile)
    late = sum(seen[-1000:]) / 1000
    assert late == pytest.approx(sorted(samples)[int(share * 5000)], rel=0.15)
    assert latency(paces).mean == pytest.approx(sum(samples) / 5000, rel=0.35)


def test_it_follows_a_node_that_becomes_slow() -> None:
    paces = MethodLatencies()
    for number in range(500):
        paces.answered("m", 0.04, float(number))
    for number in range(120):
        paces.answered("m", 2.0, 500.0 + number)
    assert latency(paces).quantile > 1.0
    assert latency(paces).mean > 1.8


def test_calls_that_were_overtaken_do_not_make_the_node_look_quick() -> None:
    rng, paces = Random(5), MethodLatencies()
    for number in range(4000):
        seconds = rng.expovariate(10.0)
        if number > 50 and seconds > latency(paces).quantile:
            paces.overtaken("m", latency(paces).quantile)
        else:
            paces.answered("m", seconds, float(number))
    assert 0.15 < latency(paces).quantile < 0.6


def test_a_call_given_up_early_says_nothing() -> None:
    paces = MethodLatencies()
    paces.answered("m", 1.0, 0.0)
    paces.overtaken("m", 0.5)
    assert (latency(paces).count, latency(paces).quantile) == (1, 1.0)


def test_methods_are_apart_and_bounded() -> None:
    pace = MethodLatencies()
    for number in range(1000):
        pace.answered(f"m{number}", 0.1, float(number))
    assert pace.of("m0") is None
    assert pace.of("m999") is not None
    assert len(list(pace.lately(0.0))) == MAX_METHODS_A_NODE
    assert [method for method, _ in pace.lately(998.0)] == ["m998", "m999"]
    assert not pace.overtaken("unheard of", 0.3)
    assert pace.of("unheard of") is None
    assert pace.overtaken("m999", 0.3)
    assert not pace.overtaken("m999", 0.001)
    assert repr(pace) == f"<latencies of {MAX_METHODS_A_NODE} methods>"
    pace.forget()
    assert pace.of("slow") is None


@given(st.lists(st.tuples(st.booleans(), st.floats(1e-6, 100)), min_size=1, max_size=200))
def test_the_quantile_stays_among_the_samples_or_near(samples: list[tuple[bool, float]]) -> None:
    paces = MethodLatencies()
    paces.answered("m", samples[0][1], 0.0)
    for cut, seconds in samples:
        if cut:
            paces.overtaken("m", seconds)
        else:
            paces.answered("m", seconds, 0.0)
    assert latency(paces).quantile > 0


def test_an_unused_average_knows_nothing() -> None:
    average = LatencyAverage()
    assert not average.known
    assert average.fading(5.0) == 0.0


def test_old_samples_are_forgotten() -> None:
    average = LatencyAverage()
    average.add(5.0, 0.0)
    average.add(0.01, 120.0)
    assert average.ewma == pytest.approx(0.01, rel=0.01)


def test_an_average_without_samples_for_a_while_fades() -> None:
    average = LatencyAverage(decay=10.0)
    average.add(2.0, 0.0)
    assert average.fading(FADES_AFTER_SECONDS) == average.ewma == 2.0
    assert average.fading(FADES_AFTER_SECONDS + 10.0) == pytest.approx(2.0 / e)
    assert average.fading(100.0) < 0.001
    assert average.ewma == 2.0


def test_a_clock_that_does_not_move_spoils_nothing() -> None:
    average = LatencyAverage()
    average.add(0.1, 1.0)
    average.add(0.2, 1.0)
    assert average.ewma == 0.1
    assert "100.0 ms" in repr(average)
