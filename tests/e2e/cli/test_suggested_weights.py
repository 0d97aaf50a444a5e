"""Suggested weights over real HTTP: simulated nodes of 20, 60 and 200 ms, one of them with a quota a second."""

from __future__ import annotations

import asyncio
import itertools
import time
from statistics import fmean
from typing import Any

from rpcaccel.simnode.server.factories import harmony_chain
from tests.support.fleet import NETWORK, Fleet, GatedNode, fleet_of
from tests.support.running import until

RATE, SECONDS, UNTIMED = 80.0, 4.0, 1.5
"""Calls a second, and for how long; those of the first seconds use up what a quota has saved, and are not timed."""
QUOTA = 30.0
"""Calls a second that the quickest node is given at the most."""


class Paced:
    """Calls at a constant rate, no two alike, and how long they took."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.blocks = itertools.count(1)

    async def mean(self, weights: tuple[int, ...] = ()) -> float:
        """The mean seconds of calls at RATE over SECONDS, with these weights."""
        if weights:
            await self.fleet.set(nodes={f"node-{id}": {"weight": weight} for id, weight in enumerate(weights)})
        async with asyncio.TaskGroup() as group:
            began, tasks = time.monotonic(), []
            for number in range(int(RATE * SECONDS)):
                await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
                tasks.append(group.create_task(self._call(next(self.blocks))))
        return fmean(task.result() for task in tasks[int(RATE * UNTIMED) :])

    async def _call(self, block: int) -> float:
        began = time.monotonic()
        reply = await self.fleet.proxy.call("hmyv2_getBlockTransactionCountByNumber", block)
        assert "result" in reply.json, reply.body
        return time.monotonic() - began


async def test_suggested_weights_are_applied_and_make_calls_quicker() -> None:
    chain = harmony_chain(10_000)
    nodes = [GatedNode(chain, name=f"node-{number}") for number in range(3)]
    async with fleet_of(nodes) as fleet:
        for node, latency in zip(nodes, ("20ms", "60ms", "200ms"), strict=True):
            node.knobs.turn({"latency": latency})
        await fleet.set(nodes={"node-0": {"quota": {"second": QUOTA}}})
        revision = (await fleet.proxy.api("settings"))["revision"]
        paced, told = Paced(fleet), dict[str, Any]()
        before = await paced.mean()

        async def suggested() -> bool:
            told.update(await fleet.proxy.api("nodes/report?over=hour"))
            return all(node["suggested_weight"] for node in told["nodes"])

        await until("a suggestion", suggested)
        weights = {node["id"]: node["suggested_weight"]["value"] for node in told["nodes"]}
        assert all(node["suggested_weight"]["why"] for node in told["nodes"])
        status, changed = await fleet.proxy.change({"weights": weights}, f"networks/{NETWORK}/weights", "POST")
        assert (status, changed["undo"]) == (200, revision), changed
        # The slowest node takes 200 ms: whatever the machine adds, calls take longer while it gets a third of them.
        assert await paced.mean() < before
        whole = sum(weights.values())
        assert weights["node-2"] / whole < 0.1, weights
