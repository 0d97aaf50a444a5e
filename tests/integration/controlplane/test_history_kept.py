"""The history of a whole program: over a restart, and of each client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.settings.ledger import Author, Origin, state_file
from rpcaccel.controlplane.supervisor import RunningInfo, Supervisor
from rpcaccel.core.client_limits import hashed
from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.proxy import settings_for

ANY = {"listen": "127.0.0.1:0", "admin": {"listen": "127.0.0.1:0"}, "drain_timeout": 1}
KEY = "rpcaccel_of_the_dapp"


@pytest.fixture
async def nodes() -> AsyncIterator[list[SimNode]]:
    async with harmony_nodes(1) as started:
        yield started


@asynccontextmanager
async def running(settings: Settings, state: Path | None = None) -> AsyncIterator[tuple[RunningInfo, Supervisor]]:
    supervisor = Supervisor(settings, Origin(state=state_file(state) if state else None))
    try:
        yield await supervisor.start(), supervisor
    finally:
        await supervisor.stop()


async def asked(info: RunningInfo, path: str) -> Any:
    async with aiohttp.ClientSession() as http, http.get(f"http://{info.admin}{path}") as reply:
        assert reply.status == 200, await reply.text()
        return await (reply.json() if reply.content_type == "application/json" else reply.text())


async def until(info: RunningInfo, path: str, there: Callable[[Any], object]) -> Any:
    """The document at a path, once something is in it."""
    async with asyncio.timeout(30):
        while not there(found := await asked(info, path)):
            await asyncio.sleep(0.1)
    return found


async def called(info: RunningInfo, *methods: str, key: str = "") -> None:
    headers = {"X-Api-Key": key} if key else {}
    async with aiohttp.ClientSession(headers=headers) as http:
        for method in methods:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": []}
            async with http.post(f"http://{info.listen}/", json=body) as reply:
                await reply.read()


def calls_of(document: Any) -> int:
    return sum(one["calls"] for name, one in document["sums"].items() if one and name == "24h")


async def test_charts_and_the_marks_of_changes_survive_a_restart(nodes: list[SimNode], tmp_path: Path) -> None:
    settings, state = settings_for(nodes, **ANY), tmp_path / "rpcaccel.state.json"
    network = next(iter(settings.networks))
    async with running(settings, state) as (info, supervisor):
        await called(info, *["hmyv2_getNodeMetadata"] * 5)
        await until(info, "/api/v1/history", lambda document: calls_of(document) == 5)
        await supervisor.ledger.change({"networks": {network: {"attempts": 2}}}, Author("ops"))
        before = await asked(info, "/api/v1/changes")
    assert (tmp_path / "rpcaccel.history").exists()
    async with running(settings, state) as (info, _):
        await called(info, "hmyv2_getNodeMetadata")
        for path in ("/api/v1/history?range=24h", f"/api/v1/history?range=24h&network={network}"):
            document = await until(info, path, lambda document: calls_of(document) == 6)
            assert sum(
                rate * seconds
                for rate, seconds in zip(document["outcomes"]["nodes"], document["seconds"], strict=True)
                if rate
            ) == pytest.approx(6)
        after = await asked(info, "/api/v1/changes")
    kept = [line for line in after["changes"] if line["action"] == "change"]
    assert [(line["by"], line["at"]) for line in kept] == [
        (line["by"], line["at"]) for line in before["changes"] if line["action"] == "change"
    ]
    assert kept


async def test_the_history_is_saved_at_the_end_whatever_else_fails_there(nodes: list[SimNode], tmp_path: Path) -> None:
    supervisor = Supervisor(settings_for(nodes, **ANY), Origin(state=state_file(tmp_path / "rpcaccel.state.json")))
    info = await supervisor.start()
    await until(info, "/api/v1/history", lambda document: document["sums"]["24h"])

    def fail() -> None:
        raise RuntimeError("of the streams")

    supervisor.events.close = fail
    with pytest.raises(RuntimeError, match="of the streams"):
        await supervisor.stop()
    assert (tmp_path / "rpcaccel.history").exists()


async def test_a_damaged_history_is_told_and_the_program_serves(nodes: list[SimNode], tmp_path: Path) -> None:
    (tmp_path / "rpcaccel.history").write_bytes(b"not a history")
    async with running(settings_for(nodes, **ANY), tmp_path / "rpcaccel.state.json") as (info, _):
        await called(info, "hmyv2_blockNumber")
        told = await until(info, "/api/v1/overview", lambda document: document["attention"])
        assert any("rpcaccel.history is damaged" in one["text"] for one in told["attention"])


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_client_is_told_by_its_methods_hits_and_whose_fault_its_errors_are(
    nodes: list[SimNode], workers: int
) -> None:
    nodes[0].knobs.faults["error"] = 1.0
    nodes[0].knobs.fault_methods.add("hmyv2_getNodeMetadata")
    keys = {"dapp": {"hashes": [hashed(KEY)], "deny": ["hmyv2_call"]}}
    async with running(settings_for(nodes, **ANY, workers=workers, clients={"keys": keys})) as (info, _):
        methods = ("hmyv2_gasPrice",) * 4 + ("hmyv2_invented", "hmyv2_getNodeMetadata", "hmyv2_call")
        await called(info, *methods, key=KEY)
        document = await until(
            info, "/api/v1/clients/dapp", lambda document: document["client"]["calls_total"] == 7 and document["whole"]
        )
        metrics = await asked(info, "/metrics")
    found = {one["method"]: one for one in document["methods"]}
    assert found["hmyv2_gasPrice"]["calls"] == 4
    assert found["hmyv2_gasPrice"]["hits"] >= 4 - workers  # each worker has its own memory
    assert (found["hmyv2_getNodeMetadata"]["errors"], found["other"]["client_errors"]) == (1, 1)
    assert (found["hmyv2_call"]["calls"], found["hmyv2_call"]["errors"]) == (1, 0)
    assert "hmyv2_invented" not in found, "names come from the rules"
    now = document["client"]
    assert (now["errors_total"], now["client_errors_total"], now["limited"]) == (1, 1, {"method": 1})
    assert 0 < now["hit_ratio"] < 1
    assert [sum(row) for rows in (document["latency"]["hits"], document["latency"]["misses"]) for row in rows if row]
    assert 'rpcaccel_client_errors_total{client="dapp",fault="client"} 1.0' in metrics
    assert 'rpcaccel_client_errors_total{client="dapp",fault="service"} 1.0' in metrics


async def test_a_client_that_is_not_known_and_a_range_that_is_none_are_said(nodes: list[SimNode]) -> None:
    async with running(settings_for(nodes, **ANY)) as (info, _), aiohttp.ClientSession() as http:
        for path, status in (
            ("clients/nobody", 404),
            ("history?range=1y", 404),
            ("history?network=nowhere", 404),
            ("history?from=yesterday", 400),
            ("history?from=nan", 400),
            ("history?from=1&to=2", 200),
        ):
            async with http.get(f"http://{info.admin}/api/v1/{path}") as reply:
                assert reply.status == status, path
