"""What the documents show can be copied: the example configuration, and the keys and flags that the texts name."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from rpcaccel.config.load import PREFIX, load
from rpcaccel.config.model import Settings
from rpcaccel.controlplane.stats.prometheus import EXPOSED
from rpcaccel.simnode.chain.knobs import LIES, PUSH_FAULTS, Knobs
from tests.support import commands_table
from tests.support.commands_table import commands
from tests.support.services import ROOT

EXAMPLE = ROOT / "docs" / "rpcaccel.toml"
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
EVERY_PAGE = [README, *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")), *PAGES]
PLAIN_PAGES = [README, *PAGES]
LONG = {"architecture.md", "benchmarks.md", "clients.md", "failures.md", "settings.md"}
"""Pages to look things up in, or filled by measurements or examples."""


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


@pytest.mark.parametrize("page", PLAIN_PAGES, ids=lambda page: page.name)
def test_what_a_page_shows_as_a_file_is_valid(page: Path, tmp_path: Path) -> None:
    for number, shown in enumerate(re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)):
        if "[chain]" in shown:  # a chain's table, which is no configuration
            continue
        file = tmp_path / f"{number}.toml"
        file.write_text(shown.replace("sha256:…", f"sha256:{'0' * 64}"))
        # A page may show a part of a file: the nodes are added then.
        nodes = (
            {} if "nodes = " in shown else {"RPCACCEL_NETWORKS__HARMONY_S0__NODES": "http://a,id=own http://b,id=other"}
        )
        assert load(file, environ=nodes).networks


OTHER_VARIABLES = {f"{PREFIX}{name}" for name in ("TOKEN", "CACERT", "ADMIN_PASSWORD", "DEBUG")}
"""What is read from the environment and is neither a setting nor declared by a command itself."""


def test_every_variable_that_a_page_names_is_one() -> None:
    options = {str(param.envvar) for _, command in commands() for param in command.params if param.envvar}
    text = "".join(page.read_text() for page in PLAIN_PAGES if page.name != "settings.md")  # that one is generated
    named = set(re.findall(rf"\b({PREFIX}[A-Z0-9_]*[A-Z0-9])", text))
    values = {"WORKERS": "2", "WEIGHT": "2", "SIZE": "1GB", "URL": "redis://a", "LISTEN": ":1", "FORMAT": "json"}
    together = {f"{PREFIX}TLS_CERT": "cert.pem", f"{PREFIX}TLS_KEY": "key.pem"}
    assert named
    for name in named - options - OTHER_VARIABLES:
        load(EXAMPLE, environ=together if name in together else {name: values.get(name.rpartition("_")[2], "1")})


COMMAND = re.compile(r"^(?:.*(?:&&|\$\(|/bin/)|) *(rpcaccel [a-z-].*)", re.MULTILINE)
"""As in `rpcaccel nodes --report`, but not in `journalctl -u rpcaccel -f`."""


def test_every_command_that_a_page_names_is_there_and_has_the_flags_it_is_shown_with() -> None:
    flags = {name: {flag for param in command.params for flag in param.opts} for name, command in commands()}
    shown = [line for page in PLAIN_PAGES for line in COMMAND.findall(code(page))]
    assert len(shown) > 50
    for line in shown:
        name = max((name for name in flags if f"{line} ".startswith(f"{name} ")), key=len, default="rpcaccel")
        assert name != "rpcaccel" or line.split()[1] in ("--help", "--version"), line
        used = set(re.findall(r"(?<=\s)--[a-z][a-z-]+", line.partition(" #")[0]))
        assert used <= flags.get(name, set()) | {"--help", "--version", "--cacert"}, line  # main.run adds the last one


def test_a_variable_that_is_shown_names_its_node_and_wins_over_the_file(tmp_path: Path) -> None:
    page, name = (ROOT / "docs" / "configure.md").read_text(), "RPCACCEL_NETWORKS__HARMONY_S0__NODES__OWN__WEIGHT"
    assert name in page
    (tmp_path / "shown.toml").write_text(page.partition("```toml\n")[2].partition("```")[0])
    settings = load(tmp_path / "shown.toml", environ={name: "7"})
    assert [node.weight for node in settings.networks["harmony-s0"].nodes] == [7, 1]


def code(page: Path) -> str:
    """What a page shows as code, in blocks and in lines."""
    text = page.read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return "\n".join([*blocks, *re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))])


def test_the_table_of_commands_is_what_the_program_gives() -> None:
    page = commands_table.PAGE.read_text("utf-8")
    if commands_table.written(page) != page:
        pytest.fail("docs/configure.md is out of date; run: make reference", pytrace=False)


@pytest.mark.parametrize("page", PLAIN_PAGES, ids=lambda page: page.name)
def test_every_metric_that_is_shown_is_exposed(page: Path) -> None:
    exposed = {metric.name for metric in EXPOSED} | {"rpcaccel_calls_per_second"}  # made of another one by an adapter
    assert set(re.findall(r"`(rpcaccel_[a-z_]+)", page.read_text())) <= exposed
    assert {f"rpcaccel_{short}" for short in re.findall(r"`(?!rpcaccel_)([a-z_]+_total)`", page.read_text())} <= exposed


def test_every_alert_has_its_row_of_what_to_do() -> None:
    page = (ROOT / "docs" / "operate.md").read_text()
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


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
CHANGES = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where a change is made")[2].partition("\n## ")[0]
HOUSE = dict(
    re.findall(r"^\| `([a-z]+)` \| (.*) \|$", ARCHITECTURE.partition("## 2.")[2].partition("\n## 3.")[0], re.M)
)
"""What each package has inside, from the top."""


def inside(package: str) -> list[str]:
    return re.findall(r"`([a-z]+)`", HOUSE[package])


def test_architecture_begins_with_twelve_words_and_where_each_lives() -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\* \|.*\|(.*)\|$", ARCHITECTURE.partition("## 2.")[0], re.M)
    assert len(rows) == 12
    assert [word for word, where in rows if "](../rpcaccel/" not in where] == []


def test_what_a_change_needs_is_where_the_table_says() -> None:
    rows = [line.split("|")[2] for line in CHANGES.splitlines() if line.startswith("| ") and "look in" not in line]
    paths = [path for row in rows for path in re.findall(r"`([^`]+)`", row)]
    assert len(paths) > len(rows) > 10
    assert [path for path in paths if not ((ROOT / "rpcaccel" / path).exists() or (ROOT / path).exists())] == []


def test_the_house_has_every_package_and_no_other() -> None:
    packages = {path.parent.relative_to(ROOT / "rpcaccel") for path in (ROOT / "rpcaccel").rglob("[!_]*.py")}
    assert HOUSE.keys() == {package.parts[0] for package in packages if package.parts}
    for package in HOUSE:
        assert set(inside(package)) == {one.name for one in packages if one.parent.name == package}, package


def test_the_house_is_drawn_in_the_order_of_imports() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    held = {one["containers"][0].rpartition(".")[2]: one["layers"] for one in contracts if one["type"] == "layers"}
    for package, layers in held.items():
        rank = {name: row for row, layer in enumerate(layers) for name in layer.split(" | ")}
        ranks = [rank[name] for name in (HOUSE if package == "rpcaccel" else inside(package))]
        assert ranks == sorted(ranks), package


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.name)
def test_a_page_says_nothing_twice_and_shows_parts_of_files_as_such(page: Path) -> None:
    parts = re.split(r"^```.*$", page.read_text(), flags=re.MULTILINE)
    assert len(parts) % 2, "a fence is open"
    text = "".join(parts[::2])
    told = [line for line in text.partition("\n## [0")[0].splitlines() if not line.startswith("| --")]  # tables' rulers
    lines = [line for line in told if len(line) > 60 or line.startswith("#")]
    assert [line for line in lines if lines.count(line) > 1] == []
    assert re.findall(r"^(?:\[[A-Z][a-z]+\]|[A-Z]\w+=.*)$", text, re.MULTILINE) == []


def test_every_knob_and_every_fault_of_the_simulated_nodes_page_is_one_and_none_is_missing() -> None:
    section = (ROOT / "docs" / "harmony.md").read_text().partition("## 12.")[2].partition("\n## 13.")[0]
    rows = re.findall(r"^\| (`.+?`) \|(.*)\|", section, re.MULTILINE)
    named = {name for names, _ in rows for name in re.findall(r"`([a-z_]+)`", names)}
    assert len(named) > 10
    assert named <= set(Knobs().positions())
    for knob, words in (("`lies`", LIES), ("`push_faults`", PUSH_FAULTS)):
        text = next(text for names, text in rows if names == knob)
        assert set(re.findall(r"`([a-z_]+)`:", text)) == set(words)


def test_the_readme_is_short_and_the_figures_in_it_are_those_of_the_benchmarks() -> None:
    lines = README.read_text().splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > 160 and not line.startswith(("|", "!["))] == []
    rows = [line for line in lines if re.match(r"\| .+ \| \d{4}-\d\d-\d\d \|", line)]
    assert len(rows) > 4
    benchmarks = (ROOT / "docs" / "benchmarks.md").read_text()
    for row in rows:
        name, date, *figures = [cell.strip() for cell in row.strip("|").split("|")]
        numbers = [number for figure in figures[:2] for number in re.findall(r"^[\d.,]+", figure)]
        assert len(numbers) == 2, name
        assert [number for number in (date, *numbers) if number not in benchmarks] == [], name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_short_or_one_to_look_things_up_in_and_the_readme_leads_to_it(page: Path) -> None:
    lines = page.read_text().splitlines()
    assert len(lines) <= 150 or page.name in LONG
    assert f"](docs/{page.name})" in README.read_text()
    fences = [number for number, line in enumerate(lines) if line.startswith("```")]
    inside = {number for start, end in zip(fences[::2], fences[1::2], strict=True) for number in range(start, end)}
    assert [line for number, line in enumerate(lines) if line.startswith("# ") and number not in inside] == lines[:1]


def test_every_picture_is_shown_and_small() -> None:
    text = "".join(page.read_text() for page in PLAIN_PAGES)
    for picture in (ROOT / "docs" / "images").iterdir():
        assert f"images/{picture.name})" in text, picture.name
        assert picture.stat().st_size <= 250_000, picture.name


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
