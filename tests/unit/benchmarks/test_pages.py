"""Sections that programs write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import pages
from benchmarks.__main__ import PARTS
from rpcaccel.bench.report.report import Report, Table
from tests.support.services import ROOT

PAGE = "# Figures\n\nwords\n\n<!-- measured: a -->\nold\n<!-- end of a -->\n\nmore words\n"
REPORT = Report("T", {"machine": "m"}, [Table("U", ("x", "y"), [("1", "2")], "n")], remarks=["r"])


def test_a_section_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    for _ in range(2):  # as often as one likes
        pages.put(REPORT, page, "a")
    text = page.read_text()
    assert text.startswith("# Figures\n\nwords\n\n<!-- measured: a -->\n*machine*: m\n\n| x | y |\n")
    assert text.endswith("- r\n<!-- end of a -->\n\nmore words\n")
    assert "old" not in text


@pytest.mark.parametrize("program", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda program: program.stem)
def test_a_page_that_a_program_says_it_writes_has_sections_and_is_not_overwritten(program: Path) -> None:
    for page in re.findall(r"--out (docs/[\w./-]+\.md)", program.read_text()):
        assert pages.BEGIN.partition("{")[0] in (ROOT / page).read_text(), page


def test_another_file_is_written_whole(tmp_path: Path) -> None:
    for name in ("a.json", "b.md"):
        pages.put(REPORT, tmp_path / name, "a")
    assert (tmp_path / "b.md").read_text().startswith("# T")


def test_a_page_without_the_section_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no section"):
        pages.replaced("# a", "b", "c")
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    with pytest.raises(ValueError, match="no section"):
        pages.put(REPORT, page, "b")
    assert page.read_text() == PAGE


def test_the_page_of_benchmarks_has_a_section_for_every_part() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert [name for name in PARTS if pages.BEGIN.format(name) not in text] == []
    assert "make bench" in text
