"""What commands print: tables of rows that the admin API answers, JSON, progress, and figures in words."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from rpcaccel.bench.report import terminal_table
from rpcaccel.core.wire.printable import printable

PROGRESS_LINE_SECONDS = 5.0
"""Seconds between lines about the progress where there is no terminal."""

Row = Mapping[str, Any]
"""A document of the admin API, or a part of one."""


class TableColumn(NamedTuple):
    """A column of a table."""

    heading: str
    cell: str | Callable[[Any], str] = ""
    """The member of the row that is shown, or what makes a cell of a row; empty: the member named as the heading."""
    right: bool = False
    """Whether its cells are aligned at the right, as figures are."""
    style: Callable[[Any], str] = lambda _row: ""
    """The colour and weight of the cell of a row, in the words of rich."""


def right(heading: str, cell: str | Callable[[Any], str] = "") -> TableColumn:
    """A column of figures."""
    return TableColumn(heading, cell, right=True)


class Listing(NamedTuple):
    """A table with a row for each of `rows`."""

    columns: Sequence[TableColumn]
    rows: Sequence[Any]
    named: int = 1
    """On a terminal that is too narrow, each row is printed by itself under its first cells, as many as this."""
    title: str = ""
    why_under: str = ""
    """A heading; the member `why` of a row is shown in a row of its own below this column."""


class Pairs(NamedTuple):
    """Pairs of a heading, which may be empty, and a text, below each other."""

    title: str
    pairs: Iterable[tuple[str, str]]


Printed = str | Listing | Pairs
"""What commands print; a text is one line. Control characters in it are shown as escapes, and nothing is markup."""


def show(*parts: Printed) -> None:
    """Print on stdout."""
    for part in parts:
        if isinstance(part, Listing):
            terminal_table.show(table(part), console(), named=part.named)
        elif isinstance(part, Pairs):
            console().print(_pairs(part))
        else:
            typer.echo(printable(part))


def table(listing: Listing) -> Table:
    """The table of a listing."""
    title, headings = listing.title or None, [column.heading for column in listing.columns]
    made = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
    for column in listing.columns:
        made.add_column(column.heading, justify="right" if column.right else "left")
    for row in listing.rows:
        made.add_row(*(Text(_cell(column, row), style=column.style(row)) for column in listing.columns))
        if listing.why_under and row["why"]:
            made.add_row(*([""] * headings.index(listing.why_under)), Text(f"  {printable(row['why'])}"))
    return made


def _pairs(part: Pairs) -> Table:
    made = Table(title=Text(printable(part.title)), title_justify="left", show_header=False, box=None, padding=(0, 2))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for heading, text in part.pairs:
        made.add_row(heading, Text(printable(text)))
    return made


def _cell(column: TableColumn, row: Any) -> str:
    cell = column.cell or column.heading
    return printable(number(row[cell]) if isinstance(cell, str) else cell(row))


def console() -> Console:
    """The console for results; where stdout is no terminal, the console is wider than any table."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(width=terminal_table.WIDEST, highlight=False)


def show_json(document: Any) -> None:
    """Print a document for programs."""
    typer.echo(json.dumps(document, indent=2))


def number(value: object) -> str:
    """A figure or a name as it is; a dash for what is not known."""
    return "–" if value is None else str(value)


def rate(value: float | None) -> str:
    """Three digits of a rate, without an exponent."""
    return "–" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def percent(share: float | None) -> str:
    """A share (0..1) as a percentage of three digits."""
    return "–" if share is None else f"{100 * share:.3g} %"


def milliseconds(seconds: float | None) -> str:
    """Seconds as milliseconds."""
    return "–" if seconds is None else f"{seconds * 1000:.1f} ms"


def counts(counted: Mapping[str, int]) -> str:
    """Counts with their names: "newHeads: 120, logs: 40"."""
    return ", ".join(f"{name}: {count}" for name, count in counted.items()) or "–"


def plural(count: int, name: str) -> str:
    """A count with the name of what is counted: "1 worker", "2 workers"."""
    return f"{count} {name}{'' if count == 1 else 's'}"


def clock(at: float) -> str:
    """A time (seconds since 1970) by the clock of this machine, to the second."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


@contextlib.contextmanager
def progress(line_seconds: float = PROGRESS_LINE_SECONDS) -> Iterator[Callable[[str, float], None]]:
    """A function that shows on stderr what is being done, and which share (0..1) of all is done: a bar on a terminal,
    elsewhere a line every `line_seconds` at most."""
    if not sys.stderr.isatty():
        said_at = float("-inf")

        def line(text: str, share: float) -> None:
            nonlocal said_at
            if time.monotonic() - said_at >= line_seconds:
                said_at = time.monotonic()
                typer.echo(f"{share * 100:3.0f} %  {text}", err=True)

        yield line
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
