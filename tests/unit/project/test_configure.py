"""What docs/configure.md shows can be copied."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rpcaccel.cli.main import run
from rpcaccel.config.load import load, load_told
from tests.support.services import ROOT

PAGE = (ROOT / "docs" / "configure.md").read_text()
FILES = re.findall(r"^```toml\n(.*?)^```", PAGE, re.M | re.S)
COMMANDS = [
    line.split("#")[0].split()[1:]
    for block in re.findall(r"^ *```sh\n(.*?)^ *```", PAGE, re.M | re.S)
    for line in block.splitlines()
    if line.strip().startswith("rpcaccel ")
]


@pytest.mark.parametrize("shown", FILES)
def test_a_file_that_is_shown_is_a_whole_configuration(shown: str, tmp_path: Path) -> None:
    file = tmp_path / "rpcaccel.toml"
    file.write_text(shown)
    assert load(file, environ={}).main_network == "harmony-s0"


def test_a_variable_that_is_shown_names_its_node_and_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "rpcaccel.toml"
    file.write_text(FILES[0])
    name = "RPCACCEL_NETWORKS__HARMONY_S0__NODES__OWN__WEIGHT"
    assert name in PAGE
    told = load_told(file, environ={name: "7"})
    assert [node.weight for node in told.settings.networks["harmony-s0"].nodes] == [7, 1]
    assert set(told.told.values()) == {name}


def test_every_command_that_is_shown_has_the_flags_it_is_shown_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(COMMANDS) > 8
    for words in COMMANDS:
        name = words[:2] if words[0] in ("settings", "node") else words[:1]
        assert run([*name, "--help"]) == 0, words
        told = capsys.readouterr().out
        assert [flag for flag in words if flag.startswith("--") and flag not in told] == []
