"""Nodes of different roles with nothing configured: who has the explorer's index is found out, and found out again."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest_asyncio

from rpcaccel.simnode.server.factories import harmony_chain, knobs
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.fixtures import shared
from tests.support.fleet import Fleet, GatedNode, fleet_of
from tests.support.proxy import Reply
from tests.support.running import QUICK, Running, until

EXPLORER, VALIDATOR = {"explorer": True}, {"explorer": False}
ROLES = (VALIDATOR, EXPLORER, VALIDATOR)
INDEXED = ("getStakingTransactionsHistory", "getTransactionsHistory")
SPACES = ("hmy", "hmyv2", "eth")
COUNTED = ("getTransactionsCount", "getStakingTransactionsCount")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def _roles() -> AsyncIterator[Fleet]:
    chain = harmony_chain()
    nodes = [GatedNode(chain, name=f"node-{i}", knobs=knobs(**role)) for i, role in enumerate(ROLES)]
    async with fleet_of(nodes, "--memory", "0", env=QUICK) as fleet:
        yield fleet


@shared
async def roles(_roles: Fleet) -> Fleet:
    """A program that keeps nothing over one explorer between two validators, as it has found out."""
    await _roles.fresh()
    for node, role in zip(_roles.nodes, ROLES, strict=True):
        await says(_roles.proxy, node.name, role["explorer"])
    return _roles


async def indexed(proxy: Running, who: str, round_: int, spaces: Sequence[str] = SPACES) -> list[Reply]:
    """One reply of each method of the index, in each namespace; no call is like one of another round."""
    replies = []
    for space in spaces:
        page = {"address": who, "pageIndex": round_, "pageSize": 5, "fullTx": False, "txType": "ALL", "order": "ASC"}
        replies += [await proxy.call(f"{space}_{name}", page) for name in INDEXED]
        replies += [await proxy.call(f"{space}_{name}", who, "ALL") for name in COUNTED]
    return replies


def who_said(replies: list[Reply]) -> Counter[str]:
    """Who answered, of replies that are all whole answers."""
    assert all(reply.json.get("result") is not None for reply in replies), [reply.json for reply in replies]
    return Counter(reply.node for reply in replies)


async def says(proxy: Running, node_id: str, explorer: bool) -> None:
    """Wait until the admin API shows that a node says this of itself."""

    async def shown() -> Any:
        return (await proxy.nodes())[node_id]["says"].get("explorer") is explorer

    await until(f"{node_id} says it is {'an' if explorer else 'no'} explorer", shown)


async def test_the_index_is_asked_of_the_explorer_alone(roles: Fleet) -> None:
    who = roles.nodes[0].chain.generator.validators[0]
    replies = [reply for round_ in range(5) for reply in await indexed(roles.proxy, f"0x{who.hex()}", round_)]
    assert set(who_said(replies)) == {"node-1"}
    asked = [node.counts.asked(f"hmyv2_{name}") for node in roles.nodes for name in INDEXED]
    assert asked == [0, 0, 5, 5, 0, 0]
    assert (await roles.proxy.nodes())["node-1"]["roles"] == [], "what the operator says stands beside what it says"


async def restart(proxy: Running, node: SimNode, **positions: Any) -> None:
    """The node goes away for long enough to be missed, and comes back as something else."""
    await node.kill()
    await proxy.node_in("failing", node.name)
    node.knobs.turn(positions)
    await node.start()
    await says(proxy, node.name, positions["explorer"])


async def test_a_node_that_comes_back_as_something_else_is_asked_for_what_it_is_now(roles: Fleet) -> None:
    proxy, nodes = roles.proxy, roles.nodes
    who = f"0x{nodes[0].chain.generator.validators[0].hex()}"
    await restart(proxy, nodes[2], **EXPLORER)
    await restart(proxy, nodes[1], **VALIDATOR)
    replies = [reply for round_ in range(5) for reply in await indexed(proxy, who, round_)]
    assert set(who_said(replies)) == {"node-2"}
    await restart(proxy, nodes[2], **VALIDATOR)
    words = [reply.json for reply in await indexed(proxy, who, 0)]
    told = {word["error"]["message"] if "error" in word else word["result"] for word in words}
    assert told == {"explorer service not started", None}, "nobody has it, and what the nodes say is passed on"
    await restart(proxy, nodes[1], **EXPLORER)
