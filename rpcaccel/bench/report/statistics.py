"""Figures of what was measured: percentiles of calls, and ratios of runs with an interval.

Every latency is kept, so that percentiles are exact up to the last nines.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil, exp, inf, log, sqrt
from statistics import fmean, stdev

from msgspec import Struct, field

from rpcaccel.core.stats import counters

_T95 = (inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""Student's t, two-sided 95 %, by degrees of freedom."""
HITS = frozenset(source.label for source in counters.HITS)
"""Words of X-Rpcaccel-Cache for answers that cost no node anything."""


class Ratio(Struct, frozen=True):
    """A ratio, with the interval that holds the true ratio with 95 % confidence."""

    ratio: float
    low: float
    high: float

    @property
    def certain(self) -> bool:
        """Whether the difference is larger than the noise."""
        return self.low > 1 or self.high < 1


def ratio(before: Sequence[float], after: Sequence[float]) -> Ratio | None:
    """after / before of runs made in pairs. None when there is no pair, or a value is not above 0.

    The logarithms of the pairs' ratios are taken as normal: a machine that slows down for a while slows both of a pair.
    """
    pairs = list(zip(before, after, strict=True))
    if not pairs or any(value <= 0 for pair in pairs for value in pair):
        return None
    logs = [log(b / a) for a, b in pairs]
    mean, runs = fmean(logs), len(logs)
    if runs == 1:
        return Ratio(exp(mean), 0.0, inf)
    reach = student(runs - 1) * stdev(logs) / sqrt(runs)
    return Ratio(exp(mean), exp(mean - reach), exp(mean + reach))


def student(freedom: int) -> float:
    """Student's t for a two-sided 95 % interval."""
    return _T95[freedom] if freedom < len(_T95) else 1.96 + 2.5 / freedom


class Summary(Struct, frozen=True):
    """Figures of some calls; times are seconds, None when nothing was answered."""

    calls: int
    failures: int
    errors: dict[str, int] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    """Answers by X-Rpcaccel-Cache; empty for an endpoint that says nothing."""
    elapsed: float = 0.0
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    p999: float | None = None
    max: float | None = None

    @property
    def rate(self) -> float | None:
        """Good answers a second."""
        return (self.calls - self.failures) / self.elapsed if self.elapsed > 0 else None

    @property
    def hit_ratio(self) -> float | None:
        """0..1; None for an endpoint that does not say."""
        said = sum(self.sources.values())
        return sum(count for word, count in self.sources.items() if word in HITS) / said if said else None

    @property
    def dead(self) -> bool:
        """Whether calls were made and every one failed: the address is wrong, most likely."""
        return 0 < self.calls == self.failures


class Series:
    """Calls of one kind as they come in."""

    __slots__ = ("errors", "seconds", "sources")

    def __init__(self) -> None:
        self.seconds = array("d")
        """The seconds of answers, and of timeouts: without the slowest calls the figures would be too good."""
        self.errors: Counter[str] = Counter()
        self.sources: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Series {self.calls} calls, {self.errors.total()} failed>"

    @property
    def calls(self) -> int:
        """The number of calls that ended, with or without an answer."""
        return len(self.seconds) + self.errors.total() - self.errors["timeout"]

    def add(self, seconds: float, failure: str, source: str = "") -> None:
        """Count a call that ended; `failure` is empty when it was answered."""
        if failure:
            self.errors[failure] += 1
            if failure != "timeout":
                return
        self.seconds.append(seconds)
        if source:
            self.sources[source.partition(";")[0]] += 1

    def summary(self, elapsed: float) -> Summary:
        """The figures, over `elapsed` seconds."""
        ordered = sorted(self.seconds)
        errors, sources = (dict(counted.most_common()) for counted in (+self.errors, self.sources))
        mean = sum(ordered) / len(ordered) if ordered else None
        shares = (percentile(ordered, share) for share in (0.5, 0.9, 0.99, 0.999, 1.0))
        return Summary(self.calls, self.errors.total(), errors, sources, elapsed, mean, *shares)


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The smallest value that at least this share (0..1) does not exceed (nearest rank); None of nothing."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None


def together(many: Iterable[Series]) -> Series:
    """All calls of several series in one."""
    total = Series()
    for one in many:
        total.seconds.extend(one.seconds)
        total.errors.update(one.errors)
        total.sources.update(one.sources)
    return total
