"""The JSON schema of the file."""

from __future__ import annotations

from rpcaccel.config.schema import schema


def test_the_schema_describes_every_key_and_allows_no_other() -> None:
    made = schema()
    assert made["required"] == ["networks"]
    assert made["additionalProperties"] is False
    assert all("description" in field for field in made["properties"].values())
    assert set(made["$defs"]) >= {"NetworkSettings", "NodeSettings", "HttpSettings"}


def test_sizes_may_be_texts_and_nodes_may_be_one_text() -> None:
    definitions = schema()["$defs"]
    kinds = set(definitions["MemorySettings"]["properties"]["size"]["type"])
    assert kinds == {"integer", "string"}
    assert [kind["type"] for kind in definitions["NodeSettings"]["anyOf"]] == ["string", "object"]
