"""The program over nodes of which one is wrong: real EVM nodes with an altered state, and a simulated one that lies."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.fixtures import shared
from tests.support.running import Running, Serve, until
from tests.support.services import Anvil

RICH = "0x00000000000000000000000000000000000000aa"
ALL = {
    "RPCACCEL_NETWORKS__{}__AGREEMENT__SHARE": "1",
    "RPCACCEL_NETWORKS__{}__HIDDEN_LAG": "0",
    "RPCACCEL_NETWORKS__{}__FINALITY_DEPTH": "0",
}
"""Every answer is compared, and every block is settled at once."""


def compared_all(network: str, **more: str) -> dict[str, str]:
    return {name.format(network): value for name, value in {**ALL, **more}.items()}


async def ask(http: aiohttp.ClientSession, url: str, method: str, *params: Any) -> Any:
    """The result that a node itself gives."""
    async with http.post(url, json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) as response:
        return (await response.json())["result"]


@shared
async def anvils(http: aiohttp.ClientSession) -> AsyncIterator[list[str]]:
    """The URLs of three real nodes with the same blocks, hash for hash."""
    begun = str(int(time.time()) - 7200)
    nodes = [Anvil("--no-mining", "--timestamp", begun) for _ in range(3)]
    try:
        for node in nodes:
            await ask(http, node.url, "anvil_setBlockTimestampInterval", 1)
            await ask(http, node.url, "anvil_setBalance", RICH, hex(7))
            await ask(http, node.url, "anvil_mine", hex(20))
        tips = [await ask(http, node.url, "eth_getBlockByNumber", "latest", False) for node in nodes]
        assert len({tip["hash"] for tip in tips}) == 1
        yield [node.url for node in nodes]
    finally:
        for node in nodes:
            node.stop()


async def attention(proxy: Running, part: str) -> list[dict[str, str]]:
    """The sentences of the overview that hold these words, once there is one."""
    found: list[dict[str, str]] = []

    async def holds() -> bool:
        found[:] = [one for one in (await proxy.api("overview"))["attention"] if part in one["text"]]
        return bool(found)

    await until(part, holds)
    return found


@pytest.mark.smoke
async def test_a_real_node_whose_state_was_altered_is_contradicted_and_its_answers_are_purged(
    anvils: list[str], http: aiohttp.ClientSession, serve: Serve
) -> None:
    named = [f"{url},id={name}" for url, name in zip(anvils, "abc", strict=True)]
    proxy = await serve(named, "--chain", "ethereum", env=compared_all("ETHEREUM"))
    head = await ask(http, anvils[0], "eth_blockNumber")
    await ask(http, anvils[1], "anvil_setBalance", RICH, hex(9))
    for number in range(0xB0, 0xC0):
        await ask(http, anvils[1], "anvil_setBalance", f"0x{number:040x}", hex(9))
        await proxy.call("eth_getBalance", f"0x{number:040x}", head)
    (said,) = await attention(proxy, "was contradicted by two others")
    assert (said["level"], said["subject"]) == ("bad", "ethereum/b")
    assert {name: node["suspect"] for name, node in (await proxy.nodes()).items()} == {
        "a": False, "b": True, "c": False}  # fmt: skip
    assert (
        "drain"
        in (await proxy.changed({"networks": {"ethereum": {"nodes": {"b": {"drain": True}}}}}))["change"]["text"]
    )
    asked = [(await proxy.call("eth_getBalance", f"0x{number:040x}", head)) for number in range(0xB0, 0xC0)]
    assert {reply.result for reply in asked} == {"0x0"}


async def test_a_node_that_lies_is_drained_where_that_is_wanted_and_the_last_one_is_not(serve: Serve) -> None:
    async with harmony_nodes(3, head=1000) as nodes:
        nodes[2].knobs.lies = {"old_state": 1.0}
        env = compared_all("HARMONY_S0", **{"RPCACCEL_NETWORKS__{}__ON_DISAGREEMENT": "drain"})
        proxy = await serve(nodes, env=env)
        for number in range(30):
            await proxy.call("eth_getBalance", f"0x{number:040x}", hex(500 + number))
        drained = await proxy.node_in("drained", "node-2")
        assert "draining is switched off" in drained["why"]
        (change, *_) = (await proxy.api("changes"))["changes"]
        assert (change["by"], change["via"], change["outcome"]) == ("rpcaccel", "agreement", "adopted")
        states = {name: node["state"] for name, node in (await proxy.nodes()).items()}
        assert (states["node-0"], states["node-1"]) == ("serving", "serving")
