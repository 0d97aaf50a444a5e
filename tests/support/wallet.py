"""A wallet, and transactions that it signed."""

from __future__ import annotations

from typing import Any

from eth_account import Account

KEY = "0x" + "11" * 32
SENDER = str(Account.from_key(KEY).address)
USUAL = {"to": "0x" + "22" * 20, "value": 7, "gas": 21000, "gasPrice": 10**11, "nonce": 0}


def signed(chain_id: int = 1_666_700_000, **fields: Any) -> str:
    """The raw text of a transfer, with other fields where they are given; a field that is None is left out."""
    written = {**USUAL, "chainId": chain_id, **fields}
    transaction = {name: value for name, value in written.items() if value is not None}
    return str(Account.sign_transaction(transaction, KEY).raw_transaction.to_0x_hex())
