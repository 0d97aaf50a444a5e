from __future__ import annotations

from typing import Any

import pytest

from rpcaccel.simnode.chain import accounts
from rpcaccel.simnode.chain.addresses import to_hex, to_one
from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.server.factories import knobs
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
        expected = accounts.balance(chain, chain.branch, chain.generator.accounts[2], asked.head)
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
