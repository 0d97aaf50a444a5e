"""All metrics in one table, and a frame in Prometheus' text format, written straight from that table.

The table has their names, kinds, helps and labels, and the members that hold their values; documentation, dashboards
and alerts are compared with it.

The samples come from the same frame as the page's figures. prometheus-client checks and escapes the name of every label
of every sample each time, which takes a quarter of a second for some ten thousand series; what does not change is made
once here, and comes to the same bytes. `render` touches nothing live and may run in a thread.
"""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, chain
from pathlib import Path
from typing import Literal

from msgspec import Struct
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.utils import floatToGoString

import rpcaccel
from rpcaccel.controlplane.stats.history import by_method
from rpcaccel.controlplane.stats.snapshot import Frame
from rpcaccel.controlplane.stats.summaries import sum_by_reason
from rpcaccel.core.stats.counters import (
    REMOVES,
    AnswerSource,
    Cell,
    ClientCell,
    CutReason,
    NetworkCell,
    Tier,
)
from rpcaccel.core.stats.histogram import BOUNDS, Histogram, together


class Exposed(Struct, frozen=True):
    """One metric as Prometheus sees it."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    value: str = ""
    """The member that holds the value, of whatever the labels name: a node, a tier, a network, a client, a worker;
    without labels, the snapshot. A member that is a table has a sample for each of its keys, which are the last labels;
    one that is None is not known and has no sample: a head of -1 would draw a line that never was. Empty where the
    value is not just a member."""


_NODE = ("network", "node")

EXPOSED: tuple[Exposed, ...] = (
    Exposed("rpcaccel_build_info", "gauge", "Always 1; the labels say what runs.", ("version", "python")),
    Exposed("rpcaccel_workers", "gauge", "Worker processes that run."),
    Exposed("rpcaccel_workers_replaced_total", "counter", "Workers replaced because they died or were unresponsive.",
            ("reason",)),
    Exposed("rpcaccel_alerts_firing", "gauge", "Alerts that last, muted ones included.", ("level",), value="firing"),
    Exposed("rpcaccel_alerts_sent_total", "counter", "Messages to webhooks: ok, failed (tried again).",
            ("webhook", "result"), value="sent"),
    Exposed("rpcaccel_requests_total", "counter", "HTTP requests that carried JSON-RPC.", value="requests"),
    Exposed("rpcaccel_batches_total", "counter", "Requests that were a batch.", value="batches"),
    Exposed("rpcaccel_request_bytes_total", "counter", "Bytes of JSON-RPC received.", value="bytes_in"),
    Exposed("rpcaccel_refusals_total", "counter", "Refused before it was a call of any method.", ("reason",),
            value="refusals"),
    Exposed("rpcaccel_calls_in_flight", "gauge", "Calls accepted and not yet answered.", value="in_flight"),
    Exposed("rpcaccel_client_connections", "gauge", "Connections of clients that are open.", value="connections"),
    Exposed("rpcaccel_websockets", "gauge", "Connections of clients that are WebSockets.", value="websockets"),
    Exposed("rpcaccel_client_calls_total", "counter", "Calls by holder of an API key, refused ones included.",
            ("client",), value="calls"),
    Exposed("rpcaccel_client_errors_total", "counter",
            "Errors of calls of a holder of an API key: by fault of the service, or of the client itself.",
            ("client", "fault")),
    Exposed("rpcaccel_client_limited_total", "counter", "Calls and requests refused to a holder of an API key.",
            ("client", "reason"), value="limited"),
    Exposed("rpcaccel_client_in_flight", "gauge", "Requests of a holder of an API key under way.", ("client",),
            value="in_flight"),
    Exposed("rpcaccel_limits_alone_total", "counter", "Times a worker limited clients without knowing the others.",
            value="limits_alone"),
    Exposed("rpcaccel_calls_total", "counter", "Calls by how they ended: ok, error, client_error, refused.",
            ("network", "method", "outcome")),
    Exposed("rpcaccel_call_seconds", "histogram", "Time to answer a call, by where the answer came from.",
            ("network", "method", "source")),
    Exposed("rpcaccel_result_bytes_total", "counter", "Bytes of results sent to clients.", ("network", "method")),
    Exposed("rpcaccel_cache_answers_total", "counter", "Answers by cache class and where they came from.",
            ("network", "class", "source")),
    Exposed("rpcaccel_cache_misses_total", "counter", "Calls the cache could not answer, by reason.",
            ("network", "class", "reason")),
    Exposed("rpcaccel_cache_skips_total", "counter", "Fetched answers that were not kept, by reason.",
            ("network", "class", "reason")),
    Exposed("rpcaccel_cache_refreshes_total", "counter", "Answers fetched again when the head moved, unasked.",
            ("network", "class")),
    Exposed("rpcaccel_proofs_total", "counter",
            "Answers judged by arithmetic: proved, consistent, not_provable, unsure, doubted, disproved, poisoned.",
            ("network", "method", "standing")),
    Exposed("rpcaccel_proof_seconds_total", "counter", "Time of the event loop spent on judging answers.",
            ("network", "method")),
    Exposed("rpcaccel_step_seconds", "histogram", "Time spent in one stage of a call: of the disk and Redis, a lookup.",
            ("step",), value="steps"),
    Exposed("rpcaccel_tier_up", "gauge", "1 while every worker can use the cache tier.", ("tier",), value="up"),
    Exposed("rpcaccel_tier_entries", "gauge", "Answers held by the cache tier.", ("tier",), value="entries"),
    Exposed("rpcaccel_tier_bytes", "gauge", "Bytes held by the cache tier, keys and overheads included.", ("tier",),
            value="bytes"),
    Exposed("rpcaccel_tier_limit_bytes", "gauge", "Bytes the cache tier may hold; 0 when not limited here.", ("tier",),
            value="limit"),
    Exposed(
        "rpcaccel_tier_lookups_total",
        "counter",
        "Lookups in the cache tier: hit, miss, or late (no answer in time).",
        ("tier", "result"),
    ),
    Exposed("rpcaccel_tier_stored_total", "counter", "Answers written to the cache tier.", ("tier",), value="stored"),
    Exposed("rpcaccel_tier_removed_total", "counter",
            "Answers that left: evicted (memory, disk), expired (memory), purged.", ("tier", "reason")),
    Exposed("rpcaccel_tier_failures_total", "counter", "Failures of the tier: too-large, error, timeout, dropped.",
            ("tier", "reason")),
    Exposed("rpcaccel_head_block", "gauge", "Served head of the network.", ("network",), value="head"),
    Exposed("rpcaccel_head_age_seconds", "gauge", "Time since the served head moved.", ("network",),
            value="age"),
    Exposed("rpcaccel_forced_calls_total", "counter", "Calls no node was fit for: the least bad was asked.",
            ("network",), value="forced"),
    Exposed("rpcaccel_busy_calls_total", "counter", "Calls refused because every node had as many as it may have.",
            ("network",), value="busy"),
    Exposed("rpcaccel_waiting_calls", "gauge", "Calls that wait for a node to have room.", ("network",),
            value="in_room"),
    Exposed("rpcaccel_unpaid_retries_total", "counter", "Retries that the budget forbade.", ("network",),
            value="unpaid"),
    Exposed("rpcaccel_broadcasts_total", "counter", "Transactions sent, by end; fallback: sent again, to others.",
            ("network", "end"), value="broadcasts"),
    Exposed("rpcaccel_broadcast_nodes_total", "counter", "Nodes told of a transaction, by the same ends.",
            ("network", "end"), value="told"),
    Exposed("rpcaccel_subscriptions", "gauge", "Subscriptions of clients.", ("network", "kind"), value="subscriptions"),
    Exposed("rpcaccel_subscription_topics", "gauge", "Different topics subscribed to; each worker counts its own.",
            ("network",), value="topics"),
    Exposed("rpcaccel_notifications_total", "counter", "Notifications sent to clients, by kind of subscription.",
            ("network", "kind"), value="delivered"),
    Exposed("rpcaccel_notification_lateness_seconds", "histogram",
            "Time from a block becoming the served head to a notification of it.", ("network",), value="lateness"),
    Exposed("rpcaccel_subscription_gaps_filled_total", "counter",
            "Blocks fetched for subscribers because no node had told of them.", ("network",), value="filled"),
    Exposed("rpcaccel_subscription_blocks_abandoned_total", "counter",
            "Blocks that subscribers were told of, and that a reorganisation took back.", ("network",),
            value="abandoned"),
    Exposed("rpcaccel_subscriptions_resumed_total", "counter", "Subscriptions that began at an older block.",
            ("network",), value="resumed"),
    Exposed("rpcaccel_subscription_blocks_replayed_total", "counter", "Blocks sent again to resumed subscriptions.",
            ("network",), value="replayed"),
    Exposed("rpcaccel_subscribers_cut_total", "counter",
            "Connections with subscriptions that were closed: slow, late, restarted, drained.", ("network", "reason")),
    Exposed("rpcaccel_node_head_block", "gauge", "Newest block of the node.", _NODE, value="head"),
    Exposed("rpcaccel_node_lag_blocks", "gauge", "Blocks the node lacks now; a new one takes a moment.", _NODE,
            value="lag"),
    Exposed("rpcaccel_node_pushes", "gauge", "1 while the node tells its new heads over a WebSocket.", _NODE,
            value="pushes"),
    Exposed("rpcaccel_node_weight", "gauge", "Weight of the node in the settings.", _NODE, value="weight"),
    Exposed("rpcaccel_node_eligible", "gauge", "1 when the node takes its share of the calls.", _NODE,
            value="eligible"),
    Exposed("rpcaccel_node_calls_total", "counter", "Attempts sent to the node, repeated ones included.", _NODE,
            value="calls"),
    Exposed("rpcaccel_node_retries_total", "counter", "Attempts that repeated a failed one.", _NODE, value="retries"),
    Exposed("rpcaccel_node_hedges_total", "counter", "Attempts sent because another was slow.", _NODE, value="hedges"),
    Exposed("rpcaccel_node_ejections_total", "counter", "Times the node was left alone for being much slower.", _NODE,
            value="ejections"),
    Exposed("rpcaccel_node_credits_total", "counter",
            "Units that attempts cost, by the costs of the node's quota; 0 without costs.", _NODE, value="credits"),
    Exposed("rpcaccel_node_batches_total", "counter", "Batches that calls travelled in to the node.", _NODE,
            value="batches"),
    Exposed("rpcaccel_node_gathered_calls_total", "counter", "Calls that travelled in batches.", _NODE,
            value="gathered"),
    Exposed("rpcaccel_node_failures_total", "counter", "Failed attempts by kind of failure.", (*_NODE, "kind"),
            value="failures"),
    Exposed("rpcaccel_node_compared_total", "counter", "Answers compared with another node's.", _NODE,
            value="compared"),
    Exposed("rpcaccel_node_minority_total", "counter", "Comparisons in which two others contradicted the node.", _NODE,
            value="minority"),
    Exposed("rpcaccel_node_undecided_total", "counter", "Comparisons that no third node could decide.", _NODE,
            value="undecided"),
    Exposed("rpcaccel_node_false_hashes_total", "counter",
            "Answers whose logs named a block hash that the block does not have.", _NODE, value="false_hashes"),
    Exposed("rpcaccel_node_disproved_total", "counter",
            "Answers that contradicted the call or the hash of their block.", _NODE, value="disproved"),
    Exposed("rpcaccel_node_concurrency_limit", "gauge", "Light calls it may have at once, as it has shown.", _NODE),
    Exposed("rpcaccel_node_quota_used", "gauge", "Units used of the node's quota in this window.", (*_NODE, "window")),
    Exposed("rpcaccel_node_quota_limit", "gauge", "Units in the node's quota.", (*_NODE, "window")),
    Exposed("rpcaccel_node_quota_runs_out_timestamp_seconds", "gauge",
            "Unix time at which the quota runs out at its present pace; no sample when it will last.",
            (*_NODE, "window")),
    Exposed("rpcaccel_node_seconds", "histogram", "Time of the node's answers, failed attempts left out.", _NODE,
            value="latency"),
    Exposed("rpcaccel_node_received_bytes_total", "counter", "Bytes of answers from the node.", _NODE, value="size_in"),
    Exposed("rpcaccel_node_in_flight", "gauge", "Attempts that wait for the node.", _NODE, value="in_flight"),
    Exposed("rpcaccel_node_connections", "gauge", "Connections to the node: open (all) and idle.", (*_NODE, "state")),
    Exposed("rpcaccel_node_connects_total", "counter", "Connections opened to the node.", _NODE, value="connects"),
    Exposed("rpcaccel_node_reuses_total", "counter", "Attempts that found an open connection.", _NODE, value="reused"),
    Exposed("rpcaccel_node_dns_lookups_total", "counter", "Names resolved for the node.", _NODE, value="dns"),
    Exposed("rpcaccel_node_tls_handshakes_total", "counter", "TLS handshakes with the node.", _NODE, value="tls"),
    Exposed("rpcaccel_node_wait_seconds_total", "counter", "Time from request sent to first byte back.", _NODE,
            value="wait_seconds"),
    Exposed("rpcaccel_node_read_seconds_total", "counter", "Time from first to last byte of answers.", _NODE,
            value="read_seconds"),
    Exposed("rpcaccel_process_resident_memory_bytes", "gauge", "Memory of a worker process.", ("worker",)),
    Exposed("rpcaccel_process_cpu_seconds_total", "counter", "CPU time of a worker process.", ("worker",)),
    Exposed("rpcaccel_process_open_fds", "gauge", "Open files of a worker process.", ("worker",)),
    Exposed("rpcaccel_loop_longest_turn_seconds", "gauge",
            "Longest time in the last minute that a worker's event loop kept a call waiting.", ("worker",),
            value="longest_turn"),
)  # fmt: skip
"""Every metric there is. Documentation, dashboards and alerts are compared with it."""


_LE = (*(repr(bound) for bound in BOUNDS), "+Inf")
_LABELS = "\0"
"""Stands for the labels in the lines of a histogram until its numbers are filled in."""
_EXPONENT_FROM = 1_000_000
PREFIX = "rpcaccel_"
_as_go_writes_it: Callable[[float], str] = floatToGoString


class Form:
    """The text form of one metric. Labels are sorted by name, as prometheus-client does it."""

    def __init__(self, metric: Exposed) -> None:
        help_text = metric.help.replace("\\", r"\\").replace("\n", r"\n")
        self.head = f"# HELP {metric.name} {help_text}\n# TYPE {metric.name} {metric.kind}\n"
        self.name = metric.name
        self._count = len(metric.labels)
        self._order = sorted(range(self._count), key=metric.labels.__getitem__)
        self._labels = ",".join(f'{label}="%s"' for label in sorted(metric.labels))
        self._lines = _histogram_lines(metric, "%s")
        self._lines_of_small = _histogram_lines(metric, "%d.0")

    def __repr__(self) -> str:
        return f"<Form {self.name}>"

    def lines(self, value: float | Histogram, labels: tuple[str, ...]) -> str:
        """The line of a number, or the lines of a histogram. Raises ValueError for another number of labels than the
        metric has."""
        if len(labels) != self._count:
            raise ValueError(f"{self.name} has {self._count} labels, not {len(labels)}")
        named = self._labels % tuple(escaped(labels[place]) for place in self._order)
        if isinstance(value, Histogram):
            return self._histogram(value, named)
        return f"{self.name}{{{named}}} {number(value)}\n" if named else f"{self.name} {number(value)}\n"

    def _histogram(self, counted: Histogram, named: str) -> str:
        running = list(accumulate(counted.counts))
        count, seconds = running[-1], number(counted.seconds)
        if count < _EXPONENT_FROM:
            lines = self._lines_of_small % (*running, count, seconds)
        else:
            lines = self._lines % (*map(number, running), number(count), seconds)
        return lines.replace(_LABELS, named)


Sample = tuple[str, float | Histogram, tuple[str, ...]]
"""The name of a metric without its prefix, a value, and the values of the labels."""


def exposition(metrics: Iterable[Form], samples: Iterable[Sample]) -> bytes:
    """The text of all samples, with the families in the order of the metrics; those without a sample are included."""
    forms = {form.name.removeprefix(PREFIX): form for form in metrics}
    parts = {name: [form.head] for name, form in forms.items()}
    for name, value, labels in samples:
        parts[name].append(forms[name].lines(value, labels))
    return "".join(map("".join, parts.values())).encode()


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


CONTENT_TYPE = CONTENT_TYPE_LATEST
_SOURCES = tuple((source, source.label) for source in AnswerSource)
_FORMS = tuple(map(Form, EXPOSED))
CUT_REASONS = tuple(map(str, CutReason))
"""Why the proxy closes connections with subscriptions."""


def render(frame: Frame) -> bytes:
    """The frame in Prometheus' text format (CONTENT_TYPE)."""
    snapshot = frame.snapshot
    samples = (
        _members(frame),
        _clients(snapshot.clients),
        _calls(snapshot.cells),
        _cache(snapshot.cells),
        _tiers(snapshot.tiers),
        _cuts(snapshot.networks),
        _program(frame),
        _nodes(frame),
    )
    return exposition(_FORMS, chain.from_iterable(samples))


Owners = list[tuple[tuple[str, ...], object]]
"""Objects that have members with values, each with the values of the labels that name it."""


def _owners(frame: Frame) -> dict[tuple[str, ...], Owners]:
    """What the labels of metrics name, by those labels."""
    snapshot = frame.snapshot
    return {
        (): [((), snapshot), ((), frame.alerts)],
        ("client",): [((one.client,), one) for one in snapshot.clients],
        ("network",): [
            *(((one.network,), one) for one in snapshot.networks),
            *(((one.network,), one) for one in frame.heads),
        ],
        ("tier",): [((one.name,), one) for one in snapshot.tiers],
        ("worker",): [((one.id,), one) for one in frame.workers],
        _NODE: [
            *(((one.network, one.node), one) for one in snapshot.nodes),
            *(((one.network, one.id), one) for one in frame.nodes),
        ],
    }


def _members(frame: Frame) -> Iterator[Sample]:
    """Every metric whose values are just a member of what its labels name."""
    owners = _owners(frame)
    for metric in EXPOSED:
        if metric.value:
            name = metric.name.removeprefix(PREFIX)
            ends = range(len(metric.labels), -1, -1)
            for named, owner in next(owners[about] for end in ends if (about := metric.labels[:end]) in owners):
                found = getattr(owner, metric.value, None)
                if isinstance(found, dict):
                    for key, value in found.items():
                        yield name, value, (*named, *((key,) if isinstance(key, str) else key))
                elif found is not None:
                    yield name, found, named


def _program(frame: Frame) -> Iterator[Sample]:
    yield "build_info", 1, (rpcaccel.__version__, platform.python_version())
    yield "workers", len(frame.workers), ()
    for reason in ("died", "unresponsive"):
        yield "workers_replaced_total", frame.replaced.get(reason, 0), (reason,)
    for worker in frame.workers:
        used = usage(worker.pid)
        if used is not None:
            yield "process_resident_memory_bytes", used.resident, (worker.id,)
            yield "process_cpu_seconds_total", used.cpu, (worker.id,)
            yield "process_open_fds", used.open_fds, (worker.id,)


def _clients(clients: Iterable[ClientCell]) -> Iterator[Sample]:
    for client in clients:
        yield "client_errors_total", client.errors, (client.client, "service")
        yield "client_errors_total", client.client_errors, (client.client, "client")


def _calls(cells: Iterable[Cell]) -> Iterator[Sample]:
    for named, same in by_method(cells).items():
        errors, client_errors = sum(cell.errors for cell in same), sum(cell.client_errors for cell in same)
        answered = dict.fromkeys(AnswerSource, 0)
        for source, label in _SOURCES:
            # A source that never answered this method has no series: most pairs never meet.
            if told := [cell.latency[source] for cell in same if any(cell.latency[source].counts)]:
                histogram = told[0] if len(told) == 1 else together(told)
                answered[source] = histogram.count
                yield "call_seconds", histogram, (*named, label)
        refused = answered[AnswerSource.REFUSED]
        yield "calls_total", sum(answered.values()) - errors - client_errors - refused, (*named, "ok")
        yield "calls_total", errors, (*named, "error")
        yield "calls_total", client_errors, (*named, "client_error")
        yield "calls_total", refused, (*named, "refused")
        yield "result_bytes_total", sum(cell.size for cell in same), named
        if proofs := sum_by_reason(cell.proofs for cell in same):
            yield "proof_seconds_total", sum(cell.proof_seconds for cell in same), named
        for standing, count in proofs.items():
            yield "proofs_total", count, (*named, standing)


def _cache(cells: Iterable[Cell]) -> Iterator[Sample]:
    total: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for cell in cells:
        named = cell.network, str(cell.cache)
        total["cache_refreshes_total", named] += cell.refreshed
        answers = {label: cell.latency[source].count for source, label in _SOURCES}
        for name, counts in (("answers", answers), ("misses", cell.misses), ("skips", cell.skips)):
            for reason, count in counts.items():
                total[f"cache_{name}_total", (*named, reason)] += count
    return ((name, count, labels) for (name, labels), count in total.items())


def _tiers(tiers: Iterable[Tier]) -> Iterator[Sample]:
    for tier in tiers:
        for result, count in (("hit", tier.hits), ("miss", tier.misses), ("late", tier.timeouts)):
            yield "tier_lookups_total", count, (tier.name, result)
        yield "tier_removed_total", tier.purged, (tier.name, "purged")
        for reason in REMOVES[tier.name]:
            yield "tier_removed_total", getattr(tier, reason), (tier.name, reason)
        failures = {"too-large": tier.refused, "error": tier.errors, "timeout": tier.timeouts, "dropped": tier.dropped}
        for reason, count in failures.items():
            yield "tier_failures_total", count, (tier.name, reason)


def _cuts(networks: Iterable[NetworkCell]) -> Iterator[Sample]:
    """The closed subscribers by reason: an alert sees the first one only where there was a 0 before it."""
    for cell in networks:
        for reason, count in {**dict.fromkeys(CUT_REASONS, 0), **cell.cut}.items():
            yield "subscribers_cut_total", count, (cell.network, reason)


def _nodes(frame: Frame) -> Iterator[Sample]:
    for node in frame.nodes:
        named = node.network, node.id
        if node.limit:
            yield "node_concurrency_limit", node.limit, named
        for use in node.quota:
            yield "node_quota_used", use.used, (*named, use.window)
            yield "node_quota_limit", use.limit, (*named, use.window)
            if use.runs_out is not None:
                yield "node_quota_runs_out_timestamp_seconds", use.runs_out, (*named, use.window)
    for cell in frame.snapshot.nodes:
        yield "node_connections", cell.connections_open, (cell.network, cell.node, "open")
        yield "node_connections", cell.connections_idle, (cell.network, cell.node, "idle")


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
