"""The reference of the settings is what the model gives, and its examples are valid."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from rpcaccel import balancers, chains
from rpcaccel.cli.main import run
from rpcaccel.config.errors import dotted
from rpcaccel.config.load import load_told
from rpcaccel.config.model import Settings
from rpcaccel.config.sections import Section
from rpcaccel.controlplane.settings.ledger import OF_A_WORKER, OF_THE_PROGRAM
from tests.support.services import ROOT

PAGE = (ROOT / "docs" / "settings.md").read_text()
ROWS = {row[0].strip("`"): row for row in (line[2:-2].split(" | ") for line in re.findall(r"^\| `.*$", PAGE, re.M))}
TITLES = re.findall(r"^## `?([^`\n]+)`?$", PAGE, re.M)
BLOCKS = dict(zip(TITLES, re.findall(r"^```toml\n(.*?)```", PAGE, re.M | re.S), strict=True))
NODES = {"RPCACCEL_NETWORKS__HARMONY_S0__NODES": "http://a,id=own http://b,id=other"}
"""The nodes of blocks that show none."""


def keys(model: type[Section], above: str = "") -> Iterator[str]:
    """The path of every key of the model that is a value, or holds tables by name or in a list."""
    for name, field in model.model_fields.items():
        annotation: Any = field.annotation
        several = not isinstance(annotation, type)
        while (parts := [part for part in get_args(annotation) if part is not Ellipsis]) and parts[-1] is not type(
            None
        ):
            annotation = parts[-1]
        is_table = isinstance(annotation, type) and issubclass(annotation, Section)
        if several or not is_table:
            yield f"{above}{name}"
        if is_table:
            yield from keys(annotation, f"{above}{name}.*." if several else f"{above}{name}.")


def test_the_page_is_what_the_model_gives(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--reference"]) == 0
    if capsys.readouterr().out != PAGE:
        pytest.fail("docs/settings.md is not what the model gives; run: make reference", pytrace=False)


def test_every_key_has_one_row_and_no_other_row_is_there() -> None:
    assert sorted(ROWS) == sorted(keys(Settings))
    assert len(ROWS) == len(re.findall(r"^\| `", PAGE, re.M))
    assert [row for row in ROWS.values() if len(row) != 6 or not all(row)] == []


@pytest.mark.parametrize("title", TITLES)
def test_a_block_is_a_valid_part_of_a_file_with_every_key_of_its_table(title: str, tmp_path: Path) -> None:
    file = tmp_path / "block.toml"
    file.write_text(BLOCKS[title])
    assert load_told(file, environ={} if "nodes = " in BLOCKS[title] else NODES).settings.networks
    above = "" if title == "The program" else f"{title}."
    own = [path.removeprefix(above) for path in ROWS if path.startswith(above) and "." not in path.removeprefix(above)]
    shown = re.findall(r"^(\w+) = ", re.split(r"^\[.*\]$", BLOCKS[title], flags=re.M)[-1], re.M)
    tables = [path for path in own if f"{above}{path}.*" in TITLES and path not in shown]
    assert shown == [path for path in own if path not in tables]


@pytest.mark.parametrize("title", [title for title in TITLES if "# in the environment" in BLOCKS[title]])
def test_the_variable_that_a_block_names_sets_the_key_of_its_table(title: str, tmp_path: Path) -> None:
    block = BLOCKS[title]
    found = re.match(r"# in the environment: (\w+)=(.*)", block)
    assert found is not None
    file = tmp_path / "block.toml"
    file.write_text(block)
    value = tomllib.loads(f"value = {found[2]}")["value"]
    nodes = {} if "nodes" in block else NODES
    told = load_told(
        file, environ={**nodes, found[1]: str(value).lower() if isinstance(value, bool) else str(value)}
    ).told
    path = next(path for path, source in told.items() if source == found[1])
    table, _, key = re.sub(r"\[(\d+)\]", r".\1", dotted(path)).rpartition(".")
    above = "" if title == "The program" else title
    assert re.fullmatch(re.escape(above).replace(r"\*", "[^.]+"), table)
    assert f"{above}.{key}".strip(".") in ROWS


def test_what_waits_for_new_workers_or_a_restart_is_what_the_ledger_says() -> None:
    for words, paths in (("restart", OF_THE_PROGRAM), ("new workers", OF_A_WORKER)):
        said = {key for key, row in ROWS.items() if row[3] == words}
        assert said == {key for key in ROWS for path in paths if f"{key}.".startswith(f"{path}.")}
    assert {row[3] for row in ROWS.values()} == {"at once", "new workers", "restart"}


def test_every_chain_and_every_balancer_is_named() -> None:
    assert re.findall(r'"(\w+)"', ROWS["networks.*.chain"][1]) == list(chains.names())
    assert re.findall(r'"(\w+)"', ROWS["networks.*.balancer"][1]) == list(balancers.names())


def test_secrets_are_told_apart() -> None:
    secret = {key for key, row in ROWS.items() if "secret" in row[1]}
    node = "networks.*.nodes.*"
    urls = {f"{node}.url", f"{node}.ws", f"{node}.headers", "redis.url", "redis.replicas"}
    webhook = {"alerts.webhooks.*.url", "alerts.webhooks.*.headers"}
    assert secret == urls | webhook | {"admin.accounts.*.password"}
