"""Proves receipts by the root that a block's header has of them, and by the transactions of the block."""

from __future__ import annotations

from typing import Any

from rpcaccel.core.hashing.bloom import BLOOM_BYTES, bloom_of
from rpcaccel.core.hashing.keccak import keccak256
from rpcaccel.core.hashing.rlp import sequence, string
from rpcaccel.core.hashing.trie import list_root
from rpcaccel.core.proof.encoding import (
    Disproved,
    Json,
    NotProvable,
    address,
    data,
    data32,
    items,
    member,
    whole,
    write_address,
    write_number,
)
from rpcaccel.core.proof.headers import hash_of, prove_place
from rpcaccel.core.proof.transactions import DEPOSIT, type_of

_NOBODY = "0x" + "00" * 20
"""Whom chains name as the sender of transactions of their own, as no key has this address, and Harmony as the contract
that a transaction made which made none."""
_WITH_STATUS = 8_772_000
"""The block from which every known chain has a status in its receipts (EIP-658): the last one was Ethereum Classic."""
_PROOF_OF_WORK = 131_072
"""The least difficulty of blocks with proof of work. Chains without it had a status from the first block on."""


def prove_receipts(receipts: list[Json], block: Json) -> None:
    """Prove the receipts of a block: their root, blooms, places, and what they repeat of their transactions.

    Args:
        receipts: one for each transaction, in their order.
        block: a block whose header is proved; where it shows its transactions whole, these are proved.
    """
    transactions = items(member(block, "transactions"), "transactions")
    if len(transactions) != len(items(receipts, "receipts")):
        raise Disproved(f"{len(receipts)} receipts for {len(transactions)} transactions")
    encodings, used, logs = list[bytes](), 0, 0
    for index, (receipt, transaction) in enumerate(zip(receipts, transactions, strict=True)):
        try:
            encodings.append(_encoded(receipt, transaction))
            prove_place(receipt, block, index, "transactionHash")
            used = _prove_gas(receipt, used)
            logs = _prove_places(receipt["logs"], block, index, logs)
            _prove_repeated(receipt, transaction)
        except (NotProvable, Disproved) as error:
            raise type(error)(f"receipt {index}: {error}") from None
    if list_root(encodings) != hash_of(block, "receiptsRoot"):
        pairs = zip(receipts, transactions, strict=True)
        if unsure := next(filter(None, (_unsure(*pair, block) for pair in pairs)), ""):
            raise NotProvable(f"the receipts have another root, of which {unsure} may be a part")
        raise Disproved("the receipts have another root")


def _encoded(receipt: Json, transaction: Any) -> bytes:
    """A receipt as the root is made of it; its bloom is proved."""
    kind = _kind(receipt, transaction)
    found = [(searched(log), log) for log in items(member(receipt, "logs"), "logs")]
    bloom = data(member(receipt, "logsBloom"), "logsBloom", BLOOM_BYTES)
    if bloom_of(value for values, _ in found for value in values) != bloom:
        raise Disproved("another bloom than that of its logs")
    logs = [
        sequence((string(emitter), sequence(map(string, topics)), string(data(member(log, "data"), "data"))))
        for (emitter, *topics), log in found
    ]
    state = receipt.get("root")  # from before EIP-658; Harmony writes an empty one beside the status
    parts = [
        write_number(member(receipt, "status"), "status") if state in (None, "0x") else string(data32(state, "root")),
        write_number(member(receipt, "cumulativeGasUsed"), "cumulativeGasUsed"),
        string(bloom),
        sequence(logs),
    ]
    if kind == DEPOSIT and receipt.get("depositReceiptVersion") is not None:  # neither is hashed before Canyon
        parts += [write_number(member(receipt, name), name) for name in ("depositNonce", "depositReceiptVersion")]
    return sequence(parts) if kind == "0x0" else bytes((int(kind, 16),)) + sequence(parts)


def _kind(receipt: Json, transaction: Any) -> str:
    """The type of a receipt, which is that of its transaction."""
    kind = type_of(receipt)
    if isinstance(transaction, dict):
        if receipt.get("type") is None:
            kind = type_of(transaction)
        elif kind != type_of(transaction):
            raise Disproved("another type than its transaction has")
    if len(kind) > len("0x7f"):
        raise NotProvable(f"the type {kind[:8]}")
    return kind


def searched(log: Json) -> list[bytes]:
    """What a log can be found by: its address, and its topics in their order."""
    topics = items(member(log, "topics"), "topics")
    return [data(member(log, "address"), "address", 20), *[data32(topic, "topics") for topic in topics]]


def _prove_gas(receipt: Json, before: int) -> int:
    """Prove the gas that a transaction used, by what it and those before it used together."""
    if receipt.get("from") == _NOBODY:
        raise NotProvable("the receipt of a transaction of the chain itself, which nobody signed")
    together = whole(receipt["cumulativeGasUsed"], "cumulativeGasUsed")
    if whole(member(receipt, "gasUsed"), "gasUsed") != together - before:
        raise Disproved("another gasUsed than the sums say")
    return together


def _prove_places(logs: list[Json], block: Json, index: int, before: int) -> int:
    """Prove the places of logs, of which there are `before` in the receipts before this one."""
    for number_in_block, log in enumerate(logs, before):
        prove_place(log, block, index, "transactionHash")
        if whole(member(log, "logIndex"), "logIndex") != number_in_block or log.get("removed"):
            raise Disproved("a log in another place")
    return before + len(logs)


def _prove_repeated(receipt: Json, transaction: Any) -> None:
    """Prove what a receipt repeats of its transaction, where the block shows that whole."""
    if isinstance(transaction, str):
        return
    origin, to = address(member(transaction, "from"), "from"), transaction.get("to")
    if "from" in receipt and address(receipt["from"], "from") != origin:
        raise Disproved("another from than its transaction has")
    if "to" in receipt and write_address(receipt["to"], "to") != write_address(to, "to"):
        raise Disproved("another to than its transaction has")
    paid, price = receipt.get("effectiveGasPrice"), transaction.get("gasPrice")
    if paid is not None and price is not None and whole(paid, "effectiveGasPrice") != whole(price, "gasPrice"):
        raise Disproved("another effectiveGasPrice than its transaction paid")
    created = receipt.get("contractAddress")
    if created not in (None, _NOBODY):
        made = sequence((string(origin), write_number(member(transaction, "nonce"), "nonce")))
        if to is not None or address(created, "contractAddress") != keccak256(made)[12:]:
            raise Disproved("another contractAddress than its transaction makes")
    elif to is None:
        raise NotProvable("contractAddress is missing")


def _unsure(receipt: Json, transaction: Any, block: Json) -> str:
    """A member that the root may be made of, and that some nodes leave out of receipts; empty where there is none."""
    kind = receipt.get("type")
    if kind is None and isinstance(transaction, str):
        return "type"
    if kind is not None and hex(whole(kind, "type")) == DEPOSIT and receipt.get("depositReceiptVersion") is None:
        return "depositReceiptVersion"
    if receipt.get("root") is None and whole(block.get("number", _WITH_STATUS), "number") < _WITH_STATUS:
        return "root" if whole(block.get("difficulty", 0), "difficulty") >= _PROOF_OF_WORK else ""
    return ""
