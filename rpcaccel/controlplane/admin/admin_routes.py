"""The route table of the admin side: every path with its guard and the types of its request and answer; the headers of
every answer; and the port to what the supervisor does for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from rpcaccel.config.model import NodeSettings
from rpcaccel.controlplane.admin import api_types as types
from rpcaccel.controlplane.admin import settings_types
from rpcaccel.controlplane.admin.auth import Guard, LoginRequest
from rpcaccel.controlplane.admin.diagnostics import CallRequest
from rpcaccel.controlplane.alerts.alerting import Alerting, AlertsNow, AlertTestRequest, AlertTests
from rpcaccel.controlplane.alerts.mutes import MuteRequest
from rpcaccel.controlplane.settings.ledger import Ledger
from rpcaccel.controlplane.stats.error_documents import ErrorGroupOpened, ErrorsNow
from rpcaccel.controlplane.stats.events import Events
from rpcaccel.controlplane.stats.host_book import HostsNow
from rpcaccel.controlplane.stats.node_errors import ErrorQuestion
from rpcaccel.controlplane.stats.node_report import NodesReport
from rpcaccel.controlplane.stats.series import MethodPast, Past
from rpcaccel.controlplane.workers.operations import PurgeRequest, RecordRequest
from rpcaccel.core.agreement.cases import Case
from rpcaccel.core.heads.node_trial import NodeTrial
from rpcaccel.core.heads.served_head import NodeHead
from rpcaccel.core.stats.error_log import ErrorLog

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
    AdminRoute("GET", f"{_API}/overview", "overview", "read", types.Overview),
    AdminRoute("GET", f"{_API}/history", "query_routes.past", "read", Past, query=_RANGE),
    AdminRoute("GET", f"{_API}/nodes", "nodes", "read", types.Nodes),
    AdminRoute("GET", f"{_API}/nodes/report", "weight_routes.report", "read", NodesReport, query=_OVER),
    AdminRoute("POST", f"{_API}/networks/{{network}}/weights", "weight_routes.apply", "change",
               settings_types.SettingsNow, settings_types.WeightsRequest, conditional=True),
    AdminRoute("GET", f"{_API}/methods", "methods", "read", types.Methods),
    AdminRoute("GET", f"{_API}/methods/history", "query_routes.method", "read", MethodPast, query=_METHOD),
    AdminRoute("GET", f"{_API}/methods/known", "change_routes.known_methods", "read", dict[str, list[str]]),
    AdminRoute("GET", f"{_API}/cache", "cache", "read", types.Cache),
    AdminRoute("POST", f"{_API}/run", "query_routes.run", "change", types.Ran, CallRequest),
    AdminRoute("POST", f"{_API}/explain", "explain", "read", types.ExplainedCall, CallRequest),
    AdminRoute("POST", f"{_API}/purge", "purge", "change", types.Purged, PurgeRequest),
    AdminRoute("POST", f"{_API}/record", "record", "change", types.RecordedCalls, RecordRequest),
    AdminRoute("GET", f"{_API}/clients", "clients", "read", types.Clients),
    AdminRoute("GET", f"{_API}/clients/{{name}}", "client", "read", types.ClientDocument, query=_CLIENT_RANGE),
    AdminRoute("POST", f"{_API}/keys", "change_routes.key", "change", types.NewKey),
    AdminRoute("GET", f"{_API}/errors", "errors", "read", ErrorsNow, query=_ERRORS),
    AdminRoute("GET", f"{_API}/errors/{{id}}", "error_group", "read", ErrorGroupOpened),
    AdminRoute("POST", f"{_API}/errors/try", "try_error", "read", types.Treatment, ErrorQuestion),
    AdminRoute("GET", f"{_API}/alerts", "alert_routes.show", "read", AlertsNow),
    AdminRoute("POST", f"{_API}/alerts/test", "alert_routes.test", "change", AlertTests, AlertTestRequest),
    AdminRoute("POST", f"{_API}/alerts/mutes", "alert_routes.mute", "change", AlertsNow, MuteRequest),
    AdminRoute("GET", f"{_API}/workers", "change_routes.workers", "read", types.WorkerList),
    AdminRoute("GET", f"{_API}/hosts", "hosts", "read", HostsNow),
    AdminRoute("GET", f"{_API}/events", "change_routes.events", "read", content="text/event-stream", query=_LAST),
    AdminRoute("GET", f"{_API}/settings", "change_routes.settings", "read", settings_types.SettingsNow),
    AdminRoute("PATCH", f"{_API}/settings", "change_routes.patch", "change",
               (settings_types.SettingsNow, settings_types.Preview),
               settings_types.MergePatch, query=_DRY_RUN, conditional=True),
    AdminRoute("POST", f"{_API}/settings/undo", "change_routes.undo", "change", settings_types.SettingsNow,
               settings_types.UndoRequest,
               conditional=True),
    AdminRoute("GET", f"{_API}/settings/difference", "change_routes.difference", "read", settings_types.Difference),
    AdminRoute("GET", f"{_API}/settings/described", "change_routes.described", "read",
               settings_types.SettingsDescribed),
    AdminRoute("GET", f"{_API}/settings/export", "change_routes.export", "read", content="application/toml"),
    AdminRoute("GET", f"{_API}/changes", "change_routes.changes", "read", settings_types.Changes, query=_LIMIT),
    AdminRoute("POST", f"{_API}/reload", "change_routes.reload", "change", settings_types.SettingsNow),
    AdminRoute("POST", f"{_API}/nodes/{{network}}/{{id}}/probe", "change_routes.probe", "change", types.ProbeOutcome),
    AdminRoute("POST", f"{_API}/nodes/{{network}}/{{id}}/prove", "change_routes.prove", "change", types.ProofBegun),
    AdminRoute("POST", f"{_API}/nodes/test", "change_routes.test_node", "change", NodeTrial, types.NodeTrialRequest),
    AdminRoute("GET", f"{_API}/session", "session.show", "open", types.Session),
    AdminRoute("POST", f"{_API}/session", "session.begin", "login", types.Session, LoginRequest),
    AdminRoute("DELETE", f"{_API}/session", "session.end", "login", content=""),
    AdminRoute("GET", "/{file:[^/].*|}", "page", "open", content="text/html"),
)
# fmt: on


class Control(Protocol):
    """The part of the supervisor that the admin side uses beside the view."""

    ledger: Ledger
    events: Events
    errors: ErrorLog
    alerts: Alerting

    @property
    def cases(self) -> Iterable[Case]:
        """The cases of disagreement that are kept, the newest first."""
        ...

    def workers(self) -> Sequence[dict[str, Any]]:
        """The workers with their states, draining ones included."""
        ...

    def adopted(self) -> int:
        """The number of workers that run the revision in force."""
        ...

    @property
    def replaced(self) -> int:
        """Workers that died and were replaced since the start."""
        ...

    def shared(self) -> dict[str, Any] | None:
        """The state of the sharing with other hosts; None when nothing is shared."""
        ...

    def hosts(self) -> HostsNow:
        """The hosts that share a Redis with this one, as they are known."""
        ...

    async def purged(self, body: bytes, *, complete: bool = True) -> None:
        """Send a purge that was carried out here to the other hosts. One that is not `complete` here is repeated."""
        ...

    async def probe(self, network: str, node: str) -> NodeHead | None:
        """Probe a node at once; None when there is no such node."""
        ...

    def prove(self, network: str, node: str) -> NodeHead | None:
        """Begin to prove a node; returns what is known of it until then, and None when there is no such node."""
        ...

    async def try_node(self, network: str, node: NodeSettings) -> NodeTrial | None:
        """Probe a node that is not in the settings; None when there is no such network."""
        ...
