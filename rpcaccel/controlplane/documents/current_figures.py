"""The JSON documents of the admin API about the moment, made from a frame and the history.

What is not known is None, never 0. Settings are picked one by one and never passed on whole, so that no secret in them
can be shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

import rpcaccel
from rpcaccel import balancers, chains
from rpcaccel.controlplane.alerts.mutes import Mute
from rpcaccel.controlplane.documents.series import Columns, columns
from rpcaccel.controlplane.stats.buckets import ratio
from rpcaccel.controlplane.stats.history import History, Window, by_method, spared
from rpcaccel.controlplane.stats.snapshot import Frame, HeadView, NodeStanding, NodeView
from rpcaccel.controlplane.stats.summaries import (
    At,
    ExaminationNow,
    Iso,
    Looked,
    MethodFigures,
    PerSecond,
    Quantiles,
    Readings,
    Seconds,
    Share,
    SubscriptionFigures,
    examination_document,
    extended,
    iso,
    method_figures,
    quantiles,
    rate,
    readings,
    readings_by_network,
    subscription_figures,
    sum_by_reason,
)
from rpcaccel.core.nodes.limits import QuotaUse
from rpcaccel.core.replies.failure import is_node_fault
from rpcaccel.core.stats.counters import REMOVES, SHARED_TIER, Cell, NetworkCell, NodeCell, Tier, TierFigures
from rpcaccel.core.stats.histogram import Histogram

SHOWN_SETTINGS: tuple[tuple[str, ...], ...] = (
    ("listen",),
    ("tls_cert",),
    ("admin", "listen"),
    ("workers",),
    ("default_network",),
    ("memory", "size"),
    ("memory", "max_entry"),
    ("redis", "prefix"),
)
"""The paths of the only settings that the page gets."""

RATE_SECONDS = 10.0
"""Seconds that a rate looks back."""

MINUTE_SECONDS = 60.0
"""Seconds that percentiles and reasons look back."""


class NetworkNow(HeadView, frozen=True, kw_only=True):
    """One network: its served head, and how many of its nodes take calls."""

    nodes: int
    eligible: int
    failing: Annotated[int, Meta(description="Nodes in the state failing, some of which may still take calls.")]
    suspected: Annotated[int, Meta(description="Nodes whose answers are wrong now, as far as they were compared.")]
    state: Annotated[
        Literal["ok", "part", "down"],
        Meta(description="ok: all nodes take calls, none is failing or suspected; down: no node takes any."),
    ]


class Moment(Struct, frozen=True, kw_only=True):
    """The part of the overview that the event stream sends each second."""

    networks: list[NetworkNow]
    readings: Readings | None
    by_network: Annotated[dict[str, Readings], Meta(description="Of each network, where there are several.")]
    in_flight: int
    connections: Annotated[int, Meta(description="Of clients.")]
    websockets: Annotated[int, Meta(description="Connections of clients that are WebSockets.")]
    subscriptions: Annotated[
        list[SubscriptionFigures], Meta(description="Of each network that somebody subscribes to, or did.")
    ]


class Attention(Struct, frozen=True, kw_only=True):
    """A sentence about something that should be looked at."""

    level: Literal["bad", "warn"]
    subject: Annotated[str, Meta(description="A network, NETWORK/NODE, a tier, or what else it is about.")]
    text: str
    kind: Annotated[str, Meta(description='The matter in a word or two, such as "no node"; may be empty.')]
    id: Annotated[str, Meta(description="Of the alert that it becomes; the same while the numbers change.")]
    muted: Annotated[Mute | None, Meta(description="The mute that keeps it from webhooks; null: they are told.")]


class WorkerNow(Struct, frozen=True):
    """A worker, and the settings it runs."""

    id: str
    revision: int
    uptime: Seconds


class Saved(Struct, frozen=True):
    """Spared by the cache since the start."""

    node_calls: int
    seconds: Annotated[float, Meta(description="That callers would have waited longer.")]
    credits: Annotated[
        float | None,
        Meta(description="Units that those calls would cost at nodes with costs now; null where no node has any."),
    ]


class StepNow(Struct, frozen=True):
    """A stage of calls in the last minute."""

    step: str
    count: int
    seconds: Annotated[float, Meta(description="Spent in it, together.")]
    p50: Seconds | None
    p99: Seconds | None


class Overview(Moment, frozen=True, kw_only=True):
    """The document of the first view of the page."""

    version: str
    at: At
    revision: Annotated[int, Meta(description="Of the settings in force; a worker may still run an older one.")]
    workers: list[WorkerNow]
    history: Columns
    saved: Saved
    attention: Sequence[Attention]
    settings: Annotated[dict[str, str | int | float | bool], Meta(description="Some of them, by dotted path.")]
    balancers: Annotated[Sequence[str], Meta(description="Those there are to choose from.")]
    chains: Annotated[Sequence[str], Meta(description="Those whose public endpoints can serve for a first look.")]
    steps: list[StepNow]


class QuotaNow(Struct, frozen=True):
    """The use of a quota by all workers together."""

    window: Literal["day", "month"]
    used: float
    limit: float
    since: Annotated[str, Meta(description="ISO 8601: when counting began.")]
    renews: Iso
    runs_out: Annotated[str | None, Meta(description="ISO 8601: when it is used up at this pace; null: it will last.")]


class NodeNow(NodeStanding, frozen=True, kw_only=True):
    """A node: its state, gauges as they are, totals since the start, and the last minute."""

    quota: list[QuotaNow]
    examination: Annotated[ExaminationNow | None, Meta(description="The last one; null before the first has ended.")]
    share_wanted: Annotated[float | None, Meta(description="Of the calls of its network, as the weights ask for.")]
    share_got: Annotated[float | None, Meta(description="Of the calls of its network, in the last 10 s.")]
    calls_per_second: PerSecond | None
    calls_total: int
    in_flight: int
    connections_open: int | None
    connections_idle: int | None
    reuse_ratio: Share | None
    latency: Annotated[Quantiles | None, Meta(description="Of its answers in the last minute.")]
    failures: Annotated[dict[str, int], Meta(description="Attempts without an answer in the last minute, by kind.")]
    failed: Annotated[int, Meta(description="Those among them that were the node's own fault.")]
    failures_total: int
    retries: Annotated[int, Meta(description="In the last minute.")]


class Nodes(Struct, frozen=True):
    """Every node, in the order of the settings."""

    window: Looked
    minute: Looked
    nodes: list[NodeNow]


class MethodNow(MethodFigures, frozen=True, kw_only=True):
    """A method of a network."""

    network: str
    method: str
    classes: Annotated[list[str], Meta(description="Cache classes it was called under.")]
    calls_total: Annotated[int, Meta(description="Since the start.")]
    proofs: Annotated[
        dict[str, int],
        Meta(
            description="Answers of nodes judged by arithmetic since the start: proved, consistent (nothing "
            "contradicts them), not_provable, unsure (what proves them could not be had), doubted (a second node was "
            "asked), disproved (false, and not given), poisoned (false, in Redis or on the disk)."
        ),
    ]
    proof_seconds: Annotated[float, Meta(description="That judging them took the proxy.")]
    share: Annotated[float | None, Meta(description="Of all calls in the last minute.")]


class Methods(Struct, frozen=True):
    """Every method called since the start."""

    minute: Looked
    methods: list[MethodNow]


class TierNow(TierFigures, kw_only=True):
    """A cache tier since the start."""

    hit_ratio: Annotated[Share | None, Meta(description="Of the lookups that were answered in time.")]
    late_ratio: Annotated[
        Share | None, Meta(description="Of all lookups, those without an answer in time: their calls went to nodes.")
    ]
    reads: Annotated[
        Quantiles | None,
        Meta(description="Times of its lookups since the start; null of memory, which is not timed, and before one."),
    ]
    evicted: Annotated[int | None, Meta(description="null where only Redis knows.")]
    expired: Annotated[int | None, Meta(description="null where only Redis knows, and on the disk, where none do.")]


class ClassNow(MethodFigures, frozen=True, kw_only=True):
    """A cache class."""

    cache: str = field(name="class")


class Cache(Struct, frozen=True):
    """The tiers since the start, and the last minute by cache class."""

    minute: Looked
    tiers: list[TierNow]
    warnings: list[str]
    classes: list[ClassNow]


def overview(
    frame: Frame,
    history: History,
    settings: Mapping[str, object],
    at: float,
    revision: int,
    attention: Sequence[Attention] = (),
) -> Overview:
    """The document of the first view.

    Args:
        at: seconds since 1970.
        revision: of the settings in force, as the stream says it too.
        attention: what should be looked at.
    """
    return extended(
        Overview,
        moment(frame, history),
        version=rpcaccel.__version__,
        at=at,
        revision=revision,
        workers=[WorkerNow(worker.id, worker.revision, worker.uptime) for worker in frame.workers],
        history=columns(history.points()),
        saved=_saved(frame, history),
        attention=attention,
        settings=_shown(settings),
        balancers=balancers.names(),
        chains=chains.names(),
        steps=_steps(history.window(MINUTE_SECONDS)),
    )


def moment(frame: Frame, history: History) -> Moment:
    """The part of the overview that readers of the stream get each second."""
    window = history.window(RATE_SECONDS)
    return Moment(
        networks=[_network(head, frame.nodes) for head in frame.heads],
        readings=readings(window),
        by_network=readings_by_network(window) if len(frame.heads) > 1 else {},
        in_flight=frame.snapshot.in_flight,
        connections=frame.snapshot.connections,
        websockets=frame.snapshot.websockets,
        subscriptions=_subscriptions(frame.snapshot.networks, window, history.window(MINUTE_SECONDS)),
    )


def nodes(frame: Frame, history: History) -> Nodes:
    """The document of all nodes: states, shares of traffic wanted and got, and figures of the last minute."""
    window, minute = history.window(RATE_SECONDS), history.window(MINUTE_SECONDS)
    now = {(cell.network, cell.node): cell for cell in frame.snapshot.nodes}
    recent, lately = _node_cells(window), _node_cells(minute)
    return Nodes(
        window.seconds if window else None,
        minute.seconds if minute else None,
        [
            extended(
                NodeNow,
                node,
                quota=[_quota(use) for use in node.quota],
                examination=examination_document(node.examination),
                share_wanted=_share_wanted(node, frame.nodes),
                calls_per_second=rate(_attempts(recent, node), window),
                share_got=ratio(
                    _attempts(recent, node), sum(one.calls for one in recent.values() if one.network == node.network)
                ),
                **_node_figures(now.get((node.network, node.id)), lately.get((node.network, node.id))),
            )
            for node in frame.nodes
        ],
    )


def methods(frame: Frame, history: History) -> Methods:
    """The document of all methods called since the start, with their figures of the last minute."""
    minute = history.window(MINUTE_SECONDS)
    recent = by_method(minute.passed.cells) if minute else {}
    calls = sum(cell.calls for cell in minute.passed.cells) if minute else 0
    return Methods(
        minute.seconds if minute else None,
        [
            extended(
                MethodNow,
                method_figures(recent.get((network, method), []), minute),
                network=network,
                method=method,
                classes=sorted({str(cell.cache) for cell in cells if cell.calls}),
                calls_total=sum(cell.calls for cell in cells),
                proofs=sum_by_reason(cell.proofs for cell in cells),
                proof_seconds=sum(cell.proof_seconds for cell in cells),
                share=ratio(sum(cell.calls for cell in recent.get((network, method), [])), calls),
            )
            for (network, method), cells in by_method(frame.snapshot.cells).items()
            if any(cell.calls for cell in cells)
        ],
    )


def cache(frame: Frame, history: History) -> Cache:
    """The tiers since the start, and the last minute by cache class."""
    minute, snapshot = history.window(MINUTE_SECONDS), frame.snapshot
    classes: dict[str, list[Cell]] = {}
    for cell in minute.passed.cells if minute else ():
        classes.setdefault(str(cell.cache), []).append(cell)
    return Cache(
        minute.seconds if minute else None,
        [_tier(tier, snapshot.steps.get(tier.name)) for tier in sorted(snapshot.tiers, key=_place)],
        [notice.text for notice in frame.notices if notice.subject in {"disk", SHARED_TIER}],
        [
            extended(ClassNow, method_figures(cells, minute), cache=name)
            for name, cells in classes.items()
            if any(cell.calls for cell in cells)
        ],
    )


def _network(head: HeadView, all_nodes: Iterable[NodeView]) -> NetworkNow:
    mine = [node for node in all_nodes if node.network == head.network]
    eligible, failing = sum(node.eligible for node in mine), sum(node.state == "failing" for node in mine)
    suspected = sum(node.suspect for node in mine)
    well = eligible == len(mine) and not failing and not suspected
    state = "down" if not eligible else "ok" if well else "part"
    return extended(
        NetworkNow, head, nodes=len(mine), eligible=eligible, failing=failing, suspected=suspected, state=state
    )


def _subscriptions(
    cells: Iterable[NetworkCell], window: Window | None, minute: Window | None
) -> list[SubscriptionFigures]:
    """Of each network that somebody subscribes to, or did since the start."""
    recent = {cell.network: cell for cell in window.passed.networks} if window else {}
    lately = {cell.network: cell for cell in minute.passed.networks} if minute else {}
    return [
        subscription_figures(cell, recent.get(cell.network), window, lately.get(cell.network))
        for cell in cells
        if any(cell.subscriptions.values()) or cell.delivered or cell.cut or cell.resumed
    ]


def _saved(frame: Frame, history: History) -> Saved:
    cells, costs = frame.snapshot.cells, history.costs
    return Saved(*spared(cells, {}), costs.together(cells)[0] if costs.billed else None)


def _steps(window: Window | None) -> list[StepNow]:
    """The time of each timed stage of calls, in the order of the stages."""
    steps = window.passed.steps if window else {}
    return [
        StepNow(step, taken.count, taken.seconds, taken.quantile(0.5), taken.quantile(0.99))
        for step, taken in steps.items()
        if taken.count
    ]


def _share_wanted(node: NodeView, all_nodes: Iterable[NodeView]) -> float | None:
    fit = [other for other in all_nodes if other.network == node.network and other.eligible]
    lowest = min((other.tier for other in fit), default=0)
    taken = sum(other.weight for other in fit if other.tier == lowest)
    return ratio(node.weight if node.eligible and node.tier == lowest else 0, taken)


def _node_figures(now: NodeCell | None, minute: NodeCell | None) -> dict[str, Any]:
    """Gauges and totals of a node as they are `now`, percentiles and failures of the last `minute`."""
    failures = minute.failures if minute else {}
    return {
        "in_flight": now.in_flight if now else 0,
        "connections_open": now.connections_open if now else None,
        "connections_idle": now.connections_idle if now else None,
        "reuse_ratio": ratio(now.reused, now.reused + now.connects) if now else None,
        "calls_total": now.calls if now else 0,
        "latency": quantiles(minute.latency) if minute else None,
        "failures": failures,
        "failed": sum(count for kind, count in failures.items() if is_node_fault(kind)),
        "failures_total": sum(now.failures.values()) if now else 0,
        "retries": minute.retries if minute else 0,
    }


def _quota(use: QuotaUse) -> QuotaNow:
    out = None if use.runs_out is None else iso(use.runs_out)
    return QuotaNow(use.window, use.used, use.limit, iso(use.since), iso(use.renews), out)


def _node_cells(window: Window | None) -> dict[tuple[str, str], NodeCell]:
    return {(cell.network, cell.node): cell for cell in window.passed.nodes} if window else {}


def _attempts(cells: Mapping[tuple[str, str], NodeCell], node: NodeView) -> int:
    cell = cells.get((node.network, node.id))
    return cell.calls if cell else 0


def _place(tier: Tier) -> int:
    """The place of a tier among those that a call asks. New workers may have a tier that those before them had not."""
    return list(REMOVES).index(tier.name)


def _tier(tier: Tier, reads: Histogram | None) -> TierNow:
    """`reads`: the times of its lookups since the start, where they are taken."""
    return extended(
        TierNow,
        tier,
        hit_ratio=ratio(tier.hits, tier.hits + tier.misses),
        late_ratio=ratio(tier.timeouts, tier.hits + tier.misses + tier.timeouts),
        reads=None if reads is None else quantiles(reads),
        **{name: None for name in ("evicted", "expired") if name not in REMOVES[tier.name]},
    )


def _shown(settings: Mapping[str, object]) -> dict[str, str | int | float | bool]:
    shown: dict[str, str | int | float | bool] = {}
    for path in SHOWN_SETTINGS:
        found: object = settings
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        if isinstance(found, str | int | float | bool):
            shown[".".join(path)] = found
    return shown
