"""The table of attacks itself: what it prints, where it goes, and one attack with real programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import pages
from benchmarks.attacks import CASES, Row, measure, report
from benchmarks.storms import Weather
from tests.support.services import ROOT

ROW = Row("half-closed clients", 1000, 0, 0.010, 0.015, 70_000_000, 90_000_000, 71_000_000, 0.012)


def test_the_table_goes_into_its_section_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text((ROOT / "docs" / "failures.md").read_text(encoding="utf-8"), encoding="utf-8")
    pages.put(report([ROW], Weather(1000, 100.0)), page, "attacks")
    line = "| half-closed clients | 1,000 | 0 | 10.0 | 15.0 | 70 MB | 90 MB | 71 MB | 12.0 |"
    assert line in page.read_text(encoding="utf-8")


def test_every_attack_has_its_line_in_the_page() -> None:
    page = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")
    assert [case for case in CASES if f"| {case} |" not in page] == []


async def test_half_closed_clients_are_answered_beside_ordinary_reads() -> None:
    row = await measure("half-closed clients", Weather(30, 30.0))
    assert (row.calls, row.failed) == (30, 0)
    assert row.peak >= row.before > 0


async def test_reads_that_need_no_node_are_answered_beside_eight_floods(capsys: pytest.CaptureFixture[str]) -> None:
    row = await measure("eight floods at once, reads need no node", Weather(60, 30.0))
    assert (row.calls, row.failed) == (60, 0)
    with capsys.disabled():
        print(f"\nthe longest turn beside eight floods: {row.turn * 1000:.0f} ms")
