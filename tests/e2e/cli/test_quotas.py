"""The use of a node's quota outlives the program and its workers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from rpcaccel.controlplane.nodes.quotas import KeptQuotas
from rpcaccel.controlplane.settings.kept_file import KeptFile
from rpcaccel.core.nodes.limits import Brought
from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.running import Running, Serve, until


def config(folder: Path, nodes: list[SimNode]) -> Path:
    path = folder / "rpcaccel.toml"
    path.write_text(
        "[networks.harmony-s0]\nnodes = [\n"
        + "".join(f'  {{ id = "{node.name}", url = "{node.url}", quota = {{ month = 1000 }} }},\n' for node in nodes)
        + "]\n"
    )
    return path


async def used(running: Running) -> float:
    """Of the month, over all nodes."""
    return float(sum(use["used"] for node in (await running.nodes()).values() for use in node["quota"]))


async def spend(running: Running, first: int, calls: int) -> None:
    for block in range(first, first + calls):
        await running.call("hmyv2_getBlockByNumber", block, {})


async def counted(running: Running, at_least: float) -> None:
    async def holds() -> bool:
        return await used(running) >= at_least

    await until("the calls are counted", holds)


async def test_what_was_used_is_still_used_after_workers_were_killed_and_after_a_restart(
    serve: Serve, tmp_path: Path
) -> None:
    """An older month is not gone on with."""
    async with harmony_nodes(2) as nodes:
        flags = ("--config", config(tmp_path, nodes))
        file = KeptFile(tmp_path / "rpcaccel.quota.json", KeptQuotas)
        file.save(
            [Brought(network="harmony-s0", node=nodes[0].name, window="month", used=999, since=0, renews=86_400.0)]
        )
        running = await serve([], *flags, "--workers", "2")
        assert await used(running) < 900
        await spend(running, 1, 20)
        await counted(running, 20)
        await kill_all(running)
        await spend(running, 40, 5)
        await counted(running, 25)
        await spend(running, 50, 5)  # what is not told yet is told at the end
        assert await running.end() == 0
        again = await serve([], *flags)
        before = await used(again)
        assert 30 <= before < 900
        await spend(again, 60, 5)
        assert await again.end() == 0
        assert sum(use.used for use in (file.load() or KeptQuotas(uses=())).uses) >= before + 5


async def kill_all(running: Running) -> None:
    """Kill every worker, and wait for those in their place."""
    pids = {worker["pid"] for worker in (await running.api("workers"))["workers"]}
    for pid in pids:
        os.kill(pid, signal.SIGKILL)

    async def replaced() -> bool:
        workers = (await running.api("workers"))["workers"]
        return all(one["pid"] not in pids and one["uptime"] is not None for one in workers)

    await until("all are replaced", replaced)
