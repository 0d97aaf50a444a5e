"""Makes simulated nodes and chains with usual settings, for tests and for the demo."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from rpcaccel.simnode.chain.blocks import ChainSpec
from rpcaccel.simnode.chain.knobs import Knobs
from rpcaccel.simnode.chain.sim_chain import ByHand, Clock, SimChain
from rpcaccel.simnode.server.sim_server import SimNode

Serving = AbstractAsyncContextManager[list[SimNode]]
"""Nodes that are served while a block runs."""
DEMO_LATENCY = ("jitter:40ms+8ms", "jitter:90ms+15ms", "jitter:200ms+40ms")
DEMO_WANDER = (0.0, 0.0, 0.2)
"""The slowest of the demo's nodes is one block behind at every fifth block."""
DEMO_WEBSOCKETS = ("on", "off", "on")
"""One of the demo's nodes pushes nothing, as many public nodes."""


def knobs(**positions: Any) -> Knobs:
    """Knobs from plain values: `knobs(latency="40ms", lag=1)`. Raises ValueError for one that does not fit."""
    made = Knobs()
    made.turn(positions)
    return made


def harmony_chain(head: int = 200, **spec: Any) -> SimChain:
    """A Harmony chain whose head a test moves by `advance`."""
    return SimChain(ChainSpec(**spec), heads=ByHand(head))


def ethereum_chain(head: int = 200, **spec: Any) -> SimChain:
    """An EVM chain (finalized tag, reorgs) whose head a test moves by `advance`."""
    return SimChain(ethereum_spec(**spec), heads=ByHand(head))


def ethereum_spec(**spec: Any) -> ChainSpec:
    """The spec of an EVM chain: chain id 1337, a block every 12 seconds."""
    ids: dict[str, Any] = {"network_id": 1337, "eth_chain_id": 1337, "block_time": 12.0}
    return ChainSpec(**{"kind": "ethereum", **ids, **spec})


@asynccontextmanager
async def running(
    chain: SimChain,
    count: int = 3,
    *,
    clock: Clock | None = None,
    each: Sequence[dict[str, Any]] = (),
    **positions: Any,
) -> AsyncIterator[list[SimNode]]:
    """`count` nodes of one chain, served while the block runs; `each[i]` adds to the knobs of node i."""
    settings = [{**positions, **(each[i] if i < len(each) else {})} for i in range(count)]
    nodes = [
        SimNode(chain, name=f"node-{i}", knobs=knobs(**setting), clock=clock) for i, setting in enumerate(settings)
    ]
    try:
        for node in nodes:
            await node.start()
        yield nodes
    finally:
        await asyncio.gather(*(node.kill() for node in nodes))


def harmony_nodes(count: int = 3, *, head: int = 200, **positions: Any) -> Serving:
    """`count` Harmony nodes of one hand-moved chain: `async with harmony_nodes(3, latency="5ms") as nodes`."""
    return running(harmony_chain(head), count, **positions)


def ethereum_nodes(count: int = 3, *, head: int = 200, **positions: Any) -> Serving:
    """`count` geth-like nodes of one hand-moved chain."""
    return running(ethereum_chain(head), count, **positions)


def demo_nodes(spec: ChainSpec | None = None) -> list[SimNode]:
    """Three nodes of one chain that moves by the clock: uneven latency, one a block behind now and then."""
    chain = SimChain(spec or ChainSpec())
    return [
        SimNode(chain, name=f"sim-{i}", knobs=knobs(latency=latency, wander=wander, skew=0.02 * i, websocket=websocket))
        for i, (latency, wander, websocket) in enumerate(zip(DEMO_LATENCY, DEMO_WANDER, DEMO_WEBSOCKETS, strict=True))
    ]
