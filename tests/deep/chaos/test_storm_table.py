"""The chaos table itself: what it computes, what it prints, and one case with real programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import pages
from benchmarks.storms import CASES, OTHERS, Hail, Row, Weather, measure, report
from rpcaccel.bench.report import report as bench_report
from tests.support.services import ROOT

ROW = Row("killed", 1000, 0, 0.010, 0.4, 0.030, 0.015, 2, 0.012)


def test_a_quantile_is_of_the_calls_that_were_due_in_the_time() -> None:
    hail = Hail([(float(number), number / 1000, number == 7) for number in range(1, 101)])
    assert hail.p99() == 0.1
    assert hail.p99(until=51.0) == 0.05
    assert hail.p99(since=1000.0) is None
    assert hail.failed == 1


def test_every_case_of_the_suite_has_its_line() -> None:
    assert len({*CASES, *OTHERS}) >= 15


def test_the_table_goes_into_its_section_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text((ROOT / "docs" / "failures.md").read_text(encoding="utf-8"), encoding="utf-8")
    made = report([ROW], Weather(1000, 100.0))
    assert isinstance(made, bench_report.Report)
    pages.put(made, page, "chaos")
    assert "| killed | 1,000 | 0 | 10.0 | 0.4 s | 30.0 | 15.0 | 1.5 | 2 | 12.0 |" in page.read_text(encoding="utf-8")


async def test_a_killed_node_fails_no_call() -> None:
    """After how long it is left alone depends on the machine; test_storms.py waits for that."""
    row = await measure("killed", Weather(60, 60.0))
    assert (row.calls, row.failed) == (60, 0)
    assert row.healthy is not None
    assert row.found is not None or row.after is None
    assert row.turn is not None


@pytest.mark.parametrize("case", ["wide logs get -32005 from one", "all three refuse ranges"])
async def test_wide_calls_for_logs_fail_no_call_of_others(case: str) -> None:
    row = await measure(case, Weather(100, 50.0))
    assert (row.calls, row.failed) == (100, 0)
