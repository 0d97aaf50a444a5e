"""Suggested weights over real HTTP: simulated nodes, of which one is slow."""

from __future__ import annotations

import itertools
import json
from typing import Any

from rpcaccel.core.stats.suggested_weights import ENOUGH_CALLS
from rpcaccel.simnode.server.factories import harmony_chain
from tests.support.fleet import NETWORK, Fleet, GatedNode, fleet_of
from tests.support.running import until

BATCH = 100
METHOD = "hmyv2_getBlockTransactionCountByNumber"


async def call(fleet: Fleet, count: int) -> None:
    """So many calls in batches, no two alike."""
    blocks = itertools.count(1)
    for _ in range(count // BATCH):
        batch = [
            {"jsonrpc": "2.0", "id": block, "method": METHOD, "params": [block]}
            for block in itertools.islice(blocks, BATCH)
        ]
        reply = await fleet.proxy.post(json.dumps(batch).encode())
        assert all("result" in one for one in reply.json), reply.body


async def test_suggested_weights_come_with_the_calls_and_are_applied_and_undone() -> None:
    chain = harmony_chain(10_000)
    nodes = [GatedNode(chain, name=f"node-{number}") for number in range(2)]
    async with fleet_of(nodes) as fleet:
        nodes[1].knobs.turn({"latency": "50ms"})
        revision = (await fleet.proxy.api("settings"))["revision"]
        status, refused = await fleet.proxy.change({}, f"networks/{NETWORK}/weights", "POST")
        assert (status, "too early to compare" in refused["detail"]) == (409, True), refused
        await call(fleet, 2 * ENOUGH_CALLS + BATCH)
        told = dict[str, Any]()

        async def suggested() -> bool:
            told.update(await fleet.proxy.api("nodes/report?over=hour"))
            return all(node["suggested_weight"] for node in told["nodes"])

        await until("a suggestion", suggested)
        weights = {node["id"]: node["suggested_weight"]["value"] for node in told["nodes"]}
        assert weights == {"node-0": 3, "node-1": 1}
        status, changed = await fleet.proxy.change({"weights": weights}, f"networks/{NETWORK}/weights", "POST")
        assert (status, changed["undo"]) == (200, revision), changed
        status, undone = await fleet.proxy.change({}, "settings/undo", "POST")
        assert (status, undone["revision"]) == (200, revision + 2), undone
