"""`bench rate`: reported, or refused."""

from __future__ import annotations

from msgspec.structs import replace

from benchmarks.responder import Responder
from rpcaccel.bench.load.client import parse
from rpcaccel.bench.load.generator import RateHeld
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.bench.report.statistics import Series
from rpcaccel.bench.runs.rate import RateOptions, rate, reported
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.serving import responding

ASKED = RateOptions(parse("http://127.0.0.1:1"), rate=100, duration=2.0)
GOOD = RateHeld(wanted=100, sent=100, late=0.0001, calls=2000, waited=0, busy=0.1)


def measured() -> Series:
    series = Series()
    for number in range(2000):
        series.add(0.001 * (1 + number % 10), "" if number % 100 else "http 502", "memory")
    return series


def test_the_report_has_percentiles_a_histogram_and_errors_by_kind() -> None:
    series = measured()
    report = reported(ASKED, series, series.summary(2.0), GOOD)
    (row,) = report.tables[0].rows
    assert "20 (http 502: 20)" in row
    histogram, tail = report.plots
    assert sum(int(row[1]) for row in histogram.rows) == 1980
    assert [row[0] for row in tail.rows] == ["50 %", "90 %", "99 %", "99.9 %"]
    assert tail.rows[2][1] == "10"
    assert report.data["summary"]["p99"] == 0.01


def test_a_rate_that_was_not_held_has_no_latencies() -> None:
    series = measured()
    report = reported(ASKED, series, series.summary(2.0), replace(GOOD, sent=60.0))
    assert not report.tables
    assert not report.plots
    assert "summary" not in report.data
    assert "did not hold the rate" in report.remarks[0]


def test_what_was_measured_until_an_interruption_is_told() -> None:
    report = reported(ASKED, Series(), Series().summary(0.0), GOOD, stopped=True)
    assert "interrupted" in report.remarks[0]
    assert report.tables


async def test_one_call_is_measured_alone() -> None:
    responder = Responder()
    async with responding(responder) as url:
        asked = RateOptions(parse(url), rate=200, duration=0.2, connections=64, call=LoadCall("eth_gasPrice"))
        report, _ = await rate(asked, Watch())
        assert set(responder.asked) == {"eth_gasPrice"}
        assert report.facts["calls"] == "eth_gasPrice"


async def test_a_node_is_measured_with_what_dapps_call() -> None:
    async with harmony_nodes(1) as (node,):
        asked = RateOptions(parse(node.url), rate=100, duration=0.2, mix="dapp")
        report, _ = await rate(asked, Watch())
        assert report.facts["calls"] == "what DApps call"
        assert node.counts.requests > 0


async def test_a_node_is_measured_with_a_mix_about_what_it_has() -> None:
    async with harmony_nodes(1) as (node,):
        asked = RateOptions(parse(node.url), rate=100, duration=0.2, methods=("hmyv2_getBlockSigners",))
        report, _ = await rate(asked, Watch())
        assert node.counts.asked("hmyv2_getBlockSigners") > 0
        assert report.facts["calls"] == "hmyv2_getBlockSigners"
