"""Reads the counters and histograms in the text of a proxy's /metrics, and what was counted between two readings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from rpcaccel.core.stats.histogram import BUCKETS, Histogram

_PREFIX = "rpcaccel_"


class MetricsReading(Struct, frozen=True):
    """The samples of one reading, with their labels, by name without `rpcaccel_`."""

    samples: Mapping[str, list[tuple[dict[str, str], float]]]

    def sums(self, name: str, label: str) -> dict[str, float]:
        """The values of a metric, added up by the value of a label, or of several (`a/b`)."""
        found = defaultdict[str, float](float)
        for labels, value in self.samples.get(name, ()):
            found[_named(labels, label)] += value
        return dict(found)

    def total(self, name: str) -> float:
        """The sum of a metric over all of its labels; 0 where there is no sample."""
        return sum(value for _, value in self.samples.get(name, ()))

    def histograms(self, name: str, label: str) -> dict[str, Histogram]:
        """The histograms of a metric, added up by the value of a label, or of several (`a/b`)."""
        running: defaultdict[str, defaultdict[float, float]] = defaultdict(lambda: defaultdict(float))
        for labels, value in self.samples.get(f"{name}_bucket", ()):
            running[_named(labels, label)][float(labels["le"])] += value
        seconds = self.sums(f"{name}_sum", label)
        return {
            key: Histogram([*_inside(bounds)], seconds.get(key, 0.0))
            for key, bounds in running.items()
            if len(bounds) == BUCKETS
        }


def _named(labels: Mapping[str, str], label: str) -> str:
    return "/".join(labels.get(one, "") for one in label.split("/"))


def _inside(running: Mapping[float, float]) -> Iterator[int]:
    """The counts of buckets, each of which includes those below it."""
    below = 0
    for bound in sorted(running):
        yield int(running[bound]) - below
        below = int(running[bound])


def read(text: str) -> MetricsReading:
    """A reading from Prometheus' text format. Raises ValueError where the text is none, or is not a proxy's."""
    samples: defaultdict[str, list[tuple[dict[str, str], float]]] = defaultdict(list)
    for family in text_string_to_metric_families(text):
        if family.name.startswith(_PREFIX):
            for sample in family.samples:
                samples[sample.name.removeprefix(_PREFIX)].append((sample.labels, sample.value))
    if not samples:
        raise ValueError("it says nothing of rpcaccel: is that the admin side of a proxy?")
    return MetricsReading(dict(samples))


def grown(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What counters grew by, the whole value of one that began anew; those that did not grow are left out."""
    first = {key: before.get(key, 0.0) if before.get(key, 0.0) <= value else 0.0 for key, value in after.items()}
    return {key: value - first[key] for key, value in after.items() if value > first[key]}
