"""A node that is added to the running program is examined before it gets calls, and that decides what it gets."""

from __future__ import annotations

from itertools import count
from typing import Any

from rpcaccel.simnode.server.factories import harmony_chain, running
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.running import QUICK, Running, Serve, until

HEAD = 4000
KEPT = 500
ADDRESSES = count()


async def balance(proxy: Running, block: int) -> Any:
    """A call that was never made before, about the state of a block."""
    return await proxy.call("hmyv2_getBalanceByBlockNumber", f"0x{next(ADDRESSES):040x}", block)


async def added(proxy: Running, node: SimNode) -> None:
    await proxy.changed({"networks": {"harmony-s0": {"nodes": {node.name: {"url": node.url}}}}})


async def test_a_node_gets_no_call_until_it_is_examined_and_no_call_about_state_that_it_lacks(serve: Serve) -> None:
    async with running(harmony_chain(HEAD), 2, each=[{}, {"archive": False, "prune_depth": KEPT}]) as (old, new):
        proxy = await serve([old], "--workers", "2", env=QUICK)
        new.knobs.turn({"method_work": {"eth_getBalance": "5s"}})  # the examination waits until its end is wanted
        await added(proxy, new)
        state = await proxy.node_in("examining", new.name)
        assert state["eligible"] is False
        assert "gets calls once that has ended" in state["why"]
        for block in range(100):
            assert (await balance(proxy, HEAD - block)).node == old.name
        assert (await proxy.nodes())[new.name]["state"] == "examining", "the calls were made before its end"
        assert new.counts.asked("hmyv2_getBalanceByBlockNumber") == 0
        assert (await proxy.get(f"{proxy.url}/readyz")).status == 200

        new.knobs.turn({"method_work": {}})
        found = await proxy.node_in("serving", new.name)
        assert found["examination"]["state_from"] == HEAD - KEPT
        assert found["examination"]["agreement"]["differing"] == 0
        assert found["examination"]["agreement"]["compared"] > 5
        for block in range(40):
            assert (await balance(proxy, block)).node == old.name
        asked = new.counts.asked("hmyv2_getBalanceByBlockNumber")
        await until("it gets calls", lambda: _answered_by(proxy, new))
        assert new.counts.asked("hmyv2_getBalanceByBlockNumber") > asked == 0


async def _answered_by(proxy: Running, node: SimNode) -> bool:
    return bool((await balance(proxy, HEAD - 1)).node == node.name)
