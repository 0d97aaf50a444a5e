"""The JSON documents of the admin API, made from a frame and the history.

Settings are picked one by one and never passed on whole, so that no secret in them can be shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, cast

from msgspec import structs

import rpcaccel
from rpcaccel import balancers
from rpcaccel.controlplane.admin.api_types import (
    Attention,
    Cache,
    ClientDocument,
    ClientMethod,
    ClientNow,
    Clients,
    Methods,
    Moment,
    NetworkNow,
    Nodes,
    NodeStanding,
    Overview,
    QuotaNow,
    Saved,
    StepNow,
    TierNow,
)
from rpcaccel.controlplane.stats.buckets import ratio
from rpcaccel.controlplane.stats.history import History, Window, by_method, spared
from rpcaccel.controlplane.stats.proof_document import proof_document
from rpcaccel.controlplane.stats.series import ClientPast, columns
from rpcaccel.controlplane.stats.snapshot import Frame, HeadView, NodeView
from rpcaccel.controlplane.stats.summaries import (
    SubscriptionFigures,
    method_figures,
    node_figures,
    quantiles,
    rate,
    readings,
    readings_by_network,
    subscription_figures,
)
from rpcaccel.core.client_limits import ANONYMOUS
from rpcaccel.core.nodes.limits import QuotaUse
from rpcaccel.core.stats.counters import REMOVES, Cell, ClientCell, NodeCell, TallySnapshot, Tier
from rpcaccel.core.stats.histogram import Histogram

SHOWN_SETTINGS: tuple[tuple[str, ...], ...] = (
    ("listen",),
    ("admin", "listen"),
    ("workers",),
    ("default_network",),
    ("memory", "size"),
    ("memory", "max_entry"),
    ("redis", "prefix"),
)
"""The paths of the only settings that the page gets."""

WHILE = 10.0
"""Seconds that a rate looks back."""

MINUTE = 60.0
"""Seconds that percentiles and reasons look back."""


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
        revision: of the settings in force, as the stream says it too; a worker may still run an older one.
        attention: what should be looked at.
    """
    return {
        "version": rpcaccel.__version__,
        "at": at,
        "revision": revision,
        "workers": [
            {"id": worker.id, "revision": worker.revision, "uptime": worker.uptime} for worker in frame.workers
        ],
        **moment(frame, history),
        "history": columns(history.points()),
        "saved": _saved(frame.snapshot),
        "attention": list(attention),
        "settings": _shown(settings),
        "balancers": list(balancers.names()),
        "steps": _steps(history.window(MINUTE)),
    }


def moment(frame: Frame, history: History) -> Moment:
    """The part of the overview that readers of the stream get each second."""
    return {
        "networks": [_network(head, frame.nodes) for head in frame.heads],
        "readings": readings(history.window(WHILE)),
        "by_network": readings_by_network(history.window(WHILE)) if len(frame.heads) > 1 else {},
        "in_flight": frame.snapshot.in_flight,
        "connections": frame.snapshot.connections,
        "websockets": frame.snapshot.websockets,
        "subscriptions": _subscriptions(frame, history),
    }


def nodes(frame: Frame, history: History) -> Nodes:
    """The document of all nodes: states, shares of traffic wanted and got, and figures of the last minute."""
    window, minute = history.window(WHILE), history.window(MINUTE)
    now = {(cell.network, cell.node): cell for cell in frame.snapshot.nodes}
    recent = _node_cells(window)
    lately = _node_cells(minute)
    return {
        "window": window.seconds if window else None,
        "minute": minute.seconds if minute else None,
        "nodes": [
            {
                **_node_state(node, frame.nodes),
                **node_figures(now.get((node.network, node.id)), lately.get((node.network, node.id))),
                "calls_per_second": rate(_attempts(recent, node), window),
                "share_got": ratio(
                    _attempts(recent, node), sum(one.calls for one in recent.values() if one.network == node.network)
                ),
            }
            for node in frame.nodes
        ],
    }


def methods(frame: Frame, history: History) -> Methods:
    """The document of all methods called since the start, with their figures of the last minute."""
    minute = history.window(MINUTE)
    recent = by_method(minute.passed.cells) if minute else {}
    calls = sum(cell.calls for cell in minute.passed.cells) if minute else 0
    return {
        "minute": minute.seconds if minute else None,
        "methods": [
            {
                "network": network,
                "method": method,
                "classes": sorted({str(cell.cache) for cell in cells if cell.calls}),
                "calls_total": sum(cell.calls for cell in cells),
                **method_figures(recent.get((network, method), []), minute),
                "share": ratio(sum(cell.calls for cell in recent.get((network, method), [])), calls),
            }
            for (network, method), cells in by_method(frame.snapshot.cells).items()
            if any(cell.calls for cell in cells)
        ],
    }


def cache(frame: Frame, history: History) -> Cache:
    """The tiers since the start, and the last minute by cache class."""
    minute = history.window(MINUTE)
    classes: dict[str, list[Cell]] = {}
    for cell in minute.passed.cells if minute else ():
        classes.setdefault(str(cell.cache), []).append(cell)
    return {
        "minute": minute.seconds if minute else None,
        "tiers": [
            _tier(tier, frame.snapshot.steps.get(tier.name)) for tier in sorted(frame.snapshot.tiers, key=_place)
        ],
        "warnings": [notice.text for notice in frame.notices if notice.subject in {"disk", "redis"}],
        "classes": [
            {"class": name, **method_figures(cells, minute)}
            for name, cells in classes.items()
            if any(cell.calls for cell in cells)
        ],
    }


def _network(head: HeadView, all_nodes: Iterable[NodeView]) -> NetworkNow:
    mine = [node for node in all_nodes if node.network == head.network]
    eligible, failing = sum(node.eligible for node in mine), sum(node.state == "failing" for node in mine)
    well = eligible == len(mine) and not failing
    state: Literal["ok", "part", "down"] = "down" if not eligible else "ok" if well else "part"
    known = {
        "head": head.head if head.head >= 0 else None,
        "nodes": len(mine),
        "eligible": eligible,
        "failing": failing,
        "state": state,
    }
    return cast(NetworkNow, {**structs.asdict(head), **known})


def _subscriptions(frame: Frame, history: History) -> list[SubscriptionFigures]:
    """Of each network that somebody subscribes to, or did since the start."""
    window, minute = history.window(WHILE), history.window(MINUTE)
    recent = {cell.network: cell for cell in window.passed.networks} if window else {}
    lately = {cell.network: cell for cell in minute.passed.networks} if minute else {}
    return [
        subscription_figures(cell, recent.get(cell.network), window, lately.get(cell.network))
        for cell in frame.snapshot.networks
        if any(cell.subscriptions.values()) or cell.delivered or cell.cut or cell.resumed
    ]


def _saved(snapshot: TallySnapshot) -> Saved:
    """The savings of the cache since the start."""
    calls, seconds = spared(snapshot.cells, {})
    return {"node_calls": calls, "seconds": seconds}


def _steps(window: Window | None) -> list[StepNow]:
    """The time of each timed stage of calls, in the order of the stages."""
    steps = window.passed.steps if window else {}
    return [
        {
            "step": step,
            "count": taken.count,
            "seconds": taken.seconds,
            "p50": taken.quantile(0.5),
            "p99": taken.quantile(0.99),
        }
        for step, taken in steps.items()
        if taken.count
    ]


def _node_state(node: NodeView, all_nodes: Iterable[NodeView]) -> NodeStanding:
    fit = [other for other in all_nodes if other.network == node.network and other.eligible]
    lowest = min((other.tier for other in fit), default=0)
    taken = sum(other.weight for other in fit if other.tier == lowest)
    share = ratio(node.weight if node.eligible and node.tier == lowest else 0, taken)
    head = node.head if node.head >= 0 else None
    known = {
        "head": head,
        "roles": list(node.roles),
        "quota": [_quota(use) for use in node.quota],
        "proof": proof_document(node.proof),
    }
    return cast(NodeStanding, {**structs.asdict(node), "share_wanted": share, **known})


def _quota(use: QuotaUse) -> QuotaNow:
    """The document of one quota; times are ISO 8601 in UTC."""
    out = None if use.runs_out is None else _iso(use.runs_out)
    return {"window": use.window, "used": use.used, "limit": use.limit, "since": _iso(use.since),
            "renews": _iso(use.renews), "runs_out": out}  # fmt: skip


def _iso(unix: float) -> str:
    return datetime.fromtimestamp(unix, UTC).isoformat(timespec="seconds")


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
    told = {
        **structs.asdict(tier),
        "hit_ratio": ratio(tier.hits, tier.hits + tier.misses),
        "late_ratio": ratio(tier.timeouts, tier.hits + tier.misses + tier.timeouts),
        "reads": None if reads is None else quantiles(reads),
        **{name: None for name in ("evicted", "expired") if name not in REMOVES[tier.name]},
    }
    return cast(TierNow, told)


def _shown(settings: Mapping[str, object]) -> dict[str, str | int | float | bool]:
    shown: dict[str, str | int | float | bool] = {}
    for path in SHOWN_SETTINGS:
        found: object = settings
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        if isinstance(found, str | int | float | bool):
            shown[".".join(path)] = found
    return shown


_LIMITS = ("rate", "burst", "concurrency", "batch", "allow", "deny")


def clients(snapshot: TallySnapshot, window: Window | None, settings: Mapping[str, object], now: float) -> Clients:
    """Every holder of a key in the order of the settings, then those gone from them and the anonymous ones.

    Args:
        now: seconds on the clock that clients were seen by.
    """
    said = _table(settings, "clients")
    keys, anonymous = _table(said, "keys"), _table(said, "anonymous")
    cells = {cell.client: cell for cell in snapshot.clients}
    recent = {cell.client: cell for cell in window.passed.clients} if window else {}
    limits = {**{name: _table(keys, name) for name in keys}, ANONYMOUS: anonymous}
    names = [*keys, *(name for name in cells if name not in keys)]
    return {
        "window": window.seconds if window else None,
        "require_key": bool(said.get("require_key", False)),
        "clients": [
            _client(cells.get(name) or ClientCell(name), recent.get(name), window, limits.get(name), now)
            for name in names
        ],
    }


def client(now: ClientNow, cell: ClientCell | None, series: ClientPast) -> ClientDocument:
    """One client: as it is in the list, its methods since the start, and its past."""
    return {**series, "client": now, "methods": [] if cell is None else _client_methods(cell)}


def _client_methods(cell: ClientCell) -> list[ClientMethod]:
    """The methods of a client since the start, the most called first."""
    return [
        {
            "method": method,
            "calls": calls,
            "hits": cell.method_hits.get(method, 0),
            "errors": cell.method_errors.get(method, 0),
            "client_errors": cell.method_client_errors.get(method, 0),
        }
        for method, calls in sorted(cell.method_calls.items(), key=lambda item: -item[1])
    ]


def _client(
    cell: ClientCell,
    recent: ClientCell | None,
    window: Window | None,
    limits: Mapping[str, object] | None,
    now: float,
) -> ClientNow:
    return {
        "name": cell.client,
        "hit_ratio": ratio(cell.hit.count, cell.hit.count + cell.miss.count),
        "errors_total": cell.errors,
        "client_errors_total": cell.client_errors,
        "calls_total": cell.calls,
        "calls_per_second": rate(recent.calls if recent else 0, window),
        "limited_total": sum(cell.limited.values()),
        "limited_per_second": rate(sum(recent.limited.values()) if recent else 0, window),
        "limited": dict(cell.limited),
        "in_flight": cell.in_flight,
        "seen": max(0.0, now - cell.seen_at) if cell.seen_at else None,
        "enabled": bool(limits.get("enabled", True)) if limits else True,
        "limits": {name: limits.get(name) for name in _LIMITS} if limits else None,
    }


def _table(settings: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = settings.get(name)
    return found if isinstance(found, Mapping) else {}
