"""`rpcaccel bench steps`: where the time of a call goes inside the proxy, from the proxy's own step timings."""

from __future__ import annotations

from collections.abc import Mapping

from rpcaccel.bench.report.report import Report, Table, bars, machine, milliseconds, percent, remarks
from rpcaccel.bench.runs import metrics
from rpcaccel.core.stats.counters import PARSED_OF, Step
from rpcaccel.core.stats.histogram import BOUNDS, Histogram

ORDER = tuple(map(str, Step))
"""The steps, in the order in which a call takes them."""
_TIMED_OF = {str(Step.PARSE): PARSED_OF}
"""The number of times that a step was taken for each time that it was timed, where it is not timed each time."""


def read(exposition: str) -> dict[str, Histogram]:
    """The step timings in the text of /metrics. Raises ValueError when the text is not the proxy's."""
    if not (found := metrics.read(exposition).histograms("step_seconds", "step")):
        raise ValueError("it says nothing of steps: is that the admin side of rpcaccel?")
    return found


def passed(before: Mapping[str, Histogram], after: Mapping[str, Histogram]) -> dict[str, Histogram]:
    """The step timings between two readings."""
    return {step: histogram.since(before.get(step, Histogram())) for step, histogram in after.items()}


def reported(steps: Mapping[str, Histogram], seconds: float, admin: str, *, stopped: bool = False) -> Report:
    """The report on what was counted in `seconds`; 0: since the proxy's start."""
    spent = {step: histogram.seconds * _TIMED_OF.get(step, 1) for step, histogram in steps.items()}
    total = sum(spent.values())
    order = sorted(steps, key=lambda step: (ORDER.index(step) if step in ORDER else len(ORDER), step))
    taken = [step for step in order if steps[step].count]
    rows = [_row(step, steps[step], spent[step] / total if total else None) for step in taken]
    facts = machine() | {"proxy": admin, "time": f"{seconds:.1f} s" if seconds else "since its start"}
    note = (
        f"Milliseconds. Read from the proxy's own buckets, the finest of which ends at {BOUNDS[0] * 1e6:g} µs. Of "
        f"parsing one in {PARSED_OF} is timed; its share is that of all. Answers from memory are not timed by step."
    )
    table = Table("Steps of a call", ("step", "timed", "mean", "p50", "p99", "share of all"), rows, note)
    shares = [spent[step] / total * 100 if total else 0.0 for step in taken]
    plot = bars("Share of the time", taken, {"%": shares})
    said = remarks((), stopped=stopped)
    if not taken:
        said.append("no call passed through the proxy in that time")
    unused = [step for step in order if not steps[step].count]
    if taken and unused:
        said.append(f"nothing was counted for {', '.join(unused)}")
    data = {"steps": {step: {"count": steps[step].count, "seconds": steps[step].seconds} for step in order}}
    return Report("Where the time goes", facts, [table], [plot] if taken else [], said, data)


def _row(step: str, found: Histogram, share: float | None) -> tuple[str, ...]:
    times = [milliseconds(value) for value in (found.mean, found.quantile(0.5), found.quantile(0.99))]
    return (step, f"{found.count:,}", *times, percent(share))
