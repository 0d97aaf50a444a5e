"""The progress of commands that take a while: a bar on a terminal, and elsewhere a line now and then."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from rpcaccel.bench.report.terminal_table import WIDEST

EVERY = 5.0
"""Seconds between lines where there is no terminal."""


def console() -> Console:
    """The console for results; where stdout is no terminal, the console is wider than any table."""
    return Console(highlight=False) if sys.stdout.isatty() else Console(width=WIDEST, highlight=False)


@contextlib.contextmanager
def progress(every: float = EVERY) -> Iterator[Callable[[str, float], None]]:
    """A function that shows on stderr what is being done, and which share of all is done (0..1).

    `every`: seconds between lines where there is no terminal.
    """
    if not sys.stderr.isatty():
        yield _Lines(every)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda text, share: bar.update(task, description=text, completed=share)


class _Lines:
    """Prints a line about the progress, at most one every few seconds."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._said_at = float("-inf")

    def __call__(self, text: str, share: float) -> None:
        now = time.monotonic()
        if now - self._said_at >= self._every:
            self._said_at = now
            typer.echo(f"{share * 100:3.0f} %  {text}", err=True)
