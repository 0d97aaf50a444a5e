"""The reference of the settings is what the model gives, and its examples are valid."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from rpcaccel import balancers, chains
from rpcaccel.cli.main import run
from rpcaccel.config.model import Settings
from rpcaccel.config.sections import Section
from rpcaccel.config.validate import validate
from rpcaccel.controlplane.settings.ledger import OF_A_WORKER, OF_THE_PROGRAM
from tests.support.services import ROOT

PAGE = (ROOT / "docs" / "settings.md").read_text()
ROWS = {row[0].strip("`"): row for row in (line[2:-2].split(" | ") for line in re.findall(r"^\| `.*$", PAGE, re.M))}
TITLES = re.findall(r"^## `?([^`\n]+)`?$", PAGE, re.M)
EXAMPLE = re.compile(r"`([^`]*)`$")
"""What a file may hold, at the end of the cell of the default."""
LISTS = {"nodes", "routes", "error_rules"}
NODES = [{"url": "http://a", "id": "own", "tags": ["archive"]}, {"url": "http://b", "id": "other"}]


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
    assert [row for row in ROWS.values() if len(row) != 4 or not all(row)] == []


def filled(title: str) -> dict[str, Any]:
    """A document in which the table under a heading has the example, or the default, of each of its keys."""
    above = "" if title == "The program" else f"{title}."
    keys = [path.removeprefix(above) for path in ROWS if path.startswith(above)]
    shown = {key: EXAMPLE.search(ROWS[above + key][2]) for key in keys if "." not in key}
    text = "\n".join(f"{key} = {found[1]}" for key, found in shown.items() if found is not None)
    document = tomllib.loads(re.sub(r"\$\{\w+:-(.*?)\}", r"\1", text))
    parts = above.split(".")[:-1]
    while parts:
        last = parts.pop()
        name = parts.pop() if last == "*" else last
        key = "eth_getLogs" if name == "rules" else "harmony-s0"
        if name == "routes":
            document["broadcast"] = False  # a fallback goes with that alone
        document = {name: document if last != "*" else [document] if name in LISTS else {key: document}}
        if name == "quota":
            document["url"] = "http://a"
    document.setdefault("networks", {}).setdefault("harmony-s0", {}).setdefault("nodes", NODES)
    return document


@pytest.mark.parametrize("title", TITLES)
def test_what_a_table_shows_as_defaults_and_examples_is_valid_together(title: str) -> None:
    faults = validate(filled(title))
    assert isinstance(faults, Settings), faults


def test_what_waits_for_new_workers_or_a_restart_is_what_the_ledger_says() -> None:
    for word, paths in (("*Restart.*", OF_THE_PROGRAM), ("*New workers.*", OF_A_WORKER)):
        said = {key for key, row in ROWS.items() if word in row[3]}
        assert said == {key for key in ROWS for path in paths if f"{key}.".startswith(f"{path}.")}


def test_every_chain_and_every_balancer_is_named() -> None:
    assert re.findall(r'"(\w+)"', ROWS["networks.*.chain"][1]) == list(chains.names())
    assert re.findall(r'"(\w+)"', ROWS["networks.*.balancer"][1]) == list(balancers.names())


def test_secrets_are_told_apart() -> None:
    secret = {key for key, row in ROWS.items() if "secret" in row[1]}
    node = "networks.*.nodes.*"
    urls = {f"{node}.url", f"{node}.ws", f"{node}.headers", "redis.url", "redis.replicas"}
    webhook = {"alerts.webhooks.*.url", "alerts.webhooks.*.headers"}
    assert secret == urls | webhook | {"admin.accounts.*.password"}
