"""One process for the commands of many tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.cli.command_process import CommandProcess


@pytest.fixture(scope="session")
def commands() -> Iterator[CommandProcess]:
    """`await commands.run("warm", ..., folder=tmp_path)`: a command, run where nothing else does."""
    process = CommandProcess()
    yield process
    process.close()
