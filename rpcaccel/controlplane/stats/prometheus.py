"""A frame in Prometheus' text format, written straight from the table of metrics.

The samples come from the same frame as the page's figures. prometheus-client checks and escapes the name of every label
of every sample each time, which takes a quarter of a second for some ten thousand series; what does not change is made
once here, and comes to the same bytes. `render` touches nothing live and may run in a thread.
"""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from pathlib import Path

from msgspec import Struct
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.utils import floatToGoString

import rpcaccel
from rpcaccel.controlplane.stats.history import by_method
from rpcaccel.controlplane.stats.metric_table import EXPOSED, Exposed
from rpcaccel.controlplane.stats.snapshot import Frame, NodeView
from rpcaccel.core.stats.counters import AnswerSource, Cell, NodeCell, TallySnapshot, Tier
from rpcaccel.core.stats.histogram import BOUNDS, Histogram, together

_LE = (*(repr(bound) for bound in BOUNDS), "+Inf")
_LABELS = "\0"
"""Stands for the labels in the lines of a histogram until its numbers are filled in."""
_EXPONENT_FROM = 1_000_000
_as_go_writes_it: Callable[[float], str] = floatToGoString


class Form:
    """The text form of one metric. Labels are sorted by name, as prometheus-client does it."""

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
    """The text of an exposition, with the families in the order of the table."""

    def __init__(self, forms: Iterable[Form]) -> None:
        self._parts = {form: [form.head] for form in forms}

    def put(self, form: Form, value: float, *labels: str) -> None:
        """Add a sample."""
        self._parts[form].append(form.sample(value, labels))

    def put_histogram(self, form: Form, counted: Histogram, *labels: str) -> None:
        """Add a histogram."""
        self._parts[form].append(form.histogram(counted, labels))

    def text(self) -> bytes:
        """The whole text, families without a sample included."""
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


__all__ = ["CONTENT_TYPE", "EXPOSED", "render"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SOURCES = tuple((source, source.label) for source in AnswerSource)
_FORMS = {metric.name.removeprefix("rpcaccel_"): Form(metric) for metric in EXPOSED}


def render(frame: Frame) -> bytes:
    """The frame in Prometheus' text format (CONTENT_TYPE)."""
    return _Metrics(frame).text()


class _Metrics:
    """One frame as metrics: every family of EXPOSED, those without a sample too."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._exposition = Exposition(_FORMS.values())

    def text(self) -> bytes:
        """The text of all metrics."""
        snapshot = self._frame.snapshot
        self._members(snapshot)
        self._program()
        self._calls(snapshot.cells)
        self._cache(snapshot.cells)
        for reason, count in snapshot.refusals.items():
            self._put("refusals_total", count, reason)
        for step, histogram in snapshot.steps.items():
            self._put_histogram("step_seconds", histogram, step)
        for tier in snapshot.tiers:
            self._tier(tier)
        for client in snapshot.clients:
            for reason, count in client.limited.items():
                self._put("client_limited_total", count, client.client, reason)
        self._heads()
        for view in self._frame.nodes:
            self._node_state(view)
        for node in snapshot.nodes:
            self._node(node)
        for network in snapshot.networks:
            for end, count in network.broadcasts.items():
                self._put("broadcasts_total", count, network.network, end)
            for end, count in network.told.items():
                self._put("broadcast_nodes_total", count, network.network, end)
        return self._exposition.text()

    def _members(self, snapshot: TallySnapshot) -> None:
        """Every metric whose value is just a member of what its labels name."""
        named: dict[tuple[str, ...], Sequence[object]] = {
            (): (snapshot,),
            ("client",): snapshot.clients,
            ("network",): snapshot.networks,
            ("tier",): snapshot.tiers,
            ("network", "node"): snapshot.nodes,
        }
        for metric in EXPOSED:
            if metric.value:
                form = _FORMS[metric.name.removeprefix("rpcaccel_")]
                members = ["name" if label == "tier" else label for label in metric.labels]
                put = self._exposition.put_histogram if metric.kind == "histogram" else self._exposition.put
                for one in named[metric.labels]:
                    put(form, getattr(one, metric.value), *(getattr(one, member) for member in members))

    def _put(self, name: str, value: float, *labels: str) -> None:
        self._exposition.put(_FORMS[name], value, *labels)

    def _put_histogram(self, name: str, histogram: Histogram, *labels: str) -> None:
        self._exposition.put_histogram(_FORMS[name], histogram, *labels)

    def _program(self) -> None:
        self._put("build_info", 1, rpcaccel.__version__, platform.python_version())
        self._put("workers", len(self._frame.workers))
        for reason in ("died", "unresponsive"):
            self._put("workers_replaced_total", self._frame.replaced.get(reason, 0), reason)
        for worker in self._frame.workers:
            used = usage(worker.pid)
            if used is not None:
                self._put("process_resident_memory_bytes", used.resident, worker.id)
                self._put("process_cpu_seconds_total", used.cpu, worker.id)
                self._put("process_open_fds", used.open_fds, worker.id)

    def _calls(self, cells: Iterable[Cell]) -> None:
        for named, same in by_method(cells).items():
            errors = sum(cell.errors for cell in same)
            answered = dict.fromkeys(AnswerSource, 0)
            for source, label in _SOURCES:
                # A source that never answered this method has no series: most pairs never meet.
                if told := [cell.latency[source] for cell in same if any(cell.latency[source].counts)]:
                    histogram = told[0] if len(told) == 1 else together(told)
                    answered[source] = histogram.count
                    self._put_histogram("call_seconds", histogram, *named, label)
            refused = answered[AnswerSource.REFUSED]
            self._put("calls_total", sum(answered.values()) - errors - refused, *named, "ok")
            self._put("calls_total", errors, *named, "error")
            self._put("calls_total", refused, *named, "refused")
            self._put("result_bytes_total", sum(cell.size for cell in same), *named)

    def _cache(self, cells: Iterable[Cell]) -> None:
        answers: Counter[tuple[str, str, str]] = Counter()
        misses: Counter[tuple[str, str, str]] = Counter()
        skips: Counter[tuple[str, str, str]] = Counter()
        refreshes: Counter[tuple[str, str]] = Counter()
        for cell in cells:
            named = cell.network, str(cell.cache)
            for source, label in _SOURCES:
                answers[*named, label] += cell.latency[source].count
            for reason, count in cell.misses.items():
                misses[*named, reason] += count
            for reason, count in cell.skips.items():
                skips[*named, reason] += count
            refreshes[named] += cell.refreshed
        for named, count in refreshes.items():
            self._put("cache_refreshes_total", count, *named)
        for name, counts in (("answers", answers), ("misses", misses), ("skips", skips)):
            for labels, count in counts.items():
                self._put(f"cache_{name}_total", count, *labels)

    def _tier(self, tier: Tier) -> None:
        for result, count in (("hit", tier.hits), ("miss", tier.misses)):
            self._put("tier_lookups_total", count, tier.name, result)
        for reason, count in (("evicted", tier.evicted), ("expired", tier.expired), ("purged", tier.purged)):
            self._put("tier_removed_total", count, tier.name, reason)
        failures = {"too-large": tier.refused, "error": tier.errors, "timeout": tier.timeouts, "dropped": tier.dropped}
        for reason, count in failures.items():
            self._put("tier_failures_total", count, tier.name, reason)

    def _heads(self) -> None:
        for head in self._frame.heads:
            # What is not known has no sample: a head of -1 would draw a line that never was.
            if head.head >= 0:
                self._put("head_block", head.head, head.network)
            if head.age is not None:
                self._put("head_age_seconds", head.age, head.network)

    def _node_state(self, node: NodeView) -> None:
        named = node.network, node.id
        self._put("node_weight", node.weight, *named)
        self._put("node_eligible", node.eligible, *named)
        if node.head >= 0:
            self._put("node_head_block", node.head, *named)
        if node.lag is not None:
            self._put("node_lag_blocks", node.lag, *named)
        if node.limit:
            self._put("node_concurrency_limit", node.limit, *named)
        for use in node.quota:
            self._put("node_quota_used", use.used, *named, use.window)
            self._put("node_quota_limit", use.limit, *named, use.window)
            if use.runs_out is not None:
                self._put("node_quota_runs_out_timestamp_seconds", use.runs_out, *named, use.window)

    def _node(self, node: NodeCell) -> None:
        named = node.network, node.node
        for kind, count in node.failures.items():
            self._put("node_failures_total", count, *named, kind)
        self._put("node_connections", node.connections_open, *named, "open")
        self._put("node_connections", node.connections_idle, *named, "idle")


class Usage(Struct, frozen=True):
    """The resources that one process uses."""

    resident: int
    """Bytes."""
    cpu: float
    """Seconds, user and system."""
    open_fds: int


def usage(pid: int, proc: Path = Path("/proc")) -> Usage | None:
    """The usage of `pid` by proc(5); None where there is no such process or no /proc."""
    home = proc / str(pid)
    try:
        stat = (home / "stat").read_text()
        # The name in parentheses may itself hold spaces and parentheses.
        fields = stat[stat.rindex(")") + 2 :].split()
        return Usage(
            resident=int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
            cpu=(int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
            open_fds=sum(1 for _ in (home / "fd").iterdir()),
        )
    except (OSError, ValueError, IndexError):
        return None
