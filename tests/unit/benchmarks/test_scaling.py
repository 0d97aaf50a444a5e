"""What several workers are worth."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.peers import bench
from benchmarks.scaling import FEWEST, WANTED, WORKERS, Load, row, spread, workers
from rpcaccel.bench.load.client import ConnectionPool, parse
from tests.support.serving import responding
from tests.support.waiting import until


def load(cpu: float, *spread: int, failures: int = 0, held: bool = True) -> Load:
    return Load(calls=1000, cpu=cpu, spread=spread, failures=failures, held=held)


def test_as_much_work_a_call_is_as_much_more_throughput_as_there_are_workers() -> None:
    found = row(load(0.02, 64), load(0.02, 30, 34))
    assert found[1:4] == ("20.0 µs a call, connections 30/34", "one: 20.0 µs a call", float(WORKERS))
    assert found[5]


@pytest.mark.parametrize("several", [load(0.02 * WORKERS / WANTED + 0.001, 32, 32), load(0.02, FEWEST - 1, 49),
                                     load(0.02, 64)])  # fmt: skip
def test_more_work_or_an_uneven_spread_is_not_what_is_wanted(several: Load) -> None:
    assert row(load(0.02, 64), several)[5] is False


@pytest.mark.parametrize("several", [load(0.02, 32, 32, failures=1), load(0.02, 32, 32, held=False),
                                     load(0.0, 32, 32)])  # fmt: skip
def test_a_run_that_did_not_go_well_has_no_figure(several: Load) -> None:
    assert row(load(0.02, 64), several)[3:] == (None, f"{WANTED:g} x one, spread evenly", None)


async def test_connections_are_counted_where_they_are_held() -> None:
    async with responding() as url:
        target = parse(url)
        pool = ConnectionPool(target, 3)
        await pool.warm(3)
        await until(lambda: spread(target.port, [os.getpid()]) == (3,))  # the last may still wait to be accepted
        assert spread(target.port, [1]) == ()
        await pool.close()


@pytest.mark.deep
def test_workers_are_measured(tmp_path: Path) -> None:
    with bench(tmp_path) as lab:
        (found,) = workers(lab, 1, 0.2, rate=100)
    assert f"{WORKERS} workers" in found[0]
    assert "failed" not in found[1]
