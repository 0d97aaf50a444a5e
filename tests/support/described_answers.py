"""Answers of the admin API held against its own description of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from jsonschema import Draft202012Validator


def sent(document: Any) -> Any:
    """A document as it comes to a client."""
    return msgspec.json.decode(msgspec.json.encode(document))


def problems(description: Mapping[str, Any], method: str, path: str, answer: Any) -> list[str]:
    """What an answer says otherwise than the description: wrong, missing, and members that are not described."""
    (content,) = description["paths"][path][method.lower()]["responses"]["200"]["content"].values()
    components = {name: _closed(part) for name, part in description["components"]["schemas"].items()}
    schema = {**content["schema"], "components": {"schemas": components}}
    found = Draft202012Validator(schema).iter_errors(answer)
    return [f"{method} {path} {error.json_path}: {error.message[:200]}" for error in found]


def named(description: Mapping[str, Any], method: str, path: str) -> bool:
    """Whether the members of an answer are described at all."""
    (content,) = description["paths"][path][method.lower()]["responses"]["200"]["content"].values()
    return content["schema"] not in ({"type": "object"}, {})


def _closed(schema: Any) -> Any:
    """The schema, with no other members than those it names. "New ones may be added", but not without a word."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _closed(part) for key, part in schema.items()}
    if "properties" in schema and "allOf" not in schema and schema.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made
