"""The document about clients: who calls how much, and what is refused to whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from msgspec import Meta

from rpcaccel.controlplane.stats.history import Window
from rpcaccel.controlplane.stats.summaries import Looked, PerSecond, rate
from rpcaccel.core.client_limits import ANONYMOUS
from rpcaccel.core.stats.counters import ClientCell, TallySnapshot

_LIMITS = ("rate", "burst", "concurrency", "batch", "allow", "deny")


class ClientNow(TypedDict):
    """A holder of keys, or `anonymous`: all who call without one."""

    name: str
    calls_total: int
    calls_per_second: PerSecond | None
    limited_total: int
    limited_per_second: PerSecond | None
    limited: Annotated[dict[str, int], Meta(description="Refused since the start, by limit.")]
    in_flight: int
    seen: Annotated[float | None, Meta(description="Seconds since it last called; null: never.")]
    enabled: bool
    limits: Annotated[dict[str, Any] | None, Meta(description="As in the settings; null when it is not there.")]


class Clients(TypedDict):
    """Who calls how much, and what is refused to whom."""

    window: Looked
    require_key: bool
    clients: list[ClientNow]


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


def _client(
    cell: ClientCell,
    recent: ClientCell | None,
    window: Window | None,
    limits: Mapping[str, object] | None,
    now: float,
) -> ClientNow:
    return {
        "name": cell.client,
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
