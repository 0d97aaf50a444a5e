from __future__ import annotations

from typing import Any

import pytest

from rpcaccel.simnode.chain import accounts
from rpcaccel.simnode.chain.addresses import to_hex
from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.server.factories import ethereum_chain, knobs
from rpcaccel.simnode.server.sim_server import SimNode

CHAIN = ethereum_chain(178)
WHO, CONTRACT = to_hex(CHAIN.generator.accounts[0]), to_hex(CHAIN.generator.contract)
READS: list[tuple[str, list[Any]]] = [
    ("eth_getBalance", [WHO]),
    ("eth_getTransactionCount", [WHO]),
    ("eth_getCode", [CONTRACT]),
    ("eth_getStorageAt", [CONTRACT, "0x0"]),
    ("eth_getProof", [CONTRACT, ["0x0"]]),
    ("eth_call", [{"to": CONTRACT, "input": "0x01"}]),
    ("eth_estimateGas", [{"to": CONTRACT, "data": "0x01"}]),
]


@pytest.mark.parametrize(("method", "params"), READS)
async def test_state_above_the_head_is_refused_and_pruned_state_is_missing(method: str, params: list[Any]) -> None:
    node, pruned = SimNode(CHAIN), SimNode(CHAIN, knobs=knobs(archive=False, prune_depth=10))
    for reference in ("latest", "finalized", "pending", hex(100)):
        assert await node.ask(method, *params, reference)
    with pytest.raises(RpcError, match=r"^header not found$"):
        await node.ask(method, *params, hex(179))
    with pytest.raises(RpcError, match="header for hash not found"):
        await node.ask(method, *params, "0x" + "11" * 32)
    with pytest.raises(RpcError, match="neither block nor hash"):
        await node.ask(method, *params, {})
    with pytest.raises(RpcError, match=r"missing trie node .* is not available, not found"):
        await pruned.ask(method, *params, hex(167))


async def test_the_block_may_be_left_out_of_a_call_and_input_counts(geth: SimNode) -> None:
    word = await geth.ask("eth_call", {"to": CONTRACT, "input": "0x01"})
    assert int(word[-16:], 16) == 178
    assert int(await geth.ask("eth_estimateGas", {"to": WHO, "from": WHO, "value": "0x1"}), 16) == 21_000
    assert int(await geth.ask("eth_estimateGas", {"data": "0x01"}), 16) > 53_000


async def test_a_revert_carries_its_data(geth: SimNode) -> None:
    for method in ("eth_call", "eth_estimateGas"):
        with pytest.raises(RpcError) as caught:
            await geth.ask(method, {"to": CONTRACT, "data": "0xdeadbeef"})
        assert (caught.value.code, caught.value.message) == (3, "execution reverted: simulated")
        assert caught.value.data == accounts.Reverted.data
    assert bytes.fromhex(accounts.Reverted.data[10:])[64:73] == b"simulated"
    with pytest.raises(RpcError, match="insufficient funds"):
        await geth.ask("eth_estimateGas", {"to": WHO, "from": WHO, "value": hex(10**30)})


async def test_an_address_of_the_wrong_length_is_refused(geth: SimNode) -> None:
    with pytest.raises(RpcError, match=r"want 40 for common\.Address"):
        await geth.ask("eth_getBalance", "0x12", "latest")
