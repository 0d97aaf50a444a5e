from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.simnode.chain.knobs import Knobs, Latency


@pytest.mark.parametrize(
    ("text", "latency"),
    [
        ("40ms", Latency(0.04)),
        ("0.2", Latency(0.2)),
        ("fixed:1s", Latency(1.0)),
        ("uniform:20ms-60ms", Latency(0.04, 0.02, "uniform")),
        ("lognormal:40ms,0.5", Latency(0.04, 0.5, "lognormal")),
        ("jitter:40ms+10ms", Latency(0.04, 0.01, "jitter")),
    ],
)
def test_a_latency_is_written_in_a_word(text: str, latency: Latency) -> None:
    assert Latency.parse(text).mean == pytest.approx(latency.mean)
    assert Latency.parse(text).spread == pytest.approx(latency.spread)
    assert Latency.parse(text).shape == latency.shape


def test_an_unreadable_latency_says_how_to_write_one() -> None:
    with pytest.raises(ValueError, match="say 40ms"):
        Latency.parse("soon")


@given(st.sampled_from(["fixed", "uniform", "lognormal", "jitter"]), st.floats(0, 1), st.floats(0, 1), st.integers())
def test_no_latency_is_negative_and_jitter_only_adds(shape: str, mean: float, spread: float, seed: int) -> None:
    drawn = Latency(mean, spread, shape).draw(Random(seed))  # type: ignore[arg-type]
    assert drawn >= 0
    assert drawn >= mean or shape in ("uniform", "lognormal")


def test_knobs_are_turned_all_or_none() -> None:
    knobs = Knobs()
    with pytest.raises(ValueError, match="no knob 'lagg'"):
        knobs.turn({"lag": 3, "lagg": 1})
    with pytest.raises(ValueError, match="knob 'lag'"):
        knobs.turn({"archive": False, "lag": "many"})
    with pytest.raises(ValueError, match="expected names of hang"):
        knobs.turn({"faults": {"explode": 1.0}})
    with pytest.raises(ValueError, match="knob 'latency'"):
        knobs.turn({"latency": True})
    assert knobs == Knobs()
    knobs.turn({"lag": 3, "latency": "5ms", "work": 0.1, "method_work": {"a": "1ms"}, "missing": ["b"]})
    assert (knobs.lag, knobs.latency, knobs.work) == (3, Latency(0.005), Latency(0.1))
    assert (knobs.method_work, knobs.missing) == ({"a": Latency(0.001)}, {"b"})
    assert Knobs().positions() | {"lag": 3} == Knobs(lag=3).positions()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lag": -1}, "knob 'lag': Expected `int` >= 0"),
        ({"faults": {"reset": 5}}, "knob 'faults': Expected `float` <= 1"),
        ({"faults": {"reset": 0.6, "html": 0.6}}, "knob 'faults': expected shares"),
        ({"push_faults": {"reset": 0.1}}, "knob 'push_faults': expected names of drop, duplicate, disorder, cut"),
        ({"lies": {"white": 0.1}}, "knob 'lies': expected names of truncated_logs, old_state, dropped_receipts"),
        ({"client": "parity"}, "knob 'client': Invalid enum value 'parity'"),
        ({"latency": -1}, "knob 'latency': Expected `float` >= 0"),
        ({"method_work": {"a": -1}}, "knob 'method_work': Expected `float` >= 0"),
    ],
)
def test_what_no_node_does_is_refused_with_its_bound(change: dict[str, Any], said: str) -> None:
    knobs = Knobs()
    with pytest.raises(ValueError, match=said):
        knobs.turn(change)
    assert knobs == Knobs()
    knobs.turn({"faults": {"reset": 0.1, "html": 0.9}, "wander": 1.0, "skew": -1.0})


def test_faults_in_line_come_first_and_shares_are_kept() -> None:
    knobs, rng = Knobs(), Random(1)
    assert knobs.fault_for({"x"}, rng) == ""
    knobs.next_faults = ["reset", ""]
    knobs.faults = {"html": 0.25, "empty": 0.25}
    assert [knobs.fault_for({"x"}, rng) for _ in range(2)] == ["reset", ""]
    drawn = [knobs.fault_for({"x"}, rng) for _ in range(4000)]
    assert 900 < drawn.count("html") < 1100
    assert 900 < drawn.count("empty") < 1100
    knobs.fault_methods = {"y"}
    assert {knobs.fault_for({"x"}, rng) for _ in range(100)} == {""}
    knobs.faults = {"html": 1.0}
    assert knobs.fault_for({"x", "y"}, rng) == "html"
