"""Means with their spread, and ratios with an interval: is a difference larger than the noise?

What was measured: every latency kept, so that percentiles are exact up to the last nines.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil, exp, inf, log, sqrt

from msgspec import Struct, field

_T95 = (inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""Student's t, two-sided 95 %, by degrees of freedom."""


class Spread(Struct, frozen=True):
    """Mean and standard deviation of a sample of runs."""

    mean: float
    deviation: float
    runs: int


class Ratio(Struct, frozen=True):
    """How many times larger, with the interval that holds the true ratio with 95 % confidence."""

    ratio: float
    low: float
    high: float

    @property
    def certain(self) -> bool:
        """Is the difference larger than the noise?"""
        return self.low > 1 or self.high < 1


def spread(values: Sequence[float]) -> Spread | None:
    """Mean ± standard deviation (of the sample, n - 1); None of nothing."""
    count = len(values)
    if not count:
        return None
    mean = sum(values) / count
    deviation = sqrt(sum((value - mean) ** 2 for value in values) / (count - 1)) if count > 1 else 0.0
    return Spread(mean, deviation, count)


def ratio(before: Sequence[float], after: Sequence[float]) -> Ratio | None:
    """after / before of runs made in pairs. None when there is no pair, or a value is not above 0.

    The logarithms of the pairs' ratios are taken as normal: a machine that slows down for a while slows both of a pair.
    """
    pairs = list(zip(before, after, strict=True))
    if not pairs or any(value <= 0 for pair in pairs for value in pair):
        return None
    logs = spread([log(b / a) for a, b in pairs])
    assert logs is not None
    if logs.runs == 1:
        return Ratio(exp(logs.mean), 0.0, inf)
    reach = student(logs.runs - 1) * logs.deviation / sqrt(logs.runs)
    return Ratio(exp(logs.mean), exp(logs.mean - reach), exp(logs.mean + reach))


def student(freedom: int) -> float:
    """Student's t for a two-sided 95 % interval."""
    return _T95[freedom] if freedom < len(_T95) else 1.96 + 2.5 / freedom


HITS = frozenset({"local", "memory", "redis"})
"""Words of X-Rpcaccel-Cache for answers that cost no node anything."""


class Summary(Struct, frozen=True):
    """Figures of some calls; times are seconds, None when nothing was answered."""

    calls: int
    failures: int
    errors: dict[str, int] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    """By X-Rpcaccel-Cache; empty for an endpoint that says nothing."""
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
        """Were calls made, and did every one fail? A wrong address, most likely."""
        return 0 < self.calls == self.failures

    @property
    def error_share(self) -> float:
        """0..1."""
        return self.failures / self.calls if self.calls else 0.0


class Series:
    """Calls of one kind as they come in."""

    __slots__ = ("errors", "seconds", "sources")

    def __init__(self) -> None:
        self.seconds = array("d")
        """Of answers; and of timeouts, since leaving out the slowest would flatter."""
        self.errors: Counter[str] = Counter()
        self.sources: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Series {self.calls} calls, {sum(self.errors.values())} failed>"

    @property
    def calls(self) -> int:
        """How many ended, well or not."""
        return len(self.seconds) + sum(self.errors.values()) - self.errors["timeout"]

    def add(self, seconds: float, failure: str, source: str = "") -> None:
        """A call ended; `failure` is empty when it was answered."""
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
        return Summary(
            calls=self.calls,
            failures=sum(self.errors.values()),
            errors={kind: count for kind, count in self.errors.most_common() if count},
            sources=dict(self.sources.most_common()),
            elapsed=elapsed,
            mean=sum(ordered) / len(ordered) if ordered else None,
            p50=percentile(ordered, 0.5),
            p90=percentile(ordered, 0.9),
            p99=percentile(ordered, 0.99),
            p999=percentile(ordered, 0.999),
            max=ordered[-1] if ordered else None,
        )


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
