"""The route table of the admin side: every path with the guard that stands before it, and what every answer carries."""

from __future__ import annotations

from msgspec import Struct

from rpcaccel.controlplane.auth import Guard

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


class Route(Struct, frozen=True):
    """One line of the route table."""

    method: str
    path: str
    handler: str
    """Name of a method of Admin, or of one of its parts: "changing.patch"."""
    guard: Guard


ROUTES: tuple[Route, ...] = (
    Route("GET", "/healthz", "healthz", "open"),
    Route("GET", "/metrics", "metrics", "read"),
    Route("GET", "/api/v1/openapi.json", "openapi", "read"),
    Route("GET", "/api/v1/overview", "overview", "read"),
    Route("GET", "/api/v1/history", "looking.past", "read"),
    Route("GET", "/api/v1/nodes", "nodes", "read"),
    Route("GET", "/api/v1/methods", "methods", "read"),
    Route("GET", "/api/v1/methods/history", "looking.method", "read"),
    Route("GET", "/api/v1/cache", "cache", "read"),
    Route("POST", "/api/v1/run", "looking.run", "change"),
    Route("POST", "/api/v1/explain", "explain", "read"),
    Route("POST", "/api/v1/purge", "purge", "change"),
    Route("POST", "/api/v1/record", "record", "change"),
    Route("GET", "/api/v1/clients", "clients", "read"),
    Route("POST", "/api/v1/keys", "changing.key", "change"),
    Route("GET", "/api/v1/errors", "errors", "read"),
    Route("POST", "/api/v1/errors/try", "try_error", "read"),
    Route("GET", "/api/v1/workers", "changing.workers", "read"),
    Route("GET", "/api/v1/events", "changing.events", "read"),
    Route("GET", "/api/v1/settings", "changing.settings", "read"),
    Route("PATCH", "/api/v1/settings", "changing.patch", "change"),
    Route("POST", "/api/v1/settings/undo", "changing.undo", "change"),
    Route("GET", "/api/v1/settings/difference", "changing.difference", "read"),
    Route("GET", "/api/v1/settings/described", "changing.described", "read"),
    Route("GET", "/api/v1/settings/export", "changing.export", "read"),
    Route("GET", "/api/v1/changes", "changing.changes", "read"),
    Route("POST", "/api/v1/reload", "changing.reload", "change"),
    Route("POST", "/api/v1/nodes/{network}/{id}/probe", "changing.probe", "change"),
    Route("GET", "/api/v1/session", "session.show", "open"),
    Route("POST", "/api/v1/session", "session.begin", "login"),
    Route("DELETE", "/api/v1/session", "session.end", "login"),
    Route("GET", "/{file:[^/].*|}", "page", "open"),
)
