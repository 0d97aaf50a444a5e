"""The examples of docs/clients.md, as they stand there, call the demo and print what they were told."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.running import ADDRESS, LOCAL
from tests.support.services import ROOT, Process, Program, require

PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```(python|js|sh)\n(.*?)```", PAGE, re.DOTALL)
LIBRARIES = [
    next(name for name in ("web3", "pyhmy", "ethers", "viem", "curl") if name in code)
    + (" over a WebSocket" if "ws://" in code else "")
    for _, code in EXAMPLES
]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of the demo, which makes a block every two seconds."""
    with Program("demo", "--traffic", "0", *LOCAL, cwd=tmp_path_factory.mktemp("demo")) as program:
        program.wait_for("Ctrl-C ends it")
        address = ADDRESS.search(program.output)
        assert address is not None
        program.wait_ready(f"{address[1]}/readyz")
        yield address[1].removeprefix("http://")


@pytest.mark.parametrize(("language", "code"), EXAMPLES, ids=LIBRARIES)
def test_an_example_of_a_client_runs_as_it_is_shown(language: str, code: str, demo: str, tmp_path: Path) -> None:
    code = code.replace("127.0.0.1:8888", demo)
    assert demo in code
    if language == "js":
        (tmp_path / "node_modules").symlink_to(require("live-clients"))
    file = tmp_path / {"python": "example.py", "js": "example.mjs", "sh": "example.sh"}[language]
    file.write_text(code, encoding="utf-8")
    program = {"python": sys.executable, "js": "node", "sh": "sh"}[language]
    with Process([program, file], env=os.environ, cwd=tmp_path) as example:
        assert example.wait() == 0, example.output
        assert re.search(r"\b(0x[0-9a-f]{6,}|\d{6,})", example.output), example.output  # the number of a block


def test_the_page_has_an_example_of_each_library_and_of_each_that_subscribes() -> None:
    plain = {"web3", "pyhmy", "ethers", "viem", "curl"}
    assert set(LIBRARIES) == plain | {f"{name} over a WebSocket" for name in ("web3", "ethers", "viem")}
