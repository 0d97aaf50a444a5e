"""Sections of a page that programs write: the text between two marks is replaced whole."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from rpcaccel.bench.report import render
from rpcaccel.bench.report.report import Report

BEGIN, END = "<!-- measured: {} -->", "<!-- end of {} -->"


def put(report: Report, file: Path, section: str) -> None:
    """Write a report: into its section of a .md file that has sections, else as the whole file.

    Raises ValueError for a page that has other sections: it is not to be overwritten.
    """
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if file.suffix != ".md" or BEGIN.partition("{")[0] not in text:
        render.write(report, file)
        return
    file.write_text(replaced(text, section, body(report)), encoding="utf-8")


def tell(report: Report, file: Path | None, section: str) -> None:
    """Show a report, and put it into a file where one is named."""
    render.terminal(report, Console(width=150))
    if file is not None:
        put(report, file, section)


def body(report: Report) -> str:
    """A report without its heading, which the page has already."""
    lines = [" · ".join(f"*{name}*: {value}" for name, value in report.facts.items())]
    for table in report.tables:
        lines += ["", *([f"**{table.title}**", ""] if len(report.tables) > 1 else []), *render.markdown_table(table)]
        lines += ["", table.note] if table.note else []
    lines += ["", *(f"- {remark}" for remark in report.remarks)] if report.remarks else []
    return "\n".join(lines)


def replaced(text: str, section: str, content: str) -> str:
    """The page with this content in its section. Raises ValueError when there is no such section."""
    begin, end = BEGIN.format(section), END.format(section)
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"no section between {begin} and {end}")
    return f"{before}{begin}\n{content}\n{end}{after}"
