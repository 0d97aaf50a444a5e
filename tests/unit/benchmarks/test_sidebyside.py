"""The side-by-side runs work on any machine; what they find is not judged here."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.generate import BODIES
from benchmarks.peers import bench, post, refused
from benchmarks.responder import Responder
from benchmarks.sidebyside import PARTS, Rounds, Side, measure
from rpcaccel.bench.report import render
from tests.support.serving import responding_apart


@pytest.mark.deep
def test_a_part_finds_a_figure_for_each_of_its_rows() -> None:
    report = measure(["shared"], Rounds(0.2, 1, lambda _text: None))
    (row,) = report.tables[0].rows
    assert "1 node call" in row[1]
    assert not any("failed" in remark for remark in report.remarks)
    assert "rpcaccel" in render.markdown(report)


def test_every_row_of_the_wanted_table_has_its_part() -> None:
    assert list(PARTS) == ["hits", "redis", "shared", "added", "large", "started", "workers"]


def test_a_side_of_which_calls_fail_has_no_rate() -> None:
    responder = Responder(50)
    responder.broken.add("eth_getBlockByHash")
    with responding_apart(responder) as url:
        rounds = Rounds(0.1, 1, lambda _text: None)
        rates = rounds.rates([Side("well", url, "same", 2), Side("broken", url, "miss", 2)])
    assert list(rates) == ["well"]
    (remark,) = rounds.remarks
    assert "broken: not reported" in remark


@pytest.mark.deep
def test_calls_of_every_kind_are_answered_through_the_proxy(tmp_path: Path) -> None:
    with bench(tmp_path) as lab:
        ours = lab.rpcaccel(f"{lab.responder()},id=static")
        assert {kind: refused(ours.url, BODIES[kind](5)) for kind in BODIES} == dict.fromkeys(BODIES, "")
        assert [post(ours.url, BODIES["keys"](7))[1] for _ in range(2)] == ["miss", "memory"]
        assert ours.errors == 0
