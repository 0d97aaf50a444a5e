"""Nodes of several chains and shards on one command line: each network on its path, with nothing said about them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from rpcaccel.simnode.server.factories import ethereum_chain, harmony_chain
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.fixtures import shared
from tests.support.running import HARMONY, Serve


@shared
async def nodes() -> AsyncIterator[dict[str, SimNode]]:
    """A node of each of two shards and of one EVM chain, and a second one of shard 1."""
    shard_1 = harmony_chain(150, shard=1)
    chains = {"one": shard_1, "two": shard_1, "zero": harmony_chain(100), "geth": ethereum_chain(300)}
    async with AsyncExitStack() as running:
        made = {}
        for name, chain in chains.items():
            made[name] = node = SimNode(chain, name=name)
            await node.start()
            running.push_async_callback(node.kill)
        yield made


async def test_every_chain_and_shard_is_served_on_its_path_and_a_node_that_is_down_once_it_is_up(
    serve: Serve, nodes: dict[str, SimNode]
) -> None:
    """The first network is served at the root as well."""
    await nodes["two"].kill()
    order = [nodes[name] for name in ("two", "one", "geth", "zero")]
    proxy = await serve(order, env={"RPCACCEL_NETWORKS__HARMONY_S1__BLOCK_TIME": "200ms"})
    asked = {
        "/": ("hmyv2_getShardID", 1),
        "/harmony-s1": ("hmyv2_getShardID", 1),
        "/harmony-s0": ("hmyv2_getShardID", 0),
        "/ethereum": ("eth_chainId", "0x539"),
    }
    got = {path: (method, (await proxy.call(method, path=path)).result) for path, (method, _) in asked.items()}
    assert got == asked
    heads = [(await proxy.call("eth_blockNumber", path=path)).result for path in asked]
    assert heads == [hex(150), hex(150), hex(100), hex(300)]
    for line in (
        f"harmony-s1     {proxy.url}/  <- two (weight 1), one (weight 1)",
        f"ethereum       {proxy.url}/ethereum  <- geth (weight 1)",
        f"harmony-s0     {proxy.url}/harmony-s0  <- zero (weight 1)",
        "has not said what it serves",
        "taken for a node of harmony-s1",
    ):
        assert line in proxy.program.output
    await nodes["two"].start()
    await proxy.node_in("serving", "two")
    assert await proxy.end() == 0


async def test_what_the_operator_says_wins(serve: Serve, nodes: dict[str, SimNode]) -> None:
    proxy = await serve([nodes["one"]], *HARMONY, ready=False)
    await proxy.node_in("wrong-chain", "one")
    assert (await proxy.nodes())["one"]["why"] == "it serves shard 1, not 0"
    assert await proxy.end() == 0
