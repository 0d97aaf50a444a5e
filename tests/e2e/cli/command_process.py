"""Commands that run one after another in one process beside the tests.

A command that Ctrl-C interrupts needs the main thread of its process, which in a test keeps the simulated nodes going.
To start a process for each such command costs more than what most of them do.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from rpcaccel.cli.main import run

LONGEST = 60
"""Seconds that a command may take."""


class Told(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def _prepare() -> None:
    """What a command may not see of the tests' environment."""
    for name in [name for name in os.environ if name.startswith("RPCACCEL_")]:
        del os.environ[name]
    os.environ |= {"NO_COLOR": "1", "COLUMNS": "200"}


def _told(arguments: tuple[str, ...], folder: Path, answer: str) -> Told:
    os.chdir(folder)
    sys.stdin = io.StringIO(answer)
    signal.alarm(LONGEST)  # ends the process
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = run(arguments)
    signal.alarm(0)
    return Told(code, out.getvalue(), err.getvalue())


class CommandProcess:
    """The process; it is started with the first command, and anew after one that hung or ended it."""

    def __init__(self) -> None:
        self._pool = self._new()

    @staticmethod
    def _new() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, get_context("spawn"), _prepare)

    async def run(self, *arguments: str | Path, folder: Path, answer: str = "") -> Told:
        """Run a command in a folder, to its end; it reads `answer`. Raises BrokenProcessPool for a command that hangs
        or ends the process."""
        try:
            return await asyncio.wrap_future(self._pool.submit(_told, tuple(map(str, arguments)), folder, answer))
        except BrokenProcessPool:
            self._pool = self._new()
            raise

    def close(self) -> None:
        """End it."""
        self._pool.shutdown()
