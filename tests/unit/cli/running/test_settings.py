"""The settings of a running proxy from the command line."""

from __future__ import annotations

import json
import tomllib

import pytest
import typer

from rpcaccel.cli.running.settings import parse
from tests.support.sample_control import SampleControl
from tests.unit.cli.conftest import Ask


@pytest.mark.parametrize(
    ("text", "patch"),
    [
        ("workers=2", {"workers": 2}),
        ("memory.size=512MB", {"memory": {"size": "512MB"}}),
        ('networks.x.nodes."a:9500".drain = true', {"networks": {"x": {"nodes": {"a:9500": {"drain": True}}}}}),
        ('http.deny=["debug_*"]', {"http": {"deny": ["debug_*"]}}),
        ("networks.x.nodes={c={url='http://c'}}", {"networks": {"x": {"nodes": {"c": {"url": "http://c"}}}}}),
        ("log.level=", {"log": {"level": None}}),
        ('networks.x.nodes."a=b".weight=1', {"networks": {"x": {"nodes": {"a=b": {"weight": 1}}}}}),
        ("networks.x.nodes.a.url=http://a/?k=v", {"networks": {"x": {"nodes": {"a": {"url": "http://a/?k=v"}}}}}),
    ],
)  # fmt: skip
def test_a_change_is_written_as_in_the_config_file(text: str, patch: object) -> None:
    assert parse(text) == patch


@pytest.mark.parametrize("text", ["workers", "=2", "a b=2", ""])
def test_what_is_no_change_is_said(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="PATH=VALUE"):
        parse(text)


@pytest.mark.parametrize("text", ["a.b=nan", "a.b=[1, inf]", "a.b=2026-01-01", "a={b=12:30:00}"])
def test_a_value_that_no_setting_has_is_said_before_anything_is_asked(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="found a date, a time or no finite number in 'a"):
        parse(text)


async def test_settings_are_shown_whole_or_in_part(ask: Ask) -> None:
    whole = json.loads((await ask("settings", "get")).out)
    assert whole["networks"]["harmony-s0"]["nodes"]["a"]["url"] == "https://a.example"
    assert json.loads((await ask("settings", "get", 'networks.harmony-s0.nodes."b".weight')).out) == 1
    for path in ("no.such", "memory.size.more", "a b"):
        assert (await ask("settings", "get", path)).err == f"rpcaccel: there is no setting {path}\n"


async def test_changes_are_made_together_and_undone(ask: Ask, control: SampleControl) -> None:
    said = await ask("settings", "set", "memory.size=64MB", "memory.max_entry=1MB", "listen=127.0.0.1:1")
    assert said.out.startswith(
        'revision 2: listen: "127.0.0.1:8888" -> "127.0.0.1:1"; memory.size: 256000000 -> 64000000'
    )
    assert "waits for a restart: listen" in said.out
    assert (control.ledger.settings.memory.size, control.ledger.settings.memory.max_entry) == (64_000_000, 1_000_000)
    difference = json.loads((await ask("settings", "get", "--difference")).out)
    assert len(difference) == 3
    memory = json.loads((await ask("settings", "get", "memory", "--difference")).out)
    assert [edit["path"] for edit in memory] == ["memory.size", "memory.max_entry"]
    assert json.loads((await ask("settings", "get", "mem", "--difference")).out) == []
    assert (await ask("settings", "set", "memory.size=")).out.startswith(
        "revision 3: memory.size: 64000000 -> 256000000"
    )
    assert (await ask("settings", "undo")).out.startswith("revision 4: memory.size")
    assert (await ask("settings", "undo", "--to", "1")).out.startswith("revision 5")
    assert control.ledger.overlay() == {}
    assert (await ask("settings", "undo", "--to", "99")).err == "rpcaccel: that revision is not kept\n"


async def test_a_dry_run_changes_nothing_and_a_wrong_value_names_its_place(ask: Ask, control: SampleControl) -> None:
    said = await ask("settings", "set", "workers=3", "--dry-run")
    assert json.loads(said.out) == [{"path": "workers", "before": 1, "after": 3}]
    said = await ask("settings", "set", "workers=0")
    assert (said.code, said.err) == (1, "rpcaccel: workers: found 0, expected at least 1\n")
    assert control.ledger.revision == 1


async def test_the_export_is_a_config_file(ask: Ask) -> None:
    assert "harmony-s0" in tomllib.loads((await ask("settings", "export")).out)["networks"]


async def test_the_changes_of_the_settings_are_listed_newest_first(ask: Ask) -> None:
    await ask("weight", "b", "4")
    await ask("weight", "b", "2")
    lines = (await ask("settings", "history")).out.splitlines()
    assert [line.split()[0] for line in lines] == ["3", "2", "1"]
    assert "(cli)  networks.harmony-s0.nodes.b.weight: 4 -> 2" in lines[0]
    assert len(json.loads((await ask("settings", "history", "-n", "1", "--json")).out)["changes"]) == 1
