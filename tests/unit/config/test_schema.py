"""The JSON schema of the file."""

from __future__ import annotations

import re
import tomllib

import pytest
from jsonschema import Draft202012Validator

from rpcaccel.config.schema import schema
from tests.support.services import ROOT

EXAMPLES = [
    (ROOT / "docs" / "rpcaccel.toml").read_text(),
    *re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / "configure.md").read_text(), re.M | re.S),
]


def test_sizes_may_be_texts_and_nodes_may_be_one_text() -> None:
    definitions = schema()["$defs"]
    kinds = set(definitions["MemorySettings"]["properties"]["size"]["type"])
    assert kinds == {"integer", "string"}
    assert [kind["type"] for kind in definitions["NodeSettings"]["anyOf"]] == ["string", "object"]


@pytest.mark.parametrize("text", EXAMPLES)
def test_a_file_that_holds_references_fits_the_schema_as_it_is_written(text: str) -> None:
    faults = Draft202012Validator(schema()).iter_errors(tomllib.loads(text))
    assert [f"{fault.json_path}: {fault.message}" for fault in faults] == []


@pytest.mark.parametrize("line", ['memory.size = "many"', "memory.sise = 1", 'redis.url = "ftp://a"', "workers = 0"])
def test_what_is_wrong_does_not_fit_the_schema(line: str) -> None:
    document = tomllib.loads(f'{line}\n[networks.a]\nnodes = ["http://a"]')
    assert not Draft202012Validator(schema()).is_valid(document)
