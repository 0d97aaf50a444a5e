from __future__ import annotations

from typing import Any

import pytest

from rpcaccel.simnode.chain import accounts
from rpcaccel.simnode.chain.addresses import to_hex, to_one
from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.server.factories import ethereum_chain, knobs
from rpcaccel.simnode.server.sim_server import SimNode


@pytest.fixture
def contract(chain: SimChain) -> str:
    return to_hex(chain.generator.contract)


async def test_a_head_class_answer_names_the_block_it_was_made_at(
    chain: SimChain, node: SimNode, contract: str
) -> None:
    who = to_one(chain.generator.accounts[2])
    late = SimNode(chain, knobs=knobs(lag=7))
    for asked in (node, late):
        expected = accounts.balance(chain.branch, chain.generator.accounts[2], asked.head)
        assert await asked.ask("hmyv2_getBalance", who) == expected
        assert int(await asked.ask("eth_getBalance", who, "latest"), 16) == expected
        assert await asked.ask("hmyv2_getBalanceByBlockNumber", who, asked.head) == expected
        word = await asked.ask("hmyv2_call", {"to": contract, "data": "0x4936cd36"}, "latest")
        assert int(word[-16:], 16) == asked.head
        assert await asked.ask("hmyv2_gasPrice") == accounts.gas_price(asked.head)


async def test_state_older_than_the_pruning_depth_is_gone_on_a_node_that_is_no_archive(
    chain: SimChain, contract: str
) -> None:
    node = SimNode(chain, knobs=knobs(archive=False))
    who = to_hex(chain.generator.accounts[0])
    calls: list[tuple[str, list[Any]]] = [
        ("eth_getBalance", [who, hex(49)]),
        ("hmyv2_getBalanceByBlockNumber", [who, 49]),
        ("hmyv2_call", [{"to": contract, "data": "0x01"}, 49]),
        ("hmyv2_getAccountNonce", [who, 49]),
        ("eth_getCode", [contract, hex(49)]),
        ("hmyv2_getValidatorInformationByBlockNumber", [to_one(chain.generator.validators[0]), 49]),
    ]
    for method, params in calls:
        with pytest.raises(RpcError, match=r"missing trie node [0-9a-f]{64} \(path \) <nil>"):
            await node.ask(method, *params)
        assert await SimNode(chain).ask(method, *params)
    assert await node.ask("eth_getBalance", who, hex(50))
    assert (await node.ask("hmyv2_getBlockByNumber", 49, {}))["number"] == 49


async def test_a_call_reads_data_and_not_input_and_reverts_without_error_data(node: SimNode, contract: str) -> None:
    assert await node.ask("eth_call", {"to": contract, "input": "0x01"}, "latest") == "0x"
    for method in ("eth_call", "eth_estimateGas"):
        with pytest.raises(RpcError) as caught:
            await node.ask(method, {"to": contract, "data": "0xdeadbeef"}, "latest")
        assert (caught.value.code, caught.value.data) == (3, None)
        assert caught.value.message == "execution reverted: simulated"
    with pytest.raises(RpcError, match="invalid hex"):
        await node.ask("eth_call", {"to": contract, "data": "0xzz"}, "latest")


async def test_state_by_hash_is_state_by_number(node: SimNode, contract: str) -> None:
    block = await node.ask("eth_getBlockByNumber", "0x60", False)
    call = {"to": contract, "data": "0x01"}
    by_number = await node.ask("eth_call", call, "0x60")
    assert await node.ask("eth_call", call, {"blockHash": block["hash"]}) == by_number
    assert await node.ask("eth_call", call, block["hash"]) == by_number


async def test_nonces_storage_proofs_and_gas(chain: SimChain, node: SimNode, contract: str) -> None:
    who = to_hex(chain.generator.accounts[0])
    count = await node.ask("hmyv2_getTransactionCount", who, 100)
    assert count == await node.ask("hmyv2_getAccountNonce", who, 100) == chain.generator.sent_by(0, 100)
    staker = to_one(chain.generator.delegators[1])
    assert await node.ask("hmyv2_getTransactionCount", staker, "latest") == chain.generator.staked_by(1, 178)
    proof = await node.ask("eth_getProof", contract, ["0x1"], "0x60")
    stored = await node.ask("eth_getStorageAt", contract, "0x1", "0x60")
    assert int(proof["storageProof"][0]["value"], 16) == int(stored, 16) != 0
    assert int(await node.ask("eth_estimateGas", {"to": who}), 16) == 21000
    with pytest.raises(RpcError, match="insufficient funds for transfer"):
        await node.ask("eth_estimateGas", {"from": who, "to": who, "value": hex(10**30)})


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
