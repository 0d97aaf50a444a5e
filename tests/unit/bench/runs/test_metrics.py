"""What is read of a proxy's /metrics."""

from __future__ import annotations

import pytest

from rpcaccel.bench.runs.metrics import grown, read
from rpcaccel.controlplane.stats import prometheus
from rpcaccel.controlplane.stats.snapshot import Frame
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.core.stats.tally import Tally


def exposed() -> str:
    """What /metrics says after calls of two methods of two networks."""
    tally = Tally()
    for network, method, source, seconds in (
        ("a", "eth_call", AnswerSource.MEMORY, 25e-6),
        ("a", "eth_gasPrice", AnswerSource.MEMORY, 15e-6),
        ("b", "eth_call", AnswerSource.NODE, 0.04),
    ):
        tally.cell(network, method, CacheClass.HEAD).done(source, seconds, 100)
    return prometheus.render(Frame(snapshot=tally.snapshot(), nodes=(), heads=(), workers=())).decode()


def test_counters_and_histograms_are_added_up_by_a_label() -> None:
    reading = read(exposed())
    assert reading.sums("calls_total", "network") == {"a": 2, "b": 1}
    assert reading.total("calls_total") == 3
    times = reading.histograms("call_seconds", "source")
    assert (times["memory"].count, times["memory"].counts[:2]) == (2, [1, 1])
    assert times["node"].seconds == pytest.approx(0.04)


def test_a_counter_that_began_anew_has_grown_by_its_whole_value() -> None:
    assert grown({"a": 3, "b": 5, "c": 1}, {"a": 4, "b": 2, "c": 1, "d": 7}) == {"a": 1, "b": 2, "d": 7}


@pytest.mark.parametrize("text", ["", "up 1\n"])
def test_what_is_not_of_a_proxy_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="it says nothing of rpcaccel"):
        read(text)
