"""The JSON documents of the admin API about clients: the holders of API keys, and all who call without one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from rpcaccel.controlplane.documents.series import ClientPast
from rpcaccel.controlplane.stats.buckets import ratio
from rpcaccel.controlplane.stats.history import Window
from rpcaccel.controlplane.stats.summaries import Looked, PerSecond, extended, rate
from rpcaccel.core.client_limits import ANONYMOUS
from rpcaccel.core.stats.counters import ClientCell, TallySnapshot

_LIMITS = ("rate", "burst", "concurrency", "batch", "allow", "deny", "directives", "cache", "tag")


class ClientNow(Struct, frozen=True, kw_only=True):
    """A holder of keys, or `anonymous`: all who call without one."""

    name: str
    hit_ratio: Annotated[float | None, Meta(description="Since the start, 0 to 1.")]
    errors_total: Annotated[int, Meta(description="Calls that the proxy or its nodes failed at.")]
    client_errors_total: Annotated[int, Meta(description="Errors by the client's own doing.")]
    calls_total: int
    calls_per_second: PerSecond | None
    limited_total: int
    limited_per_second: PerSecond | None
    limited: Annotated[dict[str, int], Meta(description="Refused since the start, by limit.")]
    in_flight: int
    seen: Annotated[float | None, Meta(description="Seconds since it last called; null: never.")]
    enabled: bool
    limits: Annotated[dict[str, Any] | None, Meta(description="As in the settings; null when it is not there.")]


class Clients(Struct, frozen=True):
    """The callers, with what they call and what is refused to them."""

    window: Looked
    require_key: bool
    clients: list[ClientNow]


class ClientMethod(Struct, frozen=True):
    """A method that a client called since the start; "other" is every method without a rule, and beyond 64."""

    method: str
    calls: Annotated[int, Meta(description="Refused ones included.")]
    hits: int
    errors: Annotated[int, Meta(description="Calls that the proxy or its nodes failed at.")]
    client_errors: Annotated[int, Meta(description="Errors by the client's own doing.")]


class ClientDocument(ClientPast, frozen=True, kw_only=True):
    """A client, and its last hour or day."""

    client: ClientNow
    methods: list[ClientMethod]


def clients_document(
    snapshot: TallySnapshot, window: Window | None, settings: Mapping[str, object], now: float
) -> Clients:
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
    return Clients(
        window.seconds if window else None,
        bool(said.get("require_key", False)),
        [
            _client(cells.get(name) or ClientCell(name), recent.get(name), window, limits.get(name), now)
            for name in names
        ],
    )


def client_document(now: ClientNow, cell: ClientCell | None, series: ClientPast) -> ClientDocument:
    """One client: as it is in the list, its methods since the start, and its past."""
    return extended(ClientDocument, series, client=now, methods=[] if cell is None else _client_methods(cell))


def _client_methods(cell: ClientCell) -> list[ClientMethod]:
    """The methods of a client since the start, the most called first."""
    return [
        ClientMethod(
            method,
            calls,
            cell.method_hits.get(method, 0),
            cell.method_errors.get(method, 0),
            cell.method_client_errors.get(method, 0),
        )
        for method, calls in sorted(cell.method_calls.items(), key=lambda item: -item[1])
    ]


def _client(
    cell: ClientCell,
    recent: ClientCell | None,
    window: Window | None,
    limits: Mapping[str, object] | None,
    now: float,
) -> ClientNow:
    return ClientNow(
        name=cell.client,
        hit_ratio=ratio(cell.hit.count, cell.hit.count + cell.miss.count),
        errors_total=cell.errors,
        client_errors_total=cell.client_errors,
        calls_total=cell.calls,
        calls_per_second=rate(recent.calls if recent else 0, window),
        limited_total=sum(cell.limited.values()),
        limited_per_second=rate(sum(recent.limited.values()) if recent else 0, window),
        limited=dict(cell.limited),
        in_flight=cell.in_flight,
        seen=max(0.0, now - cell.seen_at) if cell.seen_at else None,
        enabled=bool(limits.get("enabled", True)) if limits else True,
        limits={name: limits.get(name) for name in _LIMITS} if limits else None,
    )


def _table(settings: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = settings.get(name)
    return found if isinstance(found, Mapping) else {}
