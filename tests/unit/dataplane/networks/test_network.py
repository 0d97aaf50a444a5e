"""A network's state in a worker."""

from __future__ import annotations

import asyncio

from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.proxy import proxying


async def test_who_waits_for_a_change_goes_on_when_it_comes_or_when_time_is_up() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        network = proxy.worker.state.networks["harmony-s0"]
        assert not await network.wait_for_change(0.0)
        waiting = [asyncio.create_task(network.wait_for_change(10)) for _ in range(3)]
        await asyncio.sleep(0)
        network.see(ChainSnapshot(serial=99))
        assert await asyncio.gather(*waiting) == [True] * 3
        assert not await network.wait_for_change(0.0)


async def test_a_method_nobody_describes_is_counted_with_all_others_of_its_kind() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        network = proxy.worker.state.networks["harmony-s0"]
        one, other = (network.cell(network.plan(name, b"[]")) for name in ("x_a", "x_b"))
        assert one is other
        known = network.cell(network.plan("eth_call", b"[]"))
        assert known is network.cell(network.plan("eth_call", b'[{},"latest"]'))
        assert "harmony-s0" in repr(network)
