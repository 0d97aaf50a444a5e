"""Renders a report for the terminal, as Markdown, as JSON, or as one HTML page that needs no other file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

import msgspec
from rich import box
from rich.console import Console
from rich.markup import escape as without_markup
from rich.table import Table as RichTable

from rpcaccel.bench.report.report import Report, Table
from rpcaccel.bench.report.terminal_table import show
from rpcaccel.core.wire.printable import printable

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1, p, dd { overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1.5rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #8884; text-align: right; }
th:first-child, td:first-child, .bar { text-align: left; }
dl { display: grid; grid-template-columns: max-content auto; gap: .1rem 1rem; }
dt { font-weight: 600; } dd { margin: 0; }
.wide { overflow-x: auto; }
"""


def plain(text: str) -> str:
    """A text that may quote an endpoint, without markup and printable."""
    return without_markup(printable(text))


def terminal(report: Report, console: Console) -> None:
    """Print the report."""
    console.print(f"[bold]{plain(report.title)}[/bold]", highlight=False)
    for name, value in report.facts.items():
        console.print(f"  {name}: {plain(value)}", highlight=False)
    for table in _tables(report):
        console.print()
        show(_rich(table), console, named=int(len(table.rows) > 1))
        if table.note:
            console.print(plain(table.note), style="dim", highlight=False)
    for remark in report.remarks:
        console.print(f"! {plain(remark)}", highlight=False)


def _tables(report: Report) -> Iterator[Table]:
    """The tables of a report, and its plots as far as there is something in them."""
    yield from report.tables
    yield from (plot for plot in report.plots if plot.rows)


def _rich(table: Table) -> RichTable:
    made = RichTable(title=plain(table.title), box=box.SIMPLE, title_justify="left", title_style="bold")
    for number, column in enumerate(table.columns):
        made.add_column(plain(column), justify="right" if number and column else "left", no_wrap=number == 0)
    for row in table.rows:
        made.add_row(*(plain(cell) for cell in row))
    return made


def markdown(report: Report) -> str:
    """The report as Markdown."""
    lines = [f"# {report.title}", ""]
    lines += [f"- {name}: {value}" for name, value in report.facts.items()]
    for table in _tables(report):
        lines += ["", f"## {table.title}", "", *markdown_table(table)]
        lines += ["", table.note] if table.note else []
    lines += ["", *(f"> {remark}" for remark in report.remarks)] if report.remarks else []
    return "\n".join(lines) + "\n"


def markdown_table(table: Table) -> list[str]:
    """The lines of a table alone."""
    aligned = tuple("---:" if place and column else "---" for place, column in enumerate(table.columns))
    rows = [table.columns, aligned, *table.rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]


def as_json(report: Report) -> str:
    """The report as JSON: title, facts, remarks and the figures themselves (seconds, bytes)."""
    document = {"title": report.title, "facts": report.facts, "remarks": report.remarks, **report.data}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def html(report: Report) -> str:
    """The report as one page."""
    title = escape(report.title)
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>",
        "<dl>",
        *(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in report.facts.items()),
        "</dl>",
        *(f"<p>⚠ {escape(remark)}</p>" for remark in report.remarks),
        *map(_html_table, _tables(report)),
        "</body></html>\n",
    ]
    return "".join(parts)


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    marks = ["<td>" if column else '<td class="bar">' for column in table.columns]
    body = "".join(
        f"<tr>{''.join(f'{mark}{escape(cell)}</td>' for mark, cell in zip(marks, row, strict=True))}</tr>"
        for row in table.rows
    )
    inside = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    return f'<h2>{escape(table.title)}</h2><div class="wide">{inside}</div>{note}'


FORMS: dict[str, Callable[[Report], str]] = {".md": markdown, ".json": as_json, ".html": html}


def write(report: Report, file: Path) -> None:
    """Write the report into a file, in the form that its name ends on. Raises ValueError for another, OSError."""
    file.write_text(form(file)(report), encoding="utf-8")


def form(file: Path) -> Callable[[Report], str]:
    """The function that makes the text of a file of this name. Raises ValueError."""
    try:
        return FORMS[file.suffix.lower()]
    except KeyError:
        raise ValueError(f"{file.name}: a name that ends on {', '.join(FORMS)}") from None
