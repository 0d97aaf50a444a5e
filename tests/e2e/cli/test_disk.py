"""The disk tier as operators meet it: over kills."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.running import Running, Serve, until

BLOCK = "eth_getBlockByNumber"
PATIENT = {"RPCACCEL_DISK__READ_TIMEOUT": "10s"}
"""On a busy machine a healthy disk may take longer than the default."""
NUMBERS = range(1, 151)


def calls(numbers: range = NUMBERS) -> list[tuple[str, list[Any]]]:
    return [(BLOCK, [hex(number), True]) for number in numbers]


async def served(serve: Serve, nodes: list[SimNode], tmp_path: Path, *flags: str) -> Running:
    """A proxy without memory, so that every call is asked of the disk."""
    return await serve(nodes, "--disk", tmp_path / "cache", "--memory", "0", *flags, env=PATIENT)


async def in_tier(proxy: Running, name: str, least: float) -> None:
    """Wait until a figure of the disk tier has reached `least`."""

    async def holds() -> bool:
        return (await proxy.metrics()).sum(name, tier="disk") >= least

    await until(f"{name} of {least}", holds)


@pytest.mark.smoke
async def test_two_workers_that_are_killed_leave_what_they_wrote_to_those_after_them(
    serve: Serve, tmp_path: Path
) -> None:
    async with harmony_nodes(1) as nodes:
        proxy = await served(serve, nodes, tmp_path, "--workers", "2")
        first = {reply.result["number"]: reply.result for reply in await proxy.load(calls())}
        await in_tier(proxy, "rpcaccel_tier_stored_total", len(NUMBERS))
        os.kill(proxy.program.pid, signal.SIGKILL)
        await asyncio.to_thread(proxy.program.wait)
        proxy = await served(serve, nodes, tmp_path, "--workers", "2")
        asked = nodes[0].counts.asked(BLOCK)  # the first look at a node asks for two blocks
        again = await proxy.load(calls())
        assert {reply.cache for reply in again} == {"disk"}
        assert {reply.result["number"]: reply.result for reply in again} == first
        assert nodes[0].counts.asked(BLOCK) == asked
        await in_tier(proxy, "rpcaccel_tier_entries", len(NUMBERS))
        status, done = await proxy.change({"method": BLOCK}, "purge", "POST")
        assert (status, done["disk"], done["complete"]) == (200, len(NUMBERS), True)
        assert {reply.cache for reply in await proxy.load(calls())} <= {"miss", "flight"}
