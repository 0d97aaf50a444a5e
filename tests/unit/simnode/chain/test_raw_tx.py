from __future__ import annotations

from typing import Any

import pytest
from eth_account import Account

from rpcaccel.core.hashing.keccak import keccak256
from rpcaccel.core.hashing.rlp import Item, encode
from rpcaccel.simnode.chain import raw_tx
from tests.support.wallet import KEY, SENDER, signed

FEES: list[dict[str, Any]] = [
    {"gasPrice": 10**11},
    {"gasPrice": 10**11, "chainId": None},
    {"gasPrice": 10**11, "accessList": [], "type": 1},
    {"maxFeePerGas": 10**11, "maxPriorityFeePerGas": 5, "type": 2},
]


@pytest.mark.parametrize("fees", FEES, ids=["eip155", "legacy", "access list", "dynamic fee"])
def test_a_wallets_transaction_is_read_with_its_sender(fees: dict[str, Any]) -> None:
    fields = {"to": "0x" + "22" * 20, "value": 7, "gas": 30000, "nonce": 3, "chainId": 5, "data": b"\1\2", **fees}
    fields = {name: value for name, value in fields.items() if value is not None}
    made = Account.sign_transaction(fields, KEY)
    read = raw_tx.read(bytes(made.raw_transaction))
    assert (read.hash, "0x" + read.sender.hex()) == (bytes(made.hash), SENDER.lower())
    assert (read.to, read.value, read.gas, read.nonce, read.data) == (b"\x22" * 20, 7, 30000, 3, b"\1\2")
    assert read.gas_price == 10**11
    assert read.chain_id == fields.get("chainId")
    assert raw_tx.intrinsic_gas(read) == 21000 + 32


def test_a_creation_names_the_contracts_address() -> None:
    read = raw_tx.read(bytes.fromhex(signed(5, to=None, gas=60000, data=b"\1")[2:]))
    assert read.to is None
    assert read.created == keccak256(encode([read.sender, b""]))[12:]
    assert raw_tx.intrinsic_gas(read) == 53016


def test_harmonys_own_form_carries_the_shards_and_has_one_hash() -> None:
    fields: list[Item] = [b"", b"\x01", b"\x52\x08", b"", b"\x01", b"\x22" * 20, b"\x05", b""]
    signature: list[Item] = [b"\x1b", b"\x22" * 32, b"\x11" * 32]
    raw = encode([*fields, *signature])
    read = raw_tx.read(raw)
    assert (read.harmony, read.to_shard, read.value, read.to) == (True, 1, 5, b"\x22" * 20)
    assert read.harmony_hash(0) == read.hash == keccak256(raw)
    plain = raw_tx.read(encode([*fields[:3], *fields[5:], *signature]))
    assert plain.harmony_hash(0) != plain.hash


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "EOF"),
        (b"\x12\x34", "rlp: expected input list for types.txdata"),
        (encode([b"\1"]), "rlp: too few elements for types.txdata"),
        (b"\x02" + encode([b"\1"]), "rlp: too few elements for types.txdata"),
        (encode([b""] * 9), "invalid transaction v, r, s values"),
        (encode([b""] * 9) + b"x", "rlp: input contains more than one value"),
        (b"\xc5\x83a", "rlp: value size exceeds available input length"),
        (b"\xc1", "rlp: value size exceeds available input length"),
    ],
)
def test_what_is_no_transaction_is_refused_in_the_nodes_words(raw: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        raw_tx.read(raw)
