"""Nodes of different roles with nothing configured: who has the explorer's index is found out."""

from __future__ import annotations

from rpcaccel.simnode.server.factories import harmony_chain, knobs
from tests.support.fleet import GatedNode, fleet_of
from tests.support.running import QUICK, until

INDEXED = ("getStakingTransactionsHistory", "getTransactionsHistory")
COUNTED = ("getTransactionsCount", "getStakingTransactionsCount")
EXPLORER = (False, True, False)


async def test_the_index_is_asked_of_the_explorer_alone() -> None:
    chain = harmony_chain()
    nodes = [GatedNode(chain, name=f"node-{i}", knobs=knobs(explorer=is_one)) for i, is_one in enumerate(EXPLORER)]
    async with fleet_of(nodes, "--memory", "0", env=QUICK) as fleet:
        proxy, who = fleet.proxy, f"0x{chain.generator.validators[0].hex()}"

        async def shown() -> bool:
            told = await proxy.nodes()
            return tuple(told[node.name]["says"].get("explorer") for node in nodes) == EXPLORER

        await until("what the nodes say of themselves", shown)
        replies = []
        for number in range(5):
            page = {"address": who, "pageIndex": number, "pageSize": 5, "txType": "ALL", "order": "ASC"}
            for space in ("hmy", "hmyv2", "eth"):
                replies += [await proxy.call(f"{space}_{name}", {**page, "fullTx": False}) for name in INDEXED]
                replies += [await proxy.call(f"{space}_{name}", who, "ALL") for name in COUNTED]
        assert all(reply.json.get("result") is not None for reply in replies), [reply.json for reply in replies]
        assert {reply.node for reply in replies} == {"node-1"}
        assert [node.counts.asked(f"hmyv2_{name}") for node in nodes for name in INDEXED] == [0, 0, 5, 5, 0, 0]
        assert (await proxy.nodes())["node-1"]["roles"] == [], "what the operator says stands beside what it says"
