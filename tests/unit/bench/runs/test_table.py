"""`bench table`: side by side."""

from __future__ import annotations

import pytest

from rpcaccel.bench.load.client import parse
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import HARMONY, NoEndpointError
from rpcaccel.bench.runs.table import Column, TableOptions, reported, table
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.proxy import proxying
from tests.support.services import free_port


async def test_a_node_and_its_proxy_cold_and_warm() -> None:
    async with harmony_nodes(1, latency="20ms", limiters=False) as (node,), proxying([node]) as proxy:
        columns = [Column("direct", parse(node.url)), *(Column(name, parse(proxy.url)) for name in ("cold", "warm"))]
        begun: list[str] = []
        asked = TableOptions(tuple(columns), number=6, concurrency=3)
        found = await table(asked, Watch(), lambda column: begun.append(column.name))
        assert tuple(found.cells) == HARMONY
        assert begun == ["direct", "cold", "warm"] * 10
        assert all(not series.errors for cells in found.cells.values() for series in cells.values())
        signers = {name: found.summary("hmyv2_getBlockSigners", name) for name in ("direct", "cold", "warm")}
        assert signers["warm"] is not None
        assert signers["warm"].hit_ratio == 1.0
        assert signers["cold"] is not None
        assert signers["cold"].hit_ratio == 0.0  # no two calls alike
        report = reported(found)
        assert [row[0] for row in report.tables[1].rows] == ["direct", "cold", "warm"]
        assert len(report.tables[0].rows) == 10


async def test_failures_stand_in_the_table() -> None:
    async with harmony_nodes(1, faults={"error": 1.0}, fault_methods={"net_peerCount"}) as (node,):
        asked = TableOptions((Column("direct", parse(node.url)),), 3, 3, ("net_peerCount", "hmyv2_blockNumber"))
        report = reported(await table(asked, Watch()))
        assert "3 failed" in report.tables[0].rows[0][1]
        assert "3 (rpc -32000: 3)" in report.tables[1].rows[0]


async def test_what_answers_nothing_is_said() -> None:
    nobody = parse(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(NoEndpointError):
        await table(TableOptions((Column("direct", nobody),)), Watch())


async def test_an_interrupted_table_has_the_cells_that_were_measured() -> None:
    async with harmony_nodes(1) as (node,):
        columns = (Column("a", parse(node.url)), Column("b", parse(node.url)))
        watch = Watch()

        def stop_at_b(column: Column) -> None:
            if column.name == "b":
                watch.stop.set()

        found = await table(TableOptions(columns, 3, 3), watch, stop_at_b)
        report = reported(found, stopped=watch.stopped)
        assert len(report.tables[0].rows) == 1
        assert "interrupted" in report.remarks[0]
