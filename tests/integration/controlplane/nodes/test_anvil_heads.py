"""The heads of a real EVM node: pushed by it, and found by probes that know when the next block is due."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from rpcaccel.config.model import NetworkSettings, NodeSettings
from rpcaccel.controlplane.nodes.prober import Prober
from rpcaccel.core.heads.served_head import NetworkHeads
from rpcaccel.core.messages import Announced
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient
from tests.support.services import Anvil
from tests.support.waiting import until

ENOUGH = 8
"""Blocks that are followed."""


def ask(node: Anvil, method: str, *params: Any) -> Any:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(node.url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)["result"]


class CountingClient(HttpNodeClient):
    """A node's session that counts the probes of the head."""

    looks = 0

    async def send(self, method: str, params: bytes, *, timeout: float, span: str = "") -> Answer | Failure:
        type(self).looks += params == b'["latest",false]'
        return await super().send(method, params, timeout=timeout, span=span)


class Followed:
    """What a prober tells of one node."""

    def __init__(self) -> None:
        self.told: list[NetworkHeads] = []
        self.announced: list[Announced] = []

    @property
    def head(self) -> int:
        return self.told[-1].served.head if self.told else -1


@asynccontextmanager
async def following(node: Anvil, **settings: Any) -> AsyncIterator[Followed]:
    seen = Followed()

    def connect(one: NodeSettings) -> HttpNodeClient:
        return CountingClient(one)

    CountingClient.looks = 0
    given = {"chain": "ethereum", "nodes": [{"id": "a", "url": node.url}], **settings}
    prober = Prober(
        "net",
        NetworkSettings.model_validate(given),
        publish=seen.told.append,
        announce=seen.announced.append,
        connect=connect,
    )
    await prober.start()
    try:
        yield seen
    finally:
        await prober.stop()


async def test_blocks_that_a_node_pushes_are_served_with_their_hashes_and_need_few_probes(
    new_anvil: Callable[..., Anvil],
) -> None:
    node = new_anvil("--block-time", "0.5")
    async with following(node) as seen:
        await until(lambda: seen.told and seen.told[-1].nodes[0].pushes)
        first, looks = seen.head, CountingClient.looks
        await until(lambda: seen.head >= first + ENOUGH)
        numbers = [one.number for one in seen.announced]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert CountingClient.looks - looks <= ENOUGH / 2
        hashes = {one.number: one.hash for one in seen.announced}
        assert all(heads.served.hash == hashes[heads.served.head] for heads in seen.told[-ENOUGH:])
        ask(node, "anvil_reorg", 3, [])
        ask(node, "evm_mine")
        newest = ask(node, "eth_getBlockByNumber", "latest", False)
        await until(lambda: seen.head >= int(newest["number"], 16))
        told = {heads.served.head: heads.served.hash for heads in seen.told}
        replaced = int(newest["number"], 16) - 2
        assert ask(node, "eth_getBlockByNumber", hex(replaced), False)["hash"] != hashes.get(replaced)
        assert told[int(newest["number"], 16)] == newest["hash"]
        assert seen.told[-1].served.fork_epoch > 0


async def test_blocks_of_a_node_without_a_websocket_are_found_by_few_probes(new_anvil: Callable[..., Anvil]) -> None:
    node = new_anvil("--block-time", "1")
    async with following(node, websockets="off") as seen:
        await until(lambda: seen.head >= 12)  # the rhythm is known by then
        first, looks = seen.head, CountingClient.looks
        await until(lambda: seen.head >= first + ENOUGH)
        assert CountingClient.looks - looks <= 3 * ENOUGH + 5
        assert not seen.announced
        assert not any(heads.nodes[0].pushes for heads in seen.told)
