"""web3.py, unmodified, against a real EVM node through the proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from eth_account import Account
from web3 import AsyncWeb3, Web3
from web3.exceptions import ContractLogicError, TransactionNotFound, Web3RPCError
from web3.middleware import SignAndSendRawMiddlewareBuilder
from web3.types import TxReceipt

from tests.support.fixtures import shared
from tests.support.running import Evm

ETHER = 10**18
CODE = "0x601f600c600039601f6000f33660195734600052602a60206000a1602a60005260206000f35b60006000fd"
"""A contract that, called without data, logs the value sent under topic 42 and returns 42; with data it reverts."""


@pytest.fixture
def w3(evm: Evm) -> Web3:
    return Web3(Web3.HTTPProvider(evm.proxy.url))


@shared
async def async_w3(evm: Evm) -> AsyncIterator[AsyncWeb3[Any]]:
    w3 = AsyncWeb3(AsyncWeb3.AsyncHTTPProvider(evm.proxy.url))
    yield w3
    await w3.provider.disconnect()


def sent(w3: Web3, **fields: Any) -> TxReceipt:
    """The receipt of a transaction from the first funded account."""
    return w3.eth.wait_for_transaction_receipt(w3.eth.send_transaction({"from": w3.eth.accounts[0], **fields}))


def test_it_looks_like_the_node_itself(w3: Web3, evm: Evm) -> None:
    direct = Web3(Web3.HTTPProvider(evm.chain.url))
    assert w3.is_connected()
    assert w3.eth.chain_id == direct.eth.chain_id == 31337
    assert w3.net.version == direct.net.version
    assert w3.client_version == direct.client_version
    assert w3.eth.accounts == direct.eth.accounts
    assert w3.eth.get_block("latest") == direct.eth.get_block("latest")
    assert w3.eth.get_block(0, full_transactions=True) == direct.eth.get_block(0, full_transactions=True)
    assert w3.eth.gas_price == direct.eth.gas_price
    assert w3.eth.fee_history(1, "latest") == direct.eth.fee_history(1, "latest")


@pytest.mark.smoke
def test_after_a_receipt_everything_that_follows_from_it_is_seen(w3: Web3) -> None:
    payer, payee = w3.eth.accounts[:2]
    sent_before, head = w3.eth.get_transaction_count(payer), w3.eth.block_number
    for number in range(head + 1, head + 4):
        before = w3.eth.get_balance(payee)
        receipt = sent(w3, to=payee, value=ETHER)
        assert (receipt["status"], receipt["blockNumber"]) == (1, number)
        assert w3.eth.block_number == number
        assert w3.eth.get_balance(payee) == before + ETHER
        assert w3.eth.get_transaction_count(payer) == sent_before + number - head
        block = w3.eth.get_block("latest")
        assert (block["number"], block["transactions"]) == (number, [receipt["transactionHash"]])
        assert w3.eth.get_transaction(receipt["transactionHash"])["blockHash"] == block["hash"]
        assert w3.eth.get_balance(payee, number - 1) == before


def test_a_wallet_signs_and_counts_its_nonces_through_the_proxy(w3: Web3) -> None:
    account = Account.create()
    sent(w3, to=account.address, value=ETHER)
    w3.middleware_onion.inject(SignAndSendRawMiddlewareBuilder.build(account), layer=0)
    for number in range(3):
        hashed = w3.eth.send_transaction({"from": account.address, "to": w3.eth.accounts[1], "value": 1})
        assert w3.eth.wait_for_transaction_receipt(hashed)["status"] == 1
        assert w3.eth.get_transaction_count(account.address) == number + 1


def test_contracts_are_made_called_and_their_logs_found(w3: Web3) -> None:
    address = sent(w3, data=CODE)["contractAddress"]
    assert address is not None
    assert w3.eth.get_code(address).hex() == CODE[-62:]
    assert int(w3.eth.call({"to": address}).hex(), 16) == 42
    block = sent(w3, to=address, value=7)["blockNumber"]
    for _ in range(2):
        (log,) = w3.eth.get_logs({"address": address, "fromBlock": 0, "toBlock": "latest"})
        assert (log["blockNumber"], int(log["data"].hex(), 16), int(log["topics"][0].hex(), 16)) == (block, 7, 42)
    with pytest.raises(ContractLogicError, match="revert"):
        w3.eth.call({"to": address, "data": "0x01"})
    assert w3.eth.estimate_gas({"to": address, "from": w3.eth.accounts[0]}) > 21000


def test_a_filter_of_the_node_tells_what_is_new(w3: Web3) -> None:
    address = sent(w3, data=CODE)["contractAddress"]
    assert address is not None
    logs = w3.eth.filter({"address": address})
    sent(w3, to=address, value=1)
    assert len(logs.get_new_entries()) == 1
    assert logs.get_new_entries() == []


def test_what_is_not_there_is_the_clients_own_error(w3: Web3) -> None:
    with pytest.raises(TransactionNotFound):
        w3.eth.get_transaction_receipt("0x" + "11" * 32)
    with pytest.raises(Web3RPCError, match="Method not found"):
        w3.manager.request_blocking("no_such", [])  # type: ignore[arg-type]


async def test_batches_and_the_asynchronous_client(async_w3: AsyncWeb3[Any], w3: Web3) -> None:
    payee = w3.eth.accounts[1]
    number = sent(w3, to=payee, value=ETHER)["blockNumber"]
    with w3.batch_requests() as batch:
        batch.add(w3.eth.get_block(number))
        batch.add(w3.eth.get_balance(payee))
        batch.add(w3.eth.get_block(number - 1))
        newest, balance, parent = batch.execute()
    assert (newest["number"], newest["parentHash"]) == (number, parent["hash"])
    assert balance == await async_w3.eth.get_balance(payee)
    assert await async_w3.eth.get_block(number) == newest
    assert await async_w3.eth.block_number == number
