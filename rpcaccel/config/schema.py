"""The JSON schema of the configuration file, for editors and for programs that write it."""

from __future__ import annotations

from typing import Any

from rpcaccel.config.model import Settings
from rpcaccel.config.naming import NODE_TEXT


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the document that `config.load` reads."""
    made: dict[str, Any] = Settings.model_json_schema(mode="validation")
    tables = made["$defs"]
    text = {"type": "string", "description": f"{NODE_TEXT}, all in one text."}
    tables["NodeSettings"] = {"anyOf": [text, {**tables["NodeSettings"], "required": ["url"]}]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": "rpcaccel configuration"}
