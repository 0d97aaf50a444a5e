"""Settings as a document, and back."""

from __future__ import annotations

import json

from rpcaccel.config.model import Settings
from rpcaccel.config.patch import to_document
from rpcaccel.config.validate import validate

DOCUMENT = {
    "redis": {"url": "redis://:hunter2@cache/1", "replicas": ["redis://:hunter2@replica"]},
    "http": {"deny": ["debug_*"]},
    "networks": {
        "harmony-s0": {
            "nodes": [
                {"url": "https://u:hunter2@a/hunter2", "headers": {"X-Key": "hunter2"}, "roles": ["archive"]},
                "https://b,weight=2",
            ]
        }
    },
}


def test_a_revealed_document_makes_the_same_settings_again() -> None:
    settings = Settings.model_validate(DOCUMENT)
    document = json.loads(json.dumps(to_document(settings, reveal=True)))
    assert validate(document) == settings


def test_a_document_for_showing_holds_no_secret() -> None:
    settings = Settings.model_validate(DOCUMENT)
    shown = to_document(settings)
    assert "hunter2" not in json.dumps(shown)
    assert shown["networks"]["harmony-s0"]["nodes"][0]["url"] == "https://a"
    for text in (str(settings), repr(settings), settings.model_dump_json(), str(settings.model_dump())):
        assert "hunter2" not in text
