"""The route table of the admin side: every path with its guard and the types of its request and answer; the headers of
every answer; and the description of the API, an OpenAPI 3.1 document that is derived from the table and its types.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

import rpcaccel
from rpcaccel.controlplane.admin import settings_api as settings
from rpcaccel.controlplane.admin.auth import COOKIE, PROOF, Guard, LoginRequest, Session
from rpcaccel.controlplane.admin.diagnostics import CallRequest, ExplainedCall, Ran
from rpcaccel.controlplane.admin.handling import Problem
from rpcaccel.controlplane.admin.weight_routes import WeightsRequest
from rpcaccel.controlplane.alerts.alerting import AlertsNow, AlertTestRequest, AlertTests
from rpcaccel.controlplane.alerts.mutes import MuteRequest
from rpcaccel.controlplane.documents import current_figures
from rpcaccel.controlplane.documents.client_figures import ClientDocument, Clients
from rpcaccel.controlplane.documents.error_documents import ErrorGroupOpened, ErrorQuestion, ErrorsNow, Treatment
from rpcaccel.controlplane.documents.node_report import NodesReport
from rpcaccel.controlplane.documents.series import MethodPast, Past
from rpcaccel.controlplane.hosts.host_book import HostsNow
from rpcaccel.controlplane.workers.operations import Purged, PurgeRequest, RecordedCalls, RecordRequest
from rpcaccel.core.heads.identity import NodesFound, NodeTrial

ANSWER_HEADERS = {
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


_PARAMETER = re.compile(r"\{(\w+)(?::[^}]*\|?)?\}")
_REFERENCE = "#/components/schemas/{name}"
_TEXT = {"type": "string"}
_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "required": True,
    "description": "The revision that the change is made for, as the ETag of the settings has it, or *.",
    "schema": {"type": "string", "examples": ['"17"', "*"]},
}
_PROOF = {
    "name": PROOF,
    "in": "header",
    "description": "Any text, where no token is sent: proof that no page elsewhere sends this. `page` and `cli` are "
    "audited.",
    "schema": _TEXT,
}


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
    operation: str = ""
    """Id in the description, by which generated clients name it; by its handler if empty."""


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
    AdminRoute("POST", f"{_API}/explain", "query_routes.explain", "read", ExplainedCall, CallRequest,
               operation="explain"),
    AdminRoute("POST", f"{_API}/purge", "query_routes.purge", "change", Purged, PurgeRequest,
               operation="purge"),
    AdminRoute("POST", f"{_API}/record", "query_routes.record", "change", RecordedCalls, RecordRequest,
               operation="record"),
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
    AdminRoute("GET", f"{_API}/events", "live_events.stream", "read", content="text/event-stream", query=_LAST,
               operation="change_routes_events"),
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
    AdminRoute("POST", f"{_API}/nodes/{{network}}/{{id}}/examine", "change_routes.examine", "change",
               settings.ExamineReply),
    AdminRoute("POST", f"{_API}/nodes/find", "change_routes.find_nodes", "change", NodesFound,
               settings.FindNodesRequest),
    AdminRoute("POST", f"{_API}/nodes/file", "change_routes.first_file", "change", settings.FirstFile,
               settings.MergePatch),
    AdminRoute("POST", f"{_API}/nodes/test", "change_routes.test_node", "change", NodeTrial, settings.NodeTrialRequest),
    AdminRoute("GET", f"{_API}/session", "session.show", "open", Session),
    AdminRoute("POST", f"{_API}/session", "session.begin", "login", Session, LoginRequest),
    AdminRoute("DELETE", f"{_API}/session", "session.end", "login", content=""),
    AdminRoute("GET", "/{file:[^/].*|}", "page", "open", content="text/html"),
)
# fmt: on


def describe(routes: Iterable[AdminRoute], handler_of: Callable[[str], Any]) -> dict[str, Any]:
    """The description of the API. `handler_of` returns the handler of a name; its docstring is the summary."""
    paths: dict[str, dict[str, Any]] = {}
    answers = [Problem, *(kind for route in routes for kind in _answers(route))]
    bodies = [route.body for route in routes if route.body is not None]
    answered, described = msgspec.json.schema_components(answers, ref_template=_REFERENCE)
    sent, defined = msgspec.json.schema_components(bodies, ref_template=_REFERENCE)
    sparse = {kind.__name__ for kind in Struct.__subclasses__() if kind.__struct_config__.omit_defaults}
    defined |= {name: schema if name in sparse else _complete(schema) for name, schema in described.items()}
    schema_of = dict(zip((*answers, *bodies), (*answered, *sent), strict=True))
    for route in routes:
        path = _PARAMETER.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, handler_of(route.handler), schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rpcaccel admin API",
            "version": "1",
            "summary": f"Served by rpcaccel {rpcaccel.__version__}; in words in docs/admin-api.md.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": paths,
        "components": {
            "schemas": defined,
            "securitySchemes": {
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
                "token": {"type": "http", "scheme": "bearer", "description": "NAME:PASSWORD of an account."},
            },
        },
    }


def _complete(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an answer whose defaults are sent: a member that has one is always there."""
    members = schema.get("properties", {})
    always = [name for name, member in members.items() if "default" in member or name in schema["required"]]
    told = {name: {word: said for word, said in one.items() if word != "default"} for name, one in members.items()}
    return {**schema, "properties": told, "required": always} if members else schema


def _operation(route: AdminRoute, handler: Any, schema_of: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    summary = (inspect.getdoc(handler) or "").partition("\n")[0]
    answer: dict[str, Any] = {"description": summary}
    if route.content:
        schemas = [schema_of[kind] for kind in _answers(route)]
        otherwise = {"type": "object"} if route.content.endswith("json") else _TEXT
        schema = {"anyOf": schemas} if len(schemas) > 1 else schemas[0] if schemas else otherwise
        answer["content"] = {route.content: {"schema": schema}}
    problem = {"application/problem+json": {"schema": schema_of[Problem]}}
    found: dict[str, Any] = {
        "operationId": route.operation or route.handler.replace(".", "_"),
        "summary": summary,
        "x-guard": route.guard,
        "security": [] if route.guard in ("open", "login") else [{"session": []}, {"token": []}, {}],
        "parameters": list(_parameters(route)),
        "responses": {
            "200" if route.content else "204": answer,
            "default": {"description": "A problem document (RFC 9457).", "content": problem},
        },
    }
    if route.method in ("POST", "PATCH"):
        body = {"schema": schema_of.get(route.body, {"type": "object"})}
        kinds = ("application/json", "application/merge-patch+json")[: 1 + (route.method == "PATCH")]
        found["requestBody"] = {"content": dict.fromkeys(kinds, body)}
    return found


def _answers(route: AdminRoute) -> tuple[Any, ...]:
    if isinstance(route.answer, tuple):
        return route.answer
    return () if route.answer is None else (route.answer,)


def _parameters(route: AdminRoute) -> Iterator[dict[str, Any]]:
    for name in _PARAMETER.findall(route.path):
        yield {"name": name, "in": "path", "required": True, "schema": _TEXT}
    for name, says in route.query.items():
        yield {"name": name, "in": "query", "description": says, "schema": _TEXT}
    if route.conditional:
        yield _IF_MATCH
    if route.guard in ("login", "change"):
        yield _PROOF
