"""The admin API described: an OpenAPI 3.1 document made from the route table, so that it names every route there is."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

import rpcaccel
from rpcaccel.config.schema import schema as config_schema
from rpcaccel.controlplane.admin import api_types
from rpcaccel.controlplane.admin.admin_routes import AdminRoute
from rpcaccel.controlplane.admin.auth import COOKIE, PROOF
from rpcaccel.controlplane.admin.clients import Clients
from rpcaccel.controlplane.admin.diagnostics import ExplainRequest, Trial
from rpcaccel.controlplane.admin.problems import TITLES
from rpcaccel.controlplane.settings.audit import Change
from rpcaccel.controlplane.stats.node_errors import ErrorQuestion
from rpcaccel.controlplane.stats.series import MethodPast, Past
from rpcaccel.controlplane.workers.operations import PurgeRequest, RecordRequest

_OBJECT: dict[str, Any] = {"type": "object"}
_PARAMETER = re.compile(r"\{(\w+)(?::[^}]*\|?)?\}")
_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "required": True,
    "description": "The revision that the change is made for, as the ETag of the settings has it, or *.",
    "schema": {"type": "string", "examples": ['"17"', "*"]},
}
_BODIES: dict[str, dict[str, Any]] = {
    "change_routes.patch": {
        "type": "object",
        "description": "A JSON merge patch (RFC 7396) of the settings, with each network's nodes as a table by id; "
        "null removes a node and puts a setting back to its default.",
    },
    "change_routes.undo": {
        "type": "object",
        "properties": {"to": {"type": ["integer", "null"], "description": "A revision; the last one if unset."}},
    },
    "session.begin": {
        "type": "object",
        "properties": {"user": {"type": "string"}, "password": {"type": "string", "format": "password"}},
        "required": ["user", "password"],
    },
}
_STRUCTS: dict[str, type[Struct]] = {
    "purge": PurgeRequest,
    "record": RecordRequest,
    "explain": ExplainRequest,
    "query_routes.run": Trial,
    "try_error": ErrorQuestion,
}
"""Bodies as they are read."""
_TOLD: dict[str, type] = {
    "overview": api_types.Overview,
    "nodes": api_types.Nodes,
    "methods": api_types.Methods,
    "cache": api_types.Cache,
    "query_routes.past": Past,
    "query_routes.method": MethodPast,
    "clients": Clients,
    "query_routes.run": api_types.Ran,
    "explain": api_types.ExplainedCall,
    "purge": api_types.Purged,
    "record": api_types.RecordedCalls,
    "errors": api_types.UnclassedErrors,
    "try_error": api_types.Treatment,
    "change_routes.key": api_types.NewKey,
    "change_routes.workers": api_types.WorkerList,
    "change_routes.difference": api_types.Difference,
    "change_routes.described": api_types.SettingsDescribed,
    "change_routes.probe": api_types.ProbeOutcome,
    "session.show": api_types.Session,
    "session.begin": api_types.Session,
}
"""Answers as they are made, or held against by tests."""
_ANSWERS: dict[str, str] = {
    **{handler: told.__name__ for handler, told in _TOLD.items()},
    "change_routes.settings": "Settings",
    "change_routes.patch": "Settings",
    "change_routes.undo": "Settings",
    "change_routes.reload": "Settings",
    "change_routes.changes": "Changes",
}
_TYPES = {
    "healthz": "text/plain",
    "metrics": "text/plain",
    "change_routes.export": "application/toml",
    "change_routes.events": "text/event-stream",
    "page": "text/html",
}
_QUERIES: dict[str, list[tuple[str, str, str]]] = {
    "change_routes.patch": [("dry_run", "integer", "1: say what would change, and change nothing.")],
    "change_routes.changes": [("limit", "integer", "Lines at the most.")],
    "query_routes.past": [("range", "string", "5m, 1h or 24h.")],
    "query_routes.method": [("network", "string", "The network."), ("method", "string", "The method.")],
    "change_routes.events": [("last", "string", "The id of the last event seen, where Last-Event-ID cannot be sent.")],
}
_WITH_REVISION = ("change_routes.patch", "change_routes.undo")


def describe(routes: Iterable[AdminRoute], handler_of: Callable[[str], Any]) -> dict[str, Any]:
    """The document; `handler_of` gives the handler of a name, whose docstring says what it does."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = _PARAMETER.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, handler_of(route.handler))
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
            "schemas": _schemas(),
            "securitySchemes": {
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
                "token": {"type": "http", "scheme": "bearer", "description": "NAME:PASSWORD of an account."},
            },
        },
    }


def _operation(route: AdminRoute, handler: Any) -> dict[str, Any]:
    summary = (inspect.getdoc(handler) or "").partition("\n")[0]
    answer: dict[str, Any] = {"description": summary}
    if route.handler != "session.end":
        kind = _TYPES.get(route.handler, "application/json")
        named = _ANSWERS.get(route.handler)
        schema = _to(named) if named else _OBJECT if kind.endswith("json") else {}
        if route.handler == "change_routes.patch":
            schema = {"anyOf": [schema, _to(api_types.Preview.__name__)]}
        answer["content"] = {kind: {"schema": schema or {"type": "string"}}}
    found: dict[str, Any] = {
        "operationId": route.handler.replace(".", "_"),
        "summary": summary,
        "x-guard": route.guard,
        "security": [] if route.guard in ("open", "login") else [{"session": []}, {"token": []}, {}],
        "responses": {
            "204" if route.handler == "session.end" else "200": answer,
            "default": {
                "description": "A problem document (RFC 9457).",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    }
    if parameters := _parameters(route):
        found["parameters"] = parameters
    if route.method in ("POST", "PATCH"):
        struct = _STRUCTS.get(route.handler)
        body = _to(struct.__name__) if struct else _BODIES.get(route.handler, _OBJECT)
        content = {"application/json": {"schema": body}}
        if route.method == "PATCH":
            content["application/merge-patch+json"] = content["application/json"]
        found["requestBody"] = {"content": content}
    return found


def _parameters(route: AdminRoute) -> list[dict[str, Any]]:
    text = {"type": "string"}
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": text} for name in _PARAMETER.findall(route.path)
    ]
    for name, kind, says in _QUERIES.get(route.handler, ()):
        found.append({"name": name, "in": "query", "description": says, "schema": {"type": kind}})
    if route.handler in _WITH_REVISION:
        found.append(_IF_MATCH)
    if route.guard in ("login", "change"):
        says = (
            "Any text, where no token is sent: proof that no page elsewhere sends this. `page` and `cli` are audited."
        )
        found.append({"name": PROOF, "in": "header", "description": says, "schema": text})
    return found


def _schemas() -> dict[str, Any]:
    (reference, *_), defined = msgspec.json.schema_components(
        [Change, *_STRUCTS.values(), *_TOLD.values(), api_types.Preview], ref_template="#/components/schemas/{name}"
    )
    line = {"allOf": [reference], "properties": {"undo": {"type": "boolean"}}}
    file = config_schema()
    del file["$schema"]
    parts = {f"Config{name}": part for name, part in file.pop("$defs").items()}
    renamed: dict[str, Any] = _renamed({"ConfigFile": file, **parts})
    return {
        **defined,
        **renamed,
        "ChangeLine": line,
        "Changes": {"type": "object", "properties": {"changes": {"type": "array", "items": _to("ChangeLine")}}},
        "Settings": _settings(),
        "Problem": {
            "type": "object",
            "properties": {
                "type": {"type": "string"},
                "title": {"type": "string"},
                "status": {"type": "integer"},
                "code": {"type": "string", "examples": sorted(TITLES)},
                "detail": {"type": "string"},
                "errors": {"type": "array", "items": _OBJECT},
            },
            "required": ["type", "title", "status"],
        },
    }


def _settings() -> dict[str, Any]:
    texts = {"type": "array", "items": {"type": "string"}}
    worker = {"type": "object", "properties": {"id": {"type": "string"}, "revision": {"type": "integer"}}}
    always = {
        "revision": {"type": "integer"},
        "document": {"type": "object", "description": "As ConfigFile, but nodes as a table by id."},
        "workers": {"type": "array", "items": worker},
        "adopted": {"type": "integer", "description": "Workers that run this revision."},
        "restart": texts,
        "waiting": texts,
        "persisted": {"type": ["string", "null"]},
        "note": {"type": "string"},
        "shared": {"type": ["object", "null"], "description": "How it goes with the hosts of one Redis."},
        "undo": {"type": ["integer", "null"]},
    }
    change = {"anyOf": [_to("ChangeLine"), {"type": "null"}]}
    return {"type": "object", "properties": {**always, "change": change}, "required": list(always)}


def _to(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _renamed(schema: Any) -> Any:
    """The config's schema with its references pointing to where its parts are in this document."""
    if isinstance(schema, dict):
        return {
            key: value.replace("#/$defs/", "#/components/schemas/Config") if key == "$ref" else _renamed(value)
            for key, value in schema.items()
        }
    return [_renamed(part) for part in schema] if isinstance(schema, list) else schema
