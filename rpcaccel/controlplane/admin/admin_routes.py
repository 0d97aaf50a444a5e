"""The route table of the admin side: every path with its guard and the types of its request and answer; the headers of
every answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rpcaccel.controlplane.admin import settings_api as settings
from rpcaccel.controlplane.admin.auth import Guard, LoginRequest, Session
from rpcaccel.controlplane.admin.diagnostics import CallRequest, ExplainedCall, Ran
from rpcaccel.controlplane.admin.weight_routes import WeightsRequest
from rpcaccel.controlplane.alerts.alerting import AlertsNow, AlertTestRequest, AlertTests
from rpcaccel.controlplane.alerts.mutes import MuteRequest
from rpcaccel.controlplane.documents import current_figures
from rpcaccel.controlplane.documents.client_figures import ClientDocument, Clients
from rpcaccel.controlplane.documents.error_documents import ErrorGroupOpened, ErrorsNow
from rpcaccel.controlplane.documents.error_treatment import ErrorQuestion, Treatment
from rpcaccel.controlplane.stats.host_book import HostsNow
from rpcaccel.controlplane.stats.node_report import NodesReport
from rpcaccel.controlplane.stats.series import MethodPast, Past
from rpcaccel.controlplane.workers.operations import Purged, PurgeRequest, RecordedCalls, RecordRequest
from rpcaccel.core.heads.node_trial import NodeTrial

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
"""Headers of every answer, errors included."""


class AdminRoute(Struct, frozen=True):
    """One line of the route table."""

    method: str
    path: str
    handler: str
    """Name of a method of Admin, or of one of its parts: "change_routes.patch"."""
    guard: Guard
    answer: Any = None
    """Type of the document that is answered, or several; None where its members are not described."""
    body: Any = None
    """Type of the document that is sent; None for an empty object."""
    content: str = "application/json"
    """Media type of the answer; empty when there is no content."""
    query: Mapping[str, str] = {}
    """Parameters with what they mean."""
    conditional: bool = False
    """Whether If-Match is required."""


_RANGE = {
    "range": "5m, 1h, 24h or 7d.",
    "network": "The network; all together if unset.",
    "from": "Seconds since 1970: instead of the range, the finest points that there are from then on.",
    "to": "Seconds since 1970: nothing later.",
}
_CLIENT_RANGE = {"range": "1h or 24h."}
_METHOD = {"network": "The network.", "method": "The method."}
_ERRORS = {
    "network": "One network; all of them if empty.",
    "method": "The method that the groups are about; all of them if empty.",
    "minutes": "How far to look back, 1 to 60; 60 if unset.",
}
_OVER = {"over": "hour or day; an hour if unset."}
_DRY_RUN = {"dry_run": "1: say what would change, and change nothing."}
_LIMIT = {"limit": "Lines at the most."}
_LAST = {"last": "The id of the last event seen, where Last-Event-ID cannot be sent."}
_API = "/api/v1"

# fmt: off
ROUTES: tuple[AdminRoute, ...] = (
    AdminRoute("GET", "/healthz", "healthz", "open", content="text/plain"),
    AdminRoute("GET", "/metrics", "metrics", "read", content="text/plain"),
    AdminRoute("GET", f"{_API}/openapi.json", "openapi", "read"),
    AdminRoute("GET", f"{_API}/overview", "overview", "read", current_figures.Overview),
    AdminRoute("GET", f"{_API}/history", "query_routes.past", "read", Past, query=_RANGE),
    AdminRoute("GET", f"{_API}/nodes", "nodes", "read", current_figures.Nodes),
    AdminRoute("GET", f"{_API}/nodes/report", "weight_routes.report", "read", NodesReport, query=_OVER),
    AdminRoute("POST", f"{_API}/networks/{{network}}/weights", "weight_routes.apply", "change",
               settings.SettingsNow, WeightsRequest, conditional=True),
    AdminRoute("GET", f"{_API}/methods", "methods", "read", current_figures.Methods),
    AdminRoute("GET", f"{_API}/methods/history", "query_routes.method", "read", MethodPast, query=_METHOD),
    AdminRoute("GET", f"{_API}/methods/known", "change_routes.known_methods", "read", dict[str, list[str]]),
    AdminRoute("GET", f"{_API}/cache", "cache", "read", current_figures.Cache),
    AdminRoute("POST", f"{_API}/run", "query_routes.run", "change", Ran, CallRequest),
    AdminRoute("POST", f"{_API}/explain", "explain", "read", ExplainedCall, CallRequest),
    AdminRoute("POST", f"{_API}/purge", "purge", "change", Purged, PurgeRequest),
    AdminRoute("POST", f"{_API}/record", "record", "change", RecordedCalls, RecordRequest),
    AdminRoute("GET", f"{_API}/clients", "clients", "read", Clients),
    AdminRoute("GET", f"{_API}/clients/{{name}}", "client", "read", ClientDocument, query=_CLIENT_RANGE),
    AdminRoute("POST", f"{_API}/keys", "change_routes.key", "change", settings.NewKey),
    AdminRoute("GET", f"{_API}/errors", "errors", "read", ErrorsNow, query=_ERRORS),
    AdminRoute("GET", f"{_API}/errors/{{id}}", "error_group", "read", ErrorGroupOpened),
    AdminRoute("POST", f"{_API}/errors/try", "try_error", "read", Treatment, ErrorQuestion),
    AdminRoute("GET", f"{_API}/alerts", "alert_routes.show", "read", AlertsNow),
    AdminRoute("POST", f"{_API}/alerts/test", "alert_routes.test", "change", AlertTests, AlertTestRequest),
    AdminRoute("POST", f"{_API}/alerts/mutes", "alert_routes.mute", "change", AlertsNow, MuteRequest),
    AdminRoute("GET", f"{_API}/workers", "change_routes.workers", "read", settings.WorkerList),
    AdminRoute("GET", f"{_API}/hosts", "hosts", "read", HostsNow),
    AdminRoute("GET", f"{_API}/events", "change_routes.events", "read", content="text/event-stream", query=_LAST),
    AdminRoute("GET", f"{_API}/settings", "change_routes.settings", "read", settings.SettingsNow),
    AdminRoute("PATCH", f"{_API}/settings", "change_routes.patch", "change",
               (settings.SettingsNow, settings.Preview),
               settings.MergePatch, query=_DRY_RUN, conditional=True),
    AdminRoute("POST", f"{_API}/settings/undo", "change_routes.undo", "change", settings.SettingsNow,
               settings.UndoRequest,
               conditional=True),
    AdminRoute("GET", f"{_API}/settings/difference", "change_routes.difference", "read", settings.Difference),
    AdminRoute("GET", f"{_API}/settings/described", "change_routes.described", "read",
               settings.SettingsDescribed),
    AdminRoute("GET", f"{_API}/settings/export", "change_routes.export", "read", content="application/toml"),
    AdminRoute("GET", f"{_API}/changes", "change_routes.changes", "read", settings.Changes, query=_LIMIT),
    AdminRoute("POST", f"{_API}/reload", "change_routes.reload", "change", settings.SettingsNow),
    AdminRoute("POST", f"{_API}/nodes/{{network}}/{{id}}/probe", "change_routes.probe", "change",
               settings.ProbeOutcome),
    AdminRoute("POST", f"{_API}/nodes/{{network}}/{{id}}/prove", "change_routes.prove", "change", settings.ProofBegun),
    AdminRoute("POST", f"{_API}/nodes/test", "change_routes.test_node", "change", NodeTrial, settings.NodeTrialRequest),
    AdminRoute("GET", f"{_API}/session", "gate.show", "open", Session),
    AdminRoute("POST", f"{_API}/session", "gate.begin", "login", Session, LoginRequest),
    AdminRoute("DELETE", f"{_API}/session", "gate.end", "login", content=""),
    AdminRoute("GET", "/{file:[^/].*|}", "page", "open", content="text/html"),
)
# fmt: on
