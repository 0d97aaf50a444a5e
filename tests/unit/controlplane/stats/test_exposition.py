"""The text is, byte for byte, the one that prometheus-client makes of the same samples."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from rpcaccel.controlplane.stats.prometheus import Exposed, Form, Sample, escaped, exposition, number
from rpcaccel.core.stats.histogram import BOUNDS, BUCKETS, Histogram

GAUGE = Exposed("rpcaccel_moments", "gauge", 'A back\\slash, a "quote" and\na new line.', ("source", "network"))
COUNTER = Exposed("rpcaccel_things_total", "counter", "Things.")
TIMED = Exposed("rpcaccel_taken_seconds", "histogram", "Time taken.", ("network", "method"))
PLAIN = Exposed("rpcaccel_start_seconds", "histogram", "Time taken once.")
ALL = (GAUGE, COUNTER, TIMED, PLAIN)

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
counts = st.integers(0, 3_000_000)
values = st.one_of(counts, st.booleans(), st.floats(), st.integers(-(2**70), 2**70))
histograms = st.builds(Histogram, st.lists(counts, min_size=BUCKETS, max_size=BUCKETS), st.floats(0, 1e9))


class Given(Collector):
    """Families as they are."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> list[Metric]:
        return self._families


def as_the_client_writes(families: Iterable[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Given(families))
    return generate_latest(registry)


def family(metric: Exposed) -> Metric:
    return Metric(metric.name.removesuffix("_total"), metric.help, metric.kind)


def add_histogram(found: Metric, metric: Exposed, counted: Histogram, labels: dict[str, str]) -> None:
    running = 0
    for le, count in zip((*map(repr, BOUNDS), "+Inf"), counted.counts, strict=True):
        running += count
        found.add_sample(f"{metric.name}_bucket", {**labels, "le": le}, running)
    found.add_sample(f"{metric.name}_count", labels, running)
    found.add_sample(f"{metric.name}_sum", labels, counted.seconds)


@given(
    st.lists(st.tuples(values, words, words), max_size=5),
    values,
    st.lists(st.tuples(histograms, words, words), max_size=2),
    histograms,
)
def test_the_same_samples_make_the_same_bytes(
    moments: list[tuple[float, str, str]],
    things: float,
    taken: list[tuple[Histogram, str, str]],
    start: Histogram,
) -> None:
    families = {metric.name: family(metric) for metric in ALL}
    samples: list[Sample] = []
    for value, source, network in moments:
        samples.append(("moments", value, (source, network)))
        families[GAUGE.name].add_sample(GAUGE.name, {"source": source, "network": network}, value)
    samples.append(("things_total", things, ()))
    families[COUNTER.name].add_sample(COUNTER.name, {}, things)
    for counted, network, method in taken:
        samples.append(("taken_seconds", counted, (network, method)))
        add_histogram(families[TIMED.name], TIMED, counted, {"network": network, "method": method})
    samples.append(("start_seconds", start, ()))
    add_histogram(families[PLAIN.name], PLAIN, start, {})
    assert exposition(map(Form, ALL), samples) == as_the_client_writes(families.values())


def test_labels_that_are_missing_or_too_many_are_an_error() -> None:
    for labels in ((), ("one",), ("one", "two", "three")):
        with pytest.raises(ValueError, match="rpcaccel_moments has 2 labels"):
            Form(GAUGE).lines(1, labels)
        with pytest.raises(ValueError, match="rpcaccel_taken_seconds has 2 labels"):
            Form(TIMED).lines(Histogram(), labels)
    assert repr(Form(GAUGE)) == "<Form rpcaccel_moments>"


def test_numbers_and_labels_as_prometheus_reads_them() -> None:
    assert [number(value) for value in (0, True, 999_999, 1_000_000, 0.25, math.inf, math.nan)] == [
        "0.0", "1.0", "999999.0", "1e+06", "0.25", "+Inf", "NaN",
    ]  # fmt: skip
    assert escaped('a"b\\c\nd') == 'a\\"b\\\\c\\nd'
