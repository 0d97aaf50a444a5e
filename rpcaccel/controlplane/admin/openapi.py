"""The description of the admin API: an OpenAPI 3.1 document derived from the route table and its types."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

import rpcaccel
from rpcaccel.controlplane.admin.admin_routes import AdminRoute
from rpcaccel.controlplane.admin.auth import COOKIE, PROOF
from rpcaccel.controlplane.admin.handling import Problem

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


def describe(routes: Iterable[AdminRoute], handler_of: Callable[[str], Any]) -> dict[str, Any]:
    """The document. `handler_of` returns the handler of a name; its docstring is the summary."""
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
        "operationId": route.handler.replace(".", "_"),
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
