"""Plots."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.bench.report.report import Bars
from rpcaccel.bench.report.svg import draw, nice


def test_bars_stand_for_values_and_a_missing_one_is_left_out() -> None:
    root = ET.fromstring(draw(Bars("T", "ms", ("a", "<b>"), {"x": [1.0, 2.0], "y": [None, 4.0]})))
    heights = [float(rect.get("height", "0")) for rect in root.iter("rect") if rect.find("title") is not None]
    assert len(heights) == 3
    assert heights[1] == max(heights[:2])
    assert heights[2] == max(heights)
    assert any("<b>, y: 4 ms" in (title.text or "") for title in root.iter("title"))


def test_nothing_to_show_is_still_a_picture() -> None:
    ET.fromstring(draw(Bars("T", "ms", (), {"x": []})))


@given(st.floats(1e-6, 1e9))
def test_marks_are_round_and_reach_the_top(top: float) -> None:
    marks = nice(top)
    assert marks[0] == 0
    assert marks[-1] >= top * 0.999
    assert 3 <= len(marks) <= 8
