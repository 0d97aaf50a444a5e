"""What the documents show can be copied: the example configuration, and the keys and flags that the texts name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from rpcaccel.cli.main import app, run
from rpcaccel.config.load import PREFIX, load
from rpcaccel.config.model import Settings
from rpcaccel.controlplane.stats.metric_table import EXPOSED
from tests.support.services import ROOT

EXAMPLE = ROOT / "docs" / "rpcaccel.toml"
PAGES = (ROOT / "README.md", ROOT / "docs" / "operating.md")


def test_the_example_is_valid_without_any_variable_and_with_them() -> None:
    settings = load(EXAMPLE, environ={})
    assert settings.main_network == "harmony-s0"
    assert [node.id for node in settings.networks["harmony-s0"].nodes] == ["own", "public", "paid"]
    assert not settings.redis.url
    told = load(EXAMPLE, environ={"HARMONY_KEY": "k", "HARMONY_TOKEN": "t", "REDIS_URL": "redis://cache"})
    assert told.networks["harmony-s0"].nodes[2].url.reveal() == "https://harmony.example/k"
    assert told.redis.url.reveal() == "redis://cache"


def test_the_example_says_the_defaults_where_it_says_nothing_else() -> None:
    settings = load(EXAMPLE, environ={})
    made = Settings.model_validate({"networks": {"x": {"nodes": ["http://a"]}}})
    for part in ("listen", "admin", "workers", "memory", "redis", "drain_timeout", "log"):
        assert getattr(settings, part) == getattr(made, part), part


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_shows_as_a_file_is_valid(page: Path, tmp_path: Path) -> None:
    for number, shown in enumerate(re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)):
        file = tmp_path / f"{number}.toml"
        file.write_text(shown.replace("sha256:…", f"sha256:{'0' * 64}"))
        # A page may show a part of a file: the nodes are added then.
        nodes = {} if "nodes = " in shown else {"RPCACCEL_NETWORKS__HARMONY_S0__NODES": "http://a,id=own"}
        assert load(file, environ=nodes).networks


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_variable_that_a_page_names_is_one(page: Path) -> None:
    named = set(re.findall(rf"`({PREFIX}[A-Z0-9_]+)", page.read_text())) - {"RPCACCEL_CONFIG", "RPCACCEL_NODES"}
    values = {"WORKERS": "2", "WEIGHT": "2", "SIZE": "1MB", "URL": "redis://a", "LISTEN": ":1", "FORMAT": "json"}
    for name in named - {"RPCACCEL_CHAIN", "RPCACCEL_SHARD", "RPCACCEL_DEBUG"}:
        load(EXAMPLE, environ={name: values.get(name.rpartition("_")[2], "1")})


def test_every_flag_that_a_page_names_is_one_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    helps = ""
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        for words in ([name], *([name, part] for part in getattr(command, "commands", ()))):
            run([*words, "--help"])
            helps += capsys.readouterr().out
    known = set(re.findall(r"--[a-z][a-z-]+", helps)) | {"--version", "--help"}
    shown = [line for page in PAGES for line in re.findall(r"rpcaccel [^\n`]*", page.read_text())]
    assert {flag for line in shown for flag in re.findall(r"(?<=\s)--[a-z][a-z-]+", line)} <= known


def test_every_metric_that_is_shown_is_exposed() -> None:
    named = set(re.findall(r"`(rpcaccel_[a-z_]+)", (ROOT / "docs" / "operating.md").read_text()))
    assert named <= {metric.name for metric in EXPOSED}
    assert named


def test_every_alert_has_its_row_of_what_to_do() -> None:
    page = (ROOT / "docs" / "operating.md").read_text()
    rows = page.partition("## When something is red")[2].partition("\n## ")[0]
    alerts = re.findall(r"alert: (\w+)", (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
    assert set(re.findall(r"`(Rpcaccel\w+)`", rows)) == set(alerts)


def sections(page: str) -> list[int]:
    return [int(number) for number in re.findall(r"^## (\d+)\.", (ROOT / "docs" / page).read_text(), re.MULTILINE)]


@pytest.mark.parametrize("page", ["architecture.md", "harmony.md"])
def test_numbered_sections_follow_each_other_and_code_refers_to_none_that_is_not_there(page: str) -> None:
    numbers = sections(page)
    assert numbers == list(range(1, len(numbers) + 1))
    source = "".join(file.read_text() for folder in ("rpcaccel", "tests") for file in (ROOT / folder).rglob("*.py"))
    named = re.findall(rf"{page.removesuffix('.md')}(?:\.md)?,? sections? (\d+)(?:(?:, \d+)* and (\d+))?", source)
    assert named
    assert {int(number) for pair in named for number in pair if number} <= set(numbers)


EVERY_PAGE = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.name)
def test_a_page_says_nothing_twice_and_shows_parts_of_files_as_such(page: Path) -> None:
    parts = re.split(r"^```.*$", page.read_text(), flags=re.MULTILINE)
    assert len(parts) % 2, "a fence is open"
    text = "".join(parts[::2])
    told = [line for line in text.partition("\n## [0")[0].splitlines() if not line.startswith("| --")]  # tables' rulers
    lines = [line for line in told if len(line) > 60 or line.startswith("#")]
    assert [line for line in lines if lines.count(line) > 1] == []
    assert re.findall(r"^(?:\[[A-Z][a-z]+\]|[A-Z]\w+=.*)$", text, re.MULTILINE) == []


def anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.name)
def test_a_link_leads_to_a_file_and_a_heading_that_are_there(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, fragment = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        headings = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE) if fragment else []
        assert not fragment or fragment in [anchor(one) for one in headings], target
