"""The route table of the admin side: every path with the guard that stands before it, and what every answer carries.

What the admin side can have done, beside looking: one port towards the supervisor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from rpcaccel.controlplane.admin.auth import Guard
from rpcaccel.controlplane.settings.ledger import Ledger
from rpcaccel.controlplane.stats.events import Events
from rpcaccel.core.heads.served_head import NodeHead

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On every answer, errors too."""


class AdminRoute(Struct, frozen=True):
    """One line of the route table."""

    method: str
    path: str
    handler: str
    """Name of a method of Admin, or of one of its parts: "change_routes.patch"."""
    guard: Guard


ROUTES: tuple[AdminRoute, ...] = (
    AdminRoute("GET", "/healthz", "healthz", "open"),
    AdminRoute("GET", "/metrics", "metrics", "read"),
    AdminRoute("GET", "/api/v1/openapi.json", "openapi", "read"),
    AdminRoute("GET", "/api/v1/overview", "overview", "read"),
    AdminRoute("GET", "/api/v1/history", "query_routes.past", "read"),
    AdminRoute("GET", "/api/v1/nodes", "nodes", "read"),
    AdminRoute("GET", "/api/v1/methods", "methods", "read"),
    AdminRoute("GET", "/api/v1/methods/history", "query_routes.method", "read"),
    AdminRoute("GET", "/api/v1/cache", "cache", "read"),
    AdminRoute("POST", "/api/v1/run", "query_routes.run", "change"),
    AdminRoute("POST", "/api/v1/explain", "explain", "read"),
    AdminRoute("POST", "/api/v1/purge", "purge", "change"),
    AdminRoute("POST", "/api/v1/record", "record", "change"),
    AdminRoute("GET", "/api/v1/clients", "clients", "read"),
    AdminRoute("POST", "/api/v1/keys", "change_routes.key", "change"),
    AdminRoute("GET", "/api/v1/errors", "errors", "read"),
    AdminRoute("POST", "/api/v1/errors/try", "try_error", "read"),
    AdminRoute("GET", "/api/v1/workers", "change_routes.workers", "read"),
    AdminRoute("GET", "/api/v1/events", "change_routes.events", "read"),
    AdminRoute("GET", "/api/v1/settings", "change_routes.settings", "read"),
    AdminRoute("PATCH", "/api/v1/settings", "change_routes.patch", "change"),
    AdminRoute("POST", "/api/v1/settings/undo", "change_routes.undo", "change"),
    AdminRoute("GET", "/api/v1/settings/difference", "change_routes.difference", "read"),
    AdminRoute("GET", "/api/v1/settings/described", "change_routes.described", "read"),
    AdminRoute("GET", "/api/v1/settings/export", "change_routes.export", "read"),
    AdminRoute("GET", "/api/v1/changes", "change_routes.changes", "read"),
    AdminRoute("POST", "/api/v1/reload", "change_routes.reload", "change"),
    AdminRoute("POST", "/api/v1/nodes/{network}/{id}/probe", "change_routes.probe", "change"),
    AdminRoute("GET", "/api/v1/session", "session.show", "open"),
    AdminRoute("POST", "/api/v1/session", "session.begin", "login"),
    AdminRoute("DELETE", "/api/v1/session", "session.end", "login"),
    AdminRoute("GET", "/{file:[^/].*|}", "page", "open"),
)


class Control(Protocol):
    """Settings, workers, probes and the stream of events."""

    ledger: Ledger
    events: Events

    def workers(self) -> Sequence[dict[str, Any]]:
        """The workers with their states, old ones that still drain included."""
        ...

    def adopted(self) -> int:
        """How many workers have the revision in force."""
        ...

    @property
    def replaced(self) -> int:
        """Workers that died and were replaced since the start."""
        ...

    def shared(self) -> dict[str, Any] | None:
        """How settings are shared with other hosts; None when they are not."""
        ...

    async def purged(self, body: bytes) -> None:
        """A purge was carried out here by this request; other hosts are to do the same."""
        ...

    async def probe(self, network: str, node: str) -> NodeHead | None:
        """Look at a node at once; None when there is no such node."""
        ...
