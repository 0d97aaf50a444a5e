"""Every part of the evidence works; what it finds is not judged here."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from benchmarks import evidence, growth, misses, overhead, seed, sustained
from benchmarks.responder import FORMS, Responder
from benchmarks.sustained import Stage
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.report.report import Report, Table
from rpcaccel.simnode.chain.knobs import Latency

REPORT = Report("T", {"machine": "m"}, [Table("U", ("x",), [("1",)])])


def cells(report: Report) -> list[tuple[str, ...]]:
    return [row for table in report.tables for row in table.rows]


@pytest.mark.deep
def test_the_seed_table_has_every_method_and_every_way() -> None:
    report = seed.measure(Watch(), number=2, concurrency=2, scale=0.01)
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
def test_every_stage_of_the_load_is_told() -> None:
    (table,) = sustained.measure(Watch(), [Stage("held", 100, 0.2), Stage("spike", 200, 0.1)], number=1).tables
    assert [row[0] for row in table.rows] == ["held", "spike"]


@pytest.mark.deep
def test_overhead_is_told_of_misses_and_hits() -> None:
    (table,) = overhead.measure(Watch(), seconds=0.1, runs=1, latencies=(0.0,)).tables
    assert [row[0].rpartition(" ")[2] for row in table.rows] == ["direct", "miss", "hit"]


@pytest.mark.deep
def test_growth_is_told_of_each_thing() -> None:
    report = growth.measure(Watch(), growth.Size((2,), (300,), (1_000,), (1,), 0.05, 1, 1_000))
    assert [row[0] for row in cells(report)] == ["nodes: 2", "methods called: 300", "workers: 1", "1,000"]
    assert [[cell for cell in row if cell.endswith("µs")] != [] for row in cells(report)] == [True] * 4


@pytest.mark.deep
def test_misses_are_told_before_each_kind_of_node() -> None:
    (table,) = misses.measure(Watch(), seconds=0.2, runs=1, connections=(4,)).tables
    assert [row[:2] for row in table.rows] == [("static", "4"), ("100 µs a call", "4")]
    assert all(row[2].endswith("/s") and float(row[4]) > 0 for row in table.rows)


def test_a_node_that_costs_something_takes_its_processor_time_for_each_call_of_a_batch() -> None:
    responder = Responder(100, work=0.005)
    began = time.thread_time()
    responder.answer(b'[{"id":1,"method":"eth_chainId"},{"id":2,"method":"eth_chainId"}]')
    assert 0.01 <= time.thread_time() - began < 0.1


def test_there_are_so_many_methods_that_the_proxy_knows() -> None:
    methods = {call.method for call in growth.known(300)}
    assert len(methods) == 300
    assert not [method for method in methods if method.endswith("subscribe")], "over HTTP that fails"


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


def test_a_part_that_fails_is_told_and_the_others_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    def broken(_watch: Watch) -> Report:
        raise RuntimeError("calls failed")

    def good(_watch: Watch) -> Report:
        return REPORT

    page = tmp_path / "page.md"
    page.write_text("# P\n<!-- measured: b -->\n<!-- end of b -->\n")
    code = evidence.run({"a": (broken, broken), "b": (good, broken)}, page, short=False, say=said.append)
    assert code == 1
    assert "== a failed: calls failed" in said
    assert "*machine*: m" in page.read_text()
    assert "machine: m" in capsys.readouterr().out


def test_what_was_interrupted_is_shown_and_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def interrupted(watch: Watch) -> Report:
        asked.append("a")
        watch.part("half of it", 0, 2)
        watch.stop.set()
        return REPORT

    page = tmp_path / "page.md"
    page.write_text("# P\n<!-- measured: a -->\n<!-- end of a -->\n")
    parts = {"a": (interrupted, interrupted), "b": (interrupted, interrupted)}
    assert evidence.run(parts, page, short=True, say=lambda _text: None) == 0
    assert asked == ["a"]
    assert "machine: m" in capsys.readouterr().out
    assert "*machine*" not in page.read_text()
