"""Prometheus' text format, written straight from the table of metrics.

prometheus-client checks and escapes the name of every label of every sample each time, which for some ten thousand
series takes a quarter of a second. What does not change is made once here, and comes to the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate

from prometheus_client.utils import floatToGoString

from rpcaccel.controlplane.exposed import Exposed
from rpcaccel.core.histogram import BOUNDS, Histogram

_LE = (*(repr(bound) for bound in BOUNDS), "+Inf")
_LABELS = "\0"
"""Where the labels go into the lines of a histogram, once its numbers are there."""
_EXPONENT_FROM = 1_000_000
_as_go_writes_it: Callable[[float], str] = floatToGoString


class Form:
    """How one metric is written. Labels come sorted by name, as prometheus-client has them."""

    def __init__(self, metric: Exposed) -> None:
        help_text = metric.help.replace("\\", r"\\").replace("\n", r"\n")
        self.head = f"# HELP {metric.name} {help_text}\n# TYPE {metric.name} {metric.kind}\n"
        self._name = metric.name
        self._count = len(metric.labels)
        self._order = sorted(range(self._count), key=metric.labels.__getitem__)
        self._labels = ",".join(f'{label}="%s"' for label in sorted(metric.labels))
        self._lines = _histogram_lines(metric, "%s")
        self._lines_of_small = _histogram_lines(metric, "%d.0")

    def __repr__(self) -> str:
        return f"<Form {self._name}>"

    def sample(self, value: float, labels: tuple[str, ...]) -> str:
        """The line of one sample. Raises ValueError for another number of labels than the metric has."""
        named = self._named(labels)
        return f"{self._name}{{{named}}} {number(value)}\n" if named else f"{self._name} {number(value)}\n"

    def histogram(self, counted: Histogram, labels: tuple[str, ...]) -> str:
        """The lines of one histogram. Raises ValueError like `sample`."""
        running = list(accumulate(counted.counts))
        count, seconds = running[-1], number(counted.seconds)
        if count < _EXPONENT_FROM:
            lines = self._lines_of_small % (*running, count, seconds)
        else:
            lines = self._lines % (*map(number, running), number(count), seconds)
        return lines.replace(_LABELS, self._named(labels))

    def _named(self, labels: tuple[str, ...]) -> str:
        if len(labels) != self._count:
            raise ValueError(f"{self._name} has {self._count} labels, not {len(labels)}")
        return self._labels % tuple(escaped(labels[place]) for place in self._order)


class Exposition:
    """One text, family by family in the order of the table."""

    def __init__(self, forms: Iterable[Form]) -> None:
        self._parts = {form: [form.head] for form in forms}

    def put(self, form: Form, value: float, *labels: str) -> None:
        """One sample more."""
        self._parts[form].append(form.sample(value, labels))

    def put_histogram(self, form: Form, counted: Histogram, *labels: str) -> None:
        """One histogram more."""
        self._parts[form].append(form.histogram(counted, labels))

    def text(self) -> bytes:
        """All of it; families without a sample too."""
        return "".join(map("".join, self._parts.values())).encode()


def _histogram_lines(metric: Exposed, number_form: str) -> str:
    before = f",{_LABELS}" if metric.labels else ""
    within = f"{{{_LABELS}}}" if metric.labels else ""
    buckets = [f'{metric.name}_bucket{{le="{le}"{before}}} {number_form}\n' for le in _LE]
    return f"{''.join(buckets)}{metric.name}_count{within} {number_form}\n{metric.name}_sum{within} %s\n"


def number(value: float) -> str:
    """A value as prometheus-client writes it."""
    return f"{value}.0" if type(value) is int and 0 <= value < _EXPONENT_FROM else _as_go_writes_it(value)


def escaped(value: str) -> str:
    """The value of a label between its quotes."""
    if "\\" in value or "\n" in value or '"' in value:
        return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return value
