"""A network's state in a worker."""

from __future__ import annotations

from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.dataplane.networks.network import ChainState
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.proxy import proxying
from tests.support.waiting import until


async def test_who_waits_for_a_change_is_told_when_it_comes_or_when_time_is_up() -> None:
    sight, told = ChainState(), []
    calls = [lambda number=number: told.append(number) for number in range(4)]
    for call in calls[:3]:
        sight.wait(10, call)
    sight.leave(calls[1])
    sight.see(ChainSnapshot(serial=99))
    assert told == [0, 2]
    sight.wake()
    assert told == [0, 2]
    sight.wait(0.0, calls[3])
    await until(lambda: told == [0, 2, 3])
    sight.leave(calls[3])


async def test_a_method_nobody_describes_is_counted_with_all_others_of_its_kind() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        network = proxy.worker.state.networks["harmony-s0"]
        one, other = (network.cell(network.plan(name, b"[]")) for name in ("x_a", "x_b"))
        assert one is other
        known = network.cell(network.plan("eth_call", b"[]"))
        assert known is network.cell(network.plan("eth_call", b'[{},"latest"]'))
        assert "harmony-s0" in repr(network)
