from __future__ import annotations

import pytest

from rpcaccel.simnode.chain.addresses import to_hex
from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.server.factories import harmony_chain
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.manual_clock import ManualClock
from tests.support.wallet import signed


async def test_logs_are_those_of_the_receipts(chain: SimChain, node: SimNode) -> None:
    found = await node.ask("eth_getLogs", {"fromBlock": "0x14", "toBlock": "0x64"})
    told = []
    for number in range(20, 101):
        block = await node.ask("eth_getBlockByNumber", hex(number), False)
        for receipt in await node.ask("eth_getBlockReceipts", block["hash"]):
            told += receipt["logs"]
    assert found == told != []
    one = found[0]
    assert await node.ask("eth_getLogs", {"blockHash": one["blockHash"]}) == [one]
    narrowed = {"fromBlock": "0x14", "toBlock": "0x64", "address": one["address"], "topics": [None, one["topics"][1]]}
    assert one in await node.ask("eth_getLogs", narrowed)
    nobody = {"fromBlock": "0x14", "toBlock": "0x64", "address": to_hex(chain.generator.accounts[0])}
    assert await node.ask("eth_getLogs", nobody) == []


async def test_a_range_beyond_the_head_is_cut_short_without_a_word(node: SimNode) -> None:
    whole = await node.ask("eth_getLogs", {"fromBlock": "0x64", "toBlock": "latest"})
    assert await node.ask("eth_getLogs", {"fromBlock": "0x64", "toBlock": "0x2a6"}) == whole


async def test_filters_tell_what_is_new_and_only_on_their_own_node(chain: SimChain, node: SimNode) -> None:
    blocks, logs = await node.ask("eth_newBlockFilter"), await node.ask("eth_newFilter", {})
    pending = await node.ask("eth_newPendingTransactionFilter")
    assert await node.ask("eth_getFilterChanges", blocks) == []
    chain.advance(12)
    news = await node.ask("eth_getFilterChanges", blocks)
    assert news == [(await node.ask("eth_getBlockByNumber", hex(n), False))["hash"] for n in range(179, 191)]
    assert await node.ask("eth_getFilterChanges", blocks) == []
    ranged = {"fromBlock": hex(179), "toBlock": "latest"}
    assert await node.ask("eth_getFilterChanges", logs) == await node.ask("eth_getLogs", ranged) != []
    assert await node.ask("eth_getFilterLogs", logs) == await node.ask("eth_getLogs", {})
    name = await node.ask("eth_sendRawTransaction", signed())
    assert await node.ask("eth_getFilterChanges", pending) == [name]
    assert await node.ask("eth_getFilterChanges", pending) == []
    with pytest.raises(RpcError, match="filter not found"):
        await SimNode(chain, name="other").ask("eth_getFilterChanges", blocks)
    with pytest.raises(RpcError, match="filter not found"):
        await node.ask("eth_getFilterLogs", blocks)
    assert await node.ask("eth_uninstallFilter", blocks) is True
    assert await node.ask("eth_uninstallFilter", blocks) is False
    assert await node.ask("hmy_syncNewFilterFromOtherReaders") is None


async def test_a_filter_nobody_polls_dies_after_five_minutes() -> None:
    clock = ManualClock()
    node = SimNode(harmony_chain(), clock=clock)
    token = await node.ask("hmy_newBlockFilter")
    clock.advance(299)
    assert await node.ask("hmy_getFilterChanges", token) == []
    clock.advance(301)
    with pytest.raises(RpcError, match="filter not found"):
        await node.ask("hmy_getFilterChanges", token)


async def test_geth_has_more_tags_and_refuses_what_harmony_cuts_short(geth: SimNode) -> None:
    for tags in ({"fromBlock": "finalized", "toBlock": "safe"}, {"fromBlock": "earliest", "toBlock": "pending"}):
        assert await geth.ask("eth_getLogs", tags)
    with pytest.raises(RpcError, match="invalid block range params"):
        await geth.ask("eth_getLogs", {"fromBlock": "0x9", "toBlock": "0x8"})
    with pytest.raises(RpcError, match="unknown block"):
        await geth.ask("eth_getLogs", {"blockHash": "0x" + "11" * 32})


async def test_a_node_may_refuse_ranges_and_results_as_providers_do(node: SimNode) -> None:
    asked = {"fromBlock": "0x14", "toBlock": "0x64"}
    count = len(await node.ask("eth_getLogs", asked))
    node.knobs.turn({"logs_range": 80, "logs_results": count})
    assert len(await node.ask("eth_getLogs", asked)) == count
    node.knobs.turn({"logs_results": count - 1})
    with pytest.raises(RpcError, match="returned more than"):
        await node.ask("eth_getLogs", asked)
    node.knobs.turn({"logs_range": 79})
    with pytest.raises(RpcError, match="range is too wide"):
        await node.ask("eth_getLogs", asked)
