"""Tables where there is little room."""

from __future__ import annotations

import io

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from rpcaccel.bench.report.terminal_table import show


def shown(width: int, *, named: int = 1) -> list[str]:
    table = Table("node", "address", "head", box=None, title="Nodes")
    table.add_row("node-a", Text("http://[fd00::1]:9500"), "47676037")
    table.add_row("", escape("[14 behind]"), "")
    out = io.StringIO()
    show(table, Console(file=out, width=width), named=named)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_table_that_fits_stays_one() -> None:
    assert [line.split() for line in shown(60)][1:3] == [
        ["node", "address", "head"],
        ["node-a", "http://[fd00::1]:9500", "47676037"],
    ]


def test_nothing_is_cut_off_where_it_does_not_fit() -> None:
    assert shown(32) == [
        "Nodes",
        "node-a",
        "  address http://[fd00::1]:9500",
        "  head 47676037",
        "  address [14 behind]",
    ]
    assert shown(36, named=0)[1] == "  node node-a"


def test_what_belongs_together_shares_a_line() -> None:
    table = Table("node", "state", "head", "behind", "address")
    table.add_row("a", "serving", "26", "-", "http://127.0.0.1:9500")
    out = io.StringIO()
    show(table, Console(file=out, width=33))
    assert out.getvalue() == "a\n  state serving · head 26\n  address http://127.0.0.1:9500\n"
