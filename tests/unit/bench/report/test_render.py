"""A report in its forms."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from rpcaccel.bench.report import render
from rpcaccel.bench.report.report import Report, Table, bars

REPORT = Report(
    "A <b> | [x]",
    {"target": "http://a"},
    [Table("Calls", ("name", "ms"), [("m|n", "1.5"), ("<o>", "[red]")], "a note")],
    [
        bars("Histogram", ("1 ms", "2 ms"), {"calls": [3.0, 6.0]}),
        bars("C", ("a", "b"), {"a": [1.0, None], "b": [2.0, 3.0]}),
    ],
    ["take care"],
    {"figures": {"p50": 0.0015}},
)


def test_the_terminal_shows_everything_and_takes_no_text_for_markup() -> None:
    out = io.StringIO()
    render.terminal(REPORT, Console(file=out, width=120))
    said = out.getvalue()
    for text in ("A <b> | [x]", "http://a", "m|n", "[red]", "a note", "! take care", "█" * 40, "█" * 13):
        assert text in said, text


def test_what_an_endpoint_said_commands_no_terminal() -> None:
    report = Report("T", {"said": "\x1b[2J"}, [Table("C", ("a",), [("\x9b1m",)], "\u202e")], [], ["\x07"], {})
    out = io.StringIO()
    render.terminal(report, Console(file=out, width=120))
    for text in (r"\x1b[2J", r"\x9b1m", r"\u202e", r"! \x07"):
        assert text in out.getvalue()
    assert out.getvalue().replace("\n", "").isprintable()


def test_bars_are_told_in_three_digits_on_one_scale_and_left_out_where_there_are_none() -> None:
    table = bars("Shares", ("a", "b", "c"), {"share": [94.7421, 12.0, None]})
    assert table.rows == [("a", "94.7", "█" * 40), ("b", "12", "█" * 5), ("c", "–", "")]
    two = bars("Two", ("a",), {"one": [2.0], "other": [1.0]})
    assert (two.columns, two.rows) == (("", "one", "", "other", ""), [("a", "2", "█" * 20, "1", "█" * 10)])
    report = Report("T", {}, [], [table, bars("Empty", (), {"x": []})], [], {})
    out = io.StringIO()
    render.terminal(report, Console(file=out, width=120))
    for text in (out.getvalue(), render.html(report), render.markdown(report)):
        assert ("Shares" in text, "Empty" in text) == (True, False)


def test_markdown_holds_a_table_whatever_the_cells_hold() -> None:
    lines = render.markdown(REPORT).splitlines()
    assert "| name | ms |" in lines
    assert "| --- | ---: |" in lines
    assert "| m\\|n | 1.5 |" in lines
    assert "> take care" in lines


def test_json_holds_the_figures() -> None:
    document = json.loads(render.as_json(REPORT))
    assert document["figures"] == {"p50": 0.0015}
    assert document["facts"] == {"target": "http://a"}


def test_a_page_needs_nothing_beside_it() -> None:
    page = render.html(REPORT)
    assert "<script" not in page
    assert "src=" not in page
    assert "&lt;o&gt;" in page
    assert f'<td class="bar">2 ms</td><td>6</td><td class="bar">{"█" * 40}</td>' in page


def test_a_file_is_written_in_the_form_of_its_name(tmp_path: Path) -> None:
    for name, start in (("a.md", "# A"), ("a.json", "{"), ("a.HTML", "<!doctype")):
        render.write(REPORT, tmp_path / name)
        assert (tmp_path / name).read_text().startswith(start)
    with pytest.raises(ValueError, match=r"a\.txt: a name that ends on \.md, \.json, \.html"):
        render.write(REPORT, tmp_path / "a.txt")
