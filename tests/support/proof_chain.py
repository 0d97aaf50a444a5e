"""Blocks of a real EVM node with every type of transaction that its fork knows, and what proves them.

`python -m tests.support.proof_chain` writes facts/proved_blocks.json anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from eth_account import Account
from eth_utils.address import to_checksum_address

from tests.support.services import Anvil

FACTS = Path(__file__).parent / "facts" / "proved_blocks.json"
FORKS = ("istanbul", "berlin", "london", "paris", "shanghai", "cancun", "prague", "osaka")
KEPT_FORKS = ("istanbul", "london", "prague")
WALLET = Account.from_key("0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")
"""The first account that anvil gives money to."""
LOGGING = "60003560005560aa60bb60206000a260005460015500"
"""A contract that keeps the number it is called with in its first place, and logs it under the topics 0xbb and 0xaa."""
CREATES = "0x60{0:02x}600c60003960{0:02x}6000f3{1}".format(len(LOGGING) // 2, LOGGING)
CHAIN_ID = 31_337
ABSENT = "0x" + "12" * 20
SIDECAR = ("blobs", "commitments", "cellProofs", "proofs")
"""Members beside a transaction with blobs that anvil shows, and that no block has."""


def _transactions(fork: str, contract: str) -> list[dict[str, Any]]:
    """One transaction of each type that the fork knows, and further ones that make logs."""
    known = FORKS.index(fork)
    base = {"to": contract, "value": 0, "gas": 200_000, "chainId": CHAIN_ID, "data": f"0x{7:064x}"}
    price = {"gasPrice": 2 * 10**9}
    fees = {"type": 2, "maxFeePerGas": 2 * 10**9, "maxPriorityFeePerGas": 7}
    access = [{"address": contract, "storageKeys": ["0x" + "00" * 31 + "01"]}]
    made = [{**base, **price, "data": f"0x{number:064x}"} for number in (0, 1, 130)]
    made.append({**base, **price, "to": ABSENT[:-1] + "3", "value": 5})
    if known >= FORKS.index("berlin"):
        made.append({**base, **price, "type": 1, "accessList": access})
    if known >= FORKS.index("london"):
        made.append({**base, **fees, "accessList": access})
    if known >= FORKS.index("prague"):
        permission = WALLET.sign_authorization({"chainId": CHAIN_ID, "address": contract, "nonce": 0})
        made.append({**base, **fees, "type": 4, "authorizationList": [permission]})
    return made


class ProofChain:
    """A running anvil of one fork."""

    def __init__(self, fork: str) -> None:
        self.anvil = Anvil("--no-mining", "--hardfork", fork)
        self.fork = fork

    def __enter__(self) -> ProofChain:
        return self

    def __exit__(self, *_: object) -> None:
        self.anvil.stop()

    def ask(self, method: str, *params: Any) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        with urlopen(Request(self.anvil.url, body, {"Content-Type": "application/json"}), timeout=60) as reply:
            answer = json.load(reply)
        assert "error" not in answer, answer
        return answer["result"]

    def send(self, transaction: dict[str, Any], nonce: int) -> str:
        blobs = {"blobs": [bytes(131_072)]} if transaction.get("type") == 3 else {}
        signed = WALLET.sign_transaction({**transaction, "nonce": nonce}, **blobs)
        return str(self.ask("eth_sendRawTransaction", "0x" + signed.raw_transaction.hex()))

    def grow(self, further: int = 0) -> None:
        """Make a block that creates a contract, and one that calls it, with `further` transfers in it."""
        creation = {"data": CREATES, "value": 0, "gas": 400_000, "gasPrice": 2 * 10**9, "chainId": CHAIN_ID}
        self.ask("evm_mine")
        created = self.send(creation, 0)
        self.ask("evm_mine")
        self.contract = to_checksum_address(self.ask("eth_getTransactionReceipt", created)["contractAddress"])
        transfers = [{"to": ABSENT, "value": 1, "gas": 21_000, "gasPrice": 2 * 10**9, "chainId": CHAIN_ID}] * further
        for nonce, transaction in enumerate([*_transactions(self.fork, self.contract), *transfers], 1):
            self.send(transaction, nonce)
        self.ask("evm_mine")

    def blob(self) -> Any:
        """A transaction with a blob, in a block of its own: anvil's root of such a block is not that of its
        transactions."""
        fees = {"maxFeePerGas": 2 * 10**9, "maxPriorityFeePerGas": 7, "maxFeePerBlobGas": 2 * 10**9}
        nonce = int(self.ask("eth_getTransactionCount", WALLET.address, "latest"), 16)
        sent = {"type": 3, "to": ABSENT, "value": 0, "gas": 30_000, "chainId": CHAIN_ID, **fees}
        hash = self.send(sent, nonce)
        self.ask("evm_mine")
        shown = self.ask("eth_getTransactionByHash", hash)
        return {name: value for name, value in shown.items() if name not in SIDECAR}

    def block(self, number: int) -> dict[str, Any]:
        """A block with whole transactions, and its receipts."""
        return {
            "block": self.ask("eth_getBlockByNumber", hex(number), True),
            "receipts": self.ask("eth_getBlockReceipts", hex(number)),
        }

    def proofs(self, number: int) -> dict[str, Any]:
        """Proofs of a place that has something, of one that has nothing, and of an account that there is not."""
        keys = {"full": "0x" + "00" * 32, "empty": "0x" + "77" * 32}
        found = {name: self.ask("eth_getProof", self.contract, [key], hex(number)) for name, key in keys.items()}
        return {**found, "absent": self.ask("eth_getProof", "0x" + "ee" * 20, [], hex(number))}


def main() -> None:
    written = {}
    for fork in KEPT_FORKS:
        with ProofChain(fork) as chain:
            chain.grow()
            written[fork] = {**chain.block(3), "creation": chain.block(2), "proofs": chain.proofs(3)}
            if fork == KEPT_FORKS[-1]:
                written[fork]["blob"] = chain.blob()
    FACTS.write_text(json.dumps(written, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
