"""Every part of the benchmarks works; what it finds is not judged here."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from benchmarks import seed, sidebyside
from benchmarks.__main__ import PARTS, run
from benchmarks.peers import bench, post, refused
from benchmarks.responder import FORMS, Responder
from benchmarks.rounds import BODIES, Rounds, Side
from benchmarks.rounds import run as run_wrk
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.report.report import Report, Table
from rpcaccel.simnode.chain.knobs import Latency
from tests.support.services import require
from tests.support.serving import responding_apart

REPORT = Report("T", {"machine": "m"}, [Table("U", ("x",), [("1",)])])


@pytest.fixture
def _wrk() -> None:
    require("wrk")


@pytest.mark.deep
def test_the_seed_table_has_every_method_and_every_way() -> None:
    report = seed.measure(Watch(), short=True)
    assert report.tables[0].columns[1:] == (
        "direct", "kept alive", "refusing node", "balanced", "proxy cold", "proxy warm, memory", "proxy warm, Redis",
    )  # fmt: skip
    assert {row[0] for row in report.tables[0].rows} == set(seed.latencies())
    totals = {row[0]: row for row in report.tables[1].rows}
    assert "http 429" in totals.pop("refusing node")[5]
    assert {row[5] for row in totals.values()} == {"0"}  # none failed
    assert totals["balanced"][-1] == "10.0 %"  # heights alone
    assert totals["proxy warm, memory"][-1] not in ("10.0 %", "–")


@pytest.mark.deep
@pytest.mark.usefixtures("_wrk")
def test_misses_are_told_before_each_kind_of_node() -> None:
    (table,) = sidebyside.misses(Watch(), short=True).tables
    assert [row[:2] for row in table.rows] == [("static", "8"), ("100 µs a call", "8")]
    assert all(row[2].endswith("/s") and float(row[4]) > 0 for row in table.rows)


@pytest.mark.deep
@pytest.mark.usefixtures("_wrk")
def test_identical_misses_are_one_call_of_the_node() -> None:
    report = sidebyside.measure(Watch(), short=True)
    (row,) = report.tables[0].rows
    assert "1 node call" in row[1]
    assert not any("failed" in remark for remark in report.remarks)


@pytest.mark.deep
def test_every_subscriber_has_every_head() -> None:
    report = PARTS["subscribers"](Watch(), True)
    assert [row[1] for row in report.tables[0].rows] == ["300", "300"]
    assert report.remarks == []


@pytest.mark.usefixtures("_wrk")
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
@pytest.mark.usefixtures("_wrk")
@pytest.mark.parametrize("kind", sorted(BODIES))
def test_wrk_makes_the_calls_that_are_written_here(kind: str) -> None:
    responder = Responder(50, latency=0.01)  # so that as many calls are made as it takes, and not all that a core can
    with responding_apart(responder) as url:
        found = run_wrk(Side(kind, url, kind, 2), 0.1, first=100)  # wrk counts whole seconds, and goes on for one
    assert found.failures == 0
    assert responder.requests >= found.requests > 0
    # wrk makes a call for itself first, and its two connections overtake each other.
    assert responder.last in {BODIES[kind](100 + responder.requests + more).encode() for more in range(-2, 3)}


@pytest.mark.deep
def test_calls_of_every_kind_are_answered_through_the_proxy() -> None:
    with bench() as lab:
        ours = lab.rpcaccel(f"{lab.responder()},id=static")
        assert {kind: refused(ours.url, BODIES[kind](5)) for kind in BODIES} == dict.fromkeys(BODIES, "")
        assert [post(ours.url, BODIES["keys"](7))[1] for _ in range(2)] == ["miss", "memory"]


def test_a_node_that_costs_something_takes_its_processor_time_for_each_call_of_a_batch() -> None:
    responder = Responder(100, work=0.005)
    began = time.thread_time()
    responder.answer(b'[{"id":1,"method":"eth_chainId"},{"id":2,"method":"eth_chainId"}]')
    assert 0.01 <= time.thread_time() - began < 0.1


def test_the_means_lie_in_the_range_that_the_study_found_behind_its_proxy() -> None:
    means = {method: Latency.parse(text).mean * 1000 for method, text in seed.latencies().items()}
    blocks = means.pop("hmyv2_getBlocks")
    for factor in seed.FACTORS:
        assert min(means.values()) * factor >= 85
        assert max(means.values()) * factor <= 265
        assert blocks * factor <= 1612


def test_a_method_that_answers_no_object_gets_none() -> None:
    responder = Responder(100)
    assert b'"result":"0x1"' in responder.answer(b'{"id":1,"method":"eth_getTransactionCount"}')
    assert b'"result":{"number"' in responder.answer(b'{"id":1,"method":"eth_getBlockByHash"}')
    assert FORMS["eth_getLogs"] == b"[0]"
    assert FORMS["eth_pendingTransactions"] == b"[]"


def page_of(folder: Path, section: str) -> Path:
    page = folder / "page.md"
    page.write_text(f"# P\n<!-- measured: {section} -->\n<!-- end of {section} -->\n")
    return page


def test_a_part_that_fails_is_told_and_the_others_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    def broken(_watch: Watch, _short: bool) -> Report:
        raise RuntimeError("calls failed")

    page = page_of(tmp_path, "b")
    code = run({"a": broken, "b": lambda _watch, _short: REPORT}, page, short=False, say=said.append)
    assert code == 1
    assert "== a failed: calls failed" in said
    assert "*machine*: m" in page.read_text()
    assert "machine: m" in capsys.readouterr().out


def test_what_was_interrupted_is_shown_and_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def interrupted(watch: Watch, _short: bool) -> Report:
        asked.append("a")
        watch.part("half of it", 0, 2)
        watch.stop.set()
        return REPORT

    page = page_of(tmp_path, "a")
    assert run({"a": interrupted, "b": interrupted}, page, short=False, say=lambda _text: None) == 0
    assert asked == ["a"]
    assert "machine: m" in capsys.readouterr().out
    assert "*machine*" not in page.read_text()
