"""Prints tables on terminals of any width without cutting a cell: a number that is cut off is another number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

WIDEST = 10_000
"""The width of a console that is no terminal, in columns: more than any table needs."""
_BETWEEN = " · "
_NOTHING = frozenset({"", "-", "–"})
"""The texts of cells without a value."""


def show(table: Table, console: Console, *, named: int = 1) -> None:
    """Print a table. Where the table is too wide, each row is printed by itself under its first `named` cells."""
    needed = Measurement.get(console, console.options.update(width=WIDEST), table).maximum
    if needed <= console.width:
        console.print(table)
        return
    if table.title:
        console.print(table.title, style="bold", highlight=False)
    names = [_text(column.header) for column in table.columns]
    for row in zip(*(column.cells for column in table.columns), strict=True):
        cells = [_text(cell) for cell in row]
        title = " ".join(cell.plain for cell in cells[:named] if cell.plain)
        if title:
            console.print(Text(title, style="bold"))
        for line in _lines(names[named:], cells[named:], console.width):
            console.print(line, no_wrap=False, highlight=False)


def _lines(names: Sequence[Text], cells: Sequence[Text], width: int) -> Iterator[Text]:
    """ "name value" of each cell that has a value, as many on a line as fit."""
    line = Text()
    for name, cell in zip(names, cells, strict=True):
        if cell.plain.strip() in _NOTHING:
            continue
        item = Text.assemble((f"{name.plain} ", "dim") if name.plain else "", (cell.plain.strip(), cell.style))
        if line and line.cell_len + len(_BETWEEN) + item.cell_len > width:
            yield line
            line = Text()
        line.append_text(Text.assemble(_BETWEEN if line else "  ", item))
    if line:
        yield line


def _text(cell: object) -> Text:
    return cell if isinstance(cell, Text) else Text.from_markup(str(cell))
