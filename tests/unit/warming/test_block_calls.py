"""The calls about a block: which there are, what they are filled with, and that their answers are kept."""

from __future__ import annotations

import json

import pytest

from rpcaccel.chains import chain_tables
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.planner import Planner
from rpcaccel.warming import block_calls
from rpcaccel.warming.block_calls import BlockCall, BlockParts, read_block, written

A, B, C = (f"0x{digit * 64}" for digit in "abc")
PARTS = BlockParts(A, [B, C], [C])
VIEW = ChainSnapshot(head=5000, best=5000, final=4900, finalized=4900, eth_chain_id=1, network_id=1, genesis=A)
EVERY = [
    (chain, call)
    for chain in ("harmony", "ethereum")
    for call in block_calls.of_methods(tuple(block_calls.known(chain)), chain)
]


def planned(chain: str, method: str, params: str) -> Plan:
    found = chain_tables.load(chain)
    planner = Planner("x", found.rules, frozenset(found.tags), final_at_once=found.finality == "instant")
    return planner.plan(method, params.encode(), VIEW)


@pytest.mark.parametrize(("chain", "call"), EVERY, ids=str)
def test_every_known_call_has_an_answer_that_the_proxy_keeps_for_good(chain: str, call: BlockCall) -> None:
    texts = list(call.texts(26, PARTS))
    assert texts
    for text in texts:
        plan = planned(chain, call.method, text)
        assert plan.key is not None, plan.note
        assert plan.rule.known
        if not call.needs_block:
            assert plan.block == 26


@pytest.mark.parametrize(
    ("chain", "method", "params"),
    [
        ("harmony", "eth_getBlockByNumber", '["0x1a", true]'),
        ("harmony", "eth_getBlockByNumber", "[26,false]"),
        ("harmony", "hmyv2_getBlockByNumber", '["26",{"InclStaking":true,"fullTx":true,"inclTx":true}]'),
        ("harmony", "hmyv2_getBlockSigners", '["0x1a"]'),
        ("ethereum", "eth_getBlockReceipts", '["0x1A"]'),
        ("ethereum", "eth_getLogs", '[{"toBlock":"0x1a", "fromBlock":"0x1a"}]'),
    ],
)
def test_another_spelling_by_a_client_finds_the_same_answer(chain: str, method: str, params: str) -> None:
    calls = block_calls.of_methods([method], chain)
    keys = {planned(chain, call.method, text).key for call in calls for text in call.texts(26)}
    assert planned(chain, method, params).key in keys


def test_placeholders_are_filled_once_for_the_block_and_for_each_transaction() -> None:
    assert list(BlockCall("m", '[{block},"{hex}"]').texts(26)) == ['[26,"0x1a"]']
    assert list(BlockCall("m", '["{hash}"]').texts(26, PARTS)) == [f'["{A}"]']
    assert list(BlockCall("m", '["{tx}",{block}]').texts(26, PARTS)) == [f'["{B}",26]', f'["{C}",26]']
    assert list(BlockCall("m", '["{staking}"]').texts(26, PARTS)) == [f'["{C}"]']
    assert list(BlockCall("m", '["{tx}"]').texts(26, BlockParts(A))) == []


def test_the_hashes_of_a_block_are_read_whether_its_transactions_are_whole_or_not() -> None:
    for entries in ([B, C], [{"hash": B, "nonce": 5}, {"hash": C}]):
        found = read_block(json.dumps({"hash": A, "transactions": entries, "stakingTransactions": [C]}).encode())
        assert found is not None
        call = BlockCall("m", '["{tx}"]')
        assert list(call.texts(1, found)) == [f'["{B}"]', f'["{C}"]']
    assert read_block(b'{"number": 5}') is None
    assert read_block(b'{"hash": "\\"]"}') is None
    assert read_block(b"[]") is None


def test_methods_are_refused_with_those_that_are_known() -> None:
    with pytest.raises(
        ValueError, match=r"eth_gasPrice is not known for the chain harmony; known are .*hmyv2_getBlocks"
    ):
        block_calls.of_methods(["eth_gasPrice"], "harmony")
    with pytest.raises(ValueError, match="hmyv2_getBlocks is not known"):
        block_calls.of_methods(["hmyv2_getBlocks"], "polygon")
    assert block_calls.usual("harmony") == ("eth_getBlockByNumber", "hmyv2_getBlockByNumber")
    assert block_calls.usual("polygon") == ("eth_getBlockByNumber",)


def test_a_method_that_is_named_twice_is_called_once() -> None:
    once = block_calls.of_methods(["eth_getBlockByNumber"], "ethereum")
    assert block_calls.of_methods(["eth_getBlockByNumber"] * 2, "ethereum") == once


def test_a_call_of_ones_own_is_read() -> None:
    assert written(' eth_getCode  ["0x00", "{hex}"] ') == BlockCall("eth_getCode", '["0x00", "{hex}"]')
    assert written('m [{block},{"a":{"b":1}}]').params == '[{block},{"a":{"b":1}}]'


@pytest.mark.parametrize("text", ["", "m", "m []", 'm ["latest"]', 'm ["{hex}"', 'm {"a":{block}}', ' ["{hex}"]'])
def test_what_is_no_call_about_a_block_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        written(text)


def test_both_kinds_of_transactions_in_one_call_are_refused() -> None:
    with pytest.raises(ValueError, match="found both"):
        written('m ["{tx}","{staking}"]')


def test_blocks_and_transactions_are_never_empty_while_lists_and_logs_may_be() -> None:
    assert not BlockCall("hmyv2_getBlockByNumber", "").may_be_empty
    assert BlockCall("eth_getLogs", "").may_be_empty
    assert BlockCall("hmyv2_getBlockSigners", "").may_be_empty
