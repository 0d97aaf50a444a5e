"""pyhmy, unmodified, against simulated nodes through the proxy: it says what it says when it asks a node itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from eth_account import Account
from pyhmy import account, blockchain, staking, transaction
from pyhmy.rpc.exceptions import RPCError

from rpcaccel.simnode.chain.addresses import to_one
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.fleet import Fleet
from tests.support.proxy import HARMONY_ID

Reads = list[tuple[Callable[..., Any], tuple[Any, ...]]]


async def reads(node: SimNode) -> Reads:
    """Every reading call of pyhmy's but those that differ by node, with params that mean something on this chain."""
    made = node.chain.generator
    validator, sender = to_one(made.validators[0]), to_one(made.accounts[0])
    delegator = to_one(made.delegators[0])
    number = next(number for number in range(150, 190) if made.count_in(number))
    block = await node.ask("hmyv2_getBlockByNumber", number, {"fullTx": True, "inclStaking": True})
    sealed, tx = block["hash"], block["transactions"][0]["hash"]
    whole: list[Callable[..., Any]] = [
        blockchain.chain_id, blockchain.get_bad_blocks, blockchain.get_version, blockchain.protocol_version,
        blockchain.in_sync, blockchain.beacon_in_sync, blockchain.get_staking_epoch, blockchain.get_prestaking_epoch,
        blockchain.get_shard, blockchain.get_sharding_structure, blockchain.get_leader_address,
        blockchain.get_circulating_supply, blockchain.get_total_supply, blockchain.get_block_number,
        blockchain.get_current_epoch, blockchain.get_last_cross_links, blockchain.get_gas_price,
        blockchain.get_latest_header, blockchain.get_latest_chain_headers,
        transaction.get_pending_transactions, transaction.get_transaction_error_sink,
        transaction.get_pending_staking_transactions, transaction.get_staking_transaction_error_sink,
        transaction.get_pool_stats, transaction.get_pending_cx_receipts,
        staking.get_all_validator_addresses, staking.get_elected_validator_addresses,
        staking.get_all_validator_information, staking.get_current_utility_metrics, staking.get_staking_network_info,
        staking.get_super_committees, staking.get_total_staking, staking.get_raw_median_stake_snapshot,
    ]  # fmt: skip
    return [
        *((function, ()) for function in whole),
        (account.get_balance, (sender,)),
        (account.get_balance_by_block, (sender, number)),
        (account.get_account_nonce, (sender, number)),
        (account.get_transaction_count, (sender, "latest")),
        (account.get_transactions_count, (sender, "ALL")),
        (account.get_staking_transactions_count, (delegator, "ALL")),
        (account.get_transaction_history, (sender,)),
        (account.get_staking_transaction_history, (delegator,)),
        (blockchain.is_last_block, (number,)),
        (blockchain.epoch_last_block, (3,)),
        (blockchain.get_header_by_number, (number,)),
        (blockchain.get_block_by_number, (number, True, True, True)),
        (blockchain.get_block_by_hash, (sealed,)),
        (blockchain.get_block_transaction_count_by_number, (number,)),
        (blockchain.get_block_transaction_count_by_hash, (sealed,)),
        (blockchain.get_block_staking_transaction_count_by_number, (number,)),
        (blockchain.get_block_staking_transaction_count_by_hash, (sealed,)),
        (blockchain.get_blocks, (number, number + 3, True, True)),
        (blockchain.get_block_signers, (number,)),
        (blockchain.get_block_signers_keys, (number,)),
        (blockchain.is_block_signer, (number, validator)),
        (blockchain.get_signed_blocks, (validator,)),
        (blockchain.get_validators, (4,)),
        (blockchain.get_validator_keys, (4,)),
        (transaction.get_transaction_by_hash, (tx,)),
        (transaction.get_transaction_by_block_hash_and_index, (sealed, 0)),
        (transaction.get_transaction_by_block_number_and_index, (number, 0)),
        (transaction.get_transaction_receipt, (tx,)),
        (staking.get_validator_information, (validator,)),
        (staking.get_validator_information_by_block_number, (validator, number)),
        (staking.get_validators, (4,)),
        (staking.get_validator_keys, (4,)),
        (staking.get_validator_self_delegation, (validator,)),
        (staking.get_validator_total_delegation, (validator,)),
        (staking.get_delegations_by_delegator, (delegator,)),
        (staking.get_delegations_by_validator, (validator,)),
    ]


def said(function: Callable[..., Any], arguments: tuple[Any, ...], endpoint: str) -> Any:
    """What pyhmy returns, or the error it raises, in words."""
    try:
        return function(*arguments, endpoint=endpoint)
    except RPCError as error:
        return f"RPCError {str(error).replace(endpoint, '')}"


async def test_every_read_says_what_a_node_says_at_first_and_again(fleet: Fleet) -> None:
    node, proxy = fleet.nodes[0], fleet.proxy
    calls = await reads(node)
    assert len(calls) > 60

    def compared() -> list[str]:
        errors = []
        for function, arguments in calls:
            told = said(function, arguments, node.url)
            for endpoint in (proxy.url, f"{proxy.url}/harmony-s0", f"{proxy.url}/api/v1/hmy/v2"):
                assert said(function, arguments, endpoint) == told, function.__name__
            if isinstance(told, str) and told.startswith("RPCError"):
                errors.append(function.__name__)
        return errors

    assert await asyncio.to_thread(compared) == []


async def test_what_a_node_says_of_itself_comes_from_one_of_the_nodes(fleet: Fleet) -> None:
    proxy, nodes = fleet.proxy, fleet.nodes
    peers = {await asyncio.to_thread(blockchain.get_num_peers, node.url) for node in nodes}
    assert await asyncio.to_thread(blockchain.get_num_peers, proxy.url) in peers
    metadata = await asyncio.to_thread(blockchain.get_node_metadata, proxy.url)
    assert metadata["peerid"] in {(await node.ask("hmyv2_getNodeMetadata"))["peerid"] for node in nodes}


async def test_a_transaction_is_sent_and_confirmed(fleet: Fleet) -> None:
    proxy, nodes = fleet.proxy, fleet.nodes
    await fleet.set(nodes={"node-2": None})
    wallet = Account.create()
    sender = to_one(bytes.fromhex(wallet.address[2:]))
    assert await asyncio.to_thread(account.get_transaction_count, sender, "latest", proxy.url) == 0
    fields = {"to": "0x" + "22" * 20, "value": 7, "gas": 30000, "nonce": 0, "chainId": HARMONY_ID}
    signed = wallet.sign_transaction({**fields, "gasPrice": 10**11}).raw_transaction.to_0x_hex()
    confirming = asyncio.create_task(asyncio.to_thread(transaction.send_and_confirm_raw_transaction, signed, proxy.url))
    while not confirming.done():
        nodes[0].chain.advance()
        await asyncio.sleep(0.2)  # the pace of blocks: the client looks for its transaction by a clock of its own
    confirmed = await confirming
    receipt = await asyncio.to_thread(transaction.get_transaction_receipt, confirmed["ethHash"], proxy.url)
    assert (confirmed["value"], receipt["status"]) == (7, 1)
    assert await asyncio.to_thread(account.get_transaction_count, sender, "latest", proxy.url) == 1
    assert [node.counts.asked("hmyv2_sendRawTransaction") for node in nodes[:2]] == [1, 1], "told to both, once"
    with pytest.raises(RPCError):
        await asyncio.to_thread(transaction.send_raw_transaction, "0x12", proxy.url)
