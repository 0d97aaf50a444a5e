"""Settings as a document: the shape of the TOML file, made of dicts, lists, texts and numbers."""

from __future__ import annotations

from typing import Any

from rpcaccel.config.address import REVEAL
from rpcaccel.config.model import Settings


def to_document(settings: Settings, *, reveal: bool = False) -> dict[str, Any]:
    """Every key with its value. Secrets are hidden unless `reveal`, for what is stored or sent to a worker."""
    document: dict[str, Any] = settings.model_dump(mode="json", context=REVEAL if reveal else None)
    return document


def to_table(settings: Settings, *, reveal: bool = False) -> dict[str, Any]:
    """As `to_document`, with each network's nodes as a table by id: the shape that a change has."""
    document = to_document(settings, reveal=reveal)
    for network in document["networks"].values():
        network["nodes"] = {node["id"]: node for node in network["nodes"]}
    return document
