"""`bench compare`: pairs of runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from benchmarks.responder import Responder
from rpcaccel.bench.load.client import parse
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.bench.report.statistics import Series
from rpcaccel.bench.runs.compare import CompareOptions, CompareResults, Run, RunningSide, Side, compare, reported
from tests.support.serving import responding

ASKED = CompareOptions(
    "A side", "B side", runs=3, duration=0.1, warmup=0.02, connections=2, call=LoadCall("eth_chainId")
)


def side(url: str, log: list[str], name: str) -> Side:
    @contextmanager
    def running() -> Iterator[RunningSide]:
        log.append(name)
        yield RunningSide(parse(url))

    return running


async def test_runs_are_interleaved_and_both_sides_are_asked() -> None:
    one, other = Responder(), Responder()
    async with responding(one) as a, responding(other) as b:
        log: list[str] = []
        found = await compare(ASKED, (side(a, log, "A"), side(b, log, "B")), Watch())
        assert log == ["A", "B", "B", "A", "A", "B"]
        assert [run.side[0] for run in found.runs] == log
        for name, responder in (("A side", one), ("B side", other)):
            told = sum(run.summary.calls for run in found.runs if run.side == name)
            assert 0 < told <= responder.calls  # which has been asked for warming up as well


def test_a_slower_side_is_told() -> None:
    rates = [(100, 21), (104, 20), (98, 19)]
    runs = [made for a, b in rates for made in (run("A side", a), run("B side", b))]
    row = reported(CompareResults(ASKED, runs)).tables[0].rows[0]
    assert row[0] == "good calls (/s)"
    assert row[1] == "100.7 ± 3.1"
    assert row[-1] == "yes: A is better"
    assert float(row[3]) < 0.5


async def test_a_rate_can_be_set() -> None:
    async with responding() as url:
        asked = replace(ASKED, rate=100.0, runs=1, duration=0.2, warmup=0.0)
        found = await compare(asked, (side(url, [], "A"), side(url, [], "B")), Watch())
        # All calls that are due are made, unless the machine is so busy that the rate is given up, and that is told.
        assert [run.summary.calls for run in found.runs if run.held] == [20] * sum(run.held for run in found.runs)
        assert all(1 <= run.summary.calls <= 20 for run in found.runs)
        assert "one run tells nothing of the noise" in reported(found).tables[0].rows[0]


async def test_half_a_pair_is_left_out_when_it_is_interrupted() -> None:
    async with responding() as url:
        watch = Watch(lambda text, _share: watch.stop.set() if text.startswith("run 2") else None)
        found = await compare(ASKED, (side(url, [], "A"), side(url, [], "B")), watch)
        assert len(found.runs) == 2
        assert "interrupted" in reported(found, stopped=True).remarks[0]


def run(side: str, good: int, bad: int = 0, cores: float | None = 0.5, *, held: bool = True) -> Run:
    series = Series()
    for _ in range(good):
        series.add(0.001, "")
    for _ in range(bad):
        series.add(0.001, "http 502")
    return Run(side, series.summary(1.0), cores, 50_000_000 if cores else None, held)


def test_failures_unheld_rates_and_unknown_processes_are_remarked() -> None:
    found = CompareResults(ASKED, [run("A side", 100), run("B side", 100, bad=2, cores=None, held=False)])
    remarks = reported(found).remarks
    assert [remark.partition(":")[0] for remark in remarks] == ["B side"] * 3
    assert "http 502: 2" in remarks[0]


def test_runs_are_compared_with_those_of_their_own_pair() -> None:
    cores = [(None, 1.0), (2.0, 4.0), (8.0, 16.0), (4.0, None)]
    runs = [made for a, b in cores for made in (run("A side", 100, cores=a), run("B side", 100, cores=b))]
    table = reported(CompareResults(ASKED, [*runs[:2], runs[3], runs[2], *runs[4:]])).tables[0]
    cpu = next(row for row in table.rows if row[0] == "CPU (cores)")
    assert cpu[3:] == ("2.00", "2.00 to 2.00", "yes: A is better")


def test_noise_is_called_noise() -> None:
    rates = [(100, 103), (104, 100), (98, 97), (101, 102)]
    runs = [made for a, b in rates for made in (run("A side", a), run("B side", b))]
    table = reported(CompareResults(ASKED, runs)).tables[0]
    assert table.rows[0][-1] == "no"
    cpu = next(row for row in table.rows if row[0] == "CPU a call (µs)")
    assert float(cpu[1].partition(" ")[0].replace(",", "")) == pytest.approx(5000, rel=0.05)
