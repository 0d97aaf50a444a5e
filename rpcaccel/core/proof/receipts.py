"""Proves receipts: by what they say of themselves, by the root that a block's header has of them, and by the
transactions of the block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rpcaccel.core.hashing.bloom import BLOOM_BYTES, FILLED_IN, bloom_bits
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
    said_of,
    whole,
    write_address,
    write_number,
)
from rpcaccel.core.proof.headers import hash_of, prove_place, prove_same
from rpcaccel.core.proof.transactions import DEPOSIT, paid_price, type_of
from rpcaccel.core.stepwise import ITEMS_A_STEP, Steps

_NOBODY = "0x" + "00" * 20
"""Whom chains name as the sender of transactions of their own, as no key has this address, and Harmony as the contract
that a transaction made which made none."""
_WITH_STATUS = 8_772_000
"""The block from which every known chain has a status in its receipts (EIP-658): the last one was Ethereum Classic."""
GAS_A_BLOB = 131_072
"""Gas that each blob of a transaction takes (EIP-4844)."""
_PROOF_OF_WORK = 131_072
"""The least difficulty of blocks with proof of work. Chains without it had a status from the first block on."""


# -- within themselves -------------------------------------------------------------------------------------------------


def prove_bloom(receipt: Json, *, one_hash: bool) -> Steps[None]:
    """Prove that the logs of a receipt stand where it does, and make up its bloom.

    Args:
        one_hash: does a transaction have one hash, which both name?
    """
    bloom = yield from bloom_of_logs(receipt)
    for at, log in enumerate(receipt["logs"]):
        if not _stands_with(log, receipt, one_hash=one_hash):
            raise Disproved("a log stands in another place than its receipt")
        if at % ITEMS_A_STEP == 0:
            yield
    if data(member(receipt, "logsBloom"), "logsBloom", BLOOM_BYTES) not in (*FILLED_IN, bloom):
        raise Disproved("a receipt has another bloom than that of its logs")


def bloom_of_logs(receipt: Json) -> Steps[bytes]:
    """The bloom that a receipt should have."""
    bits = 0
    for at, log in enumerate(receipt["logs"]):
        for value in searched(log):
            bits |= bloom_bits(value)
        if at % ITEMS_A_STEP == 0:
            yield
    return bits.to_bytes(BLOOM_BYTES, "big")


def _stands_with(log: Json, receipt: Json, *, one_hash: bool) -> bool:
    if one_hash and hash_of(log, "transactionHash") != hash_of(receipt, "transactionHash"):
        return False
    return all(
        whole(member(log, name), name) == whole(member(receipt, name), name)
        for name in ("transactionIndex", "blockNumber")
    )


def prove_order(receipts: Sequence[Json]) -> Steps[None]:
    """Prove that receipts stand in one block, one behind the other."""
    used, logs, place = 0, 0, _place(receipts[0])
    for index, one in enumerate(receipts):
        together = whole(member(one, "cumulativeGasUsed"), "cumulativeGasUsed")
        if _place(one) != place or whole(member(one, "transactionIndex"), "transactionIndex") != index:
            raise Disproved(f"receipt {index} stands in another place")
        if whole(member(one, "gasUsed"), "gasUsed") != together - used:
            raise Disproved(f"receipt {index} has another gasUsed than the sums say")
        for at, log in enumerate(one["logs"], logs):
            if whole(member(log, "logIndex"), "logIndex") != at:
                raise Disproved(f"receipt {index} has a log with another index than its place")
            if at % ITEMS_A_STEP == 0:
                yield
        used, logs = together, logs + len(one["logs"])


def _place(of: Json) -> tuple[int, bytes]:
    return whole(member(of, "blockNumber"), "blockNumber"), hash_of(of, "blockHash")


def searched(log: Json) -> list[bytes]:
    """What a log can be found by: its address, and its topics in their order."""
    topics = items(member(log, "topics"), "topics")
    return [data(member(log, "address"), "address", 20), *[data32(topic, "topics") for topic in topics]]


# -- within their block ------------------------------------------------------------------------------------------------


def prove_root(
    receipts: Sequence[Json], blooms: Sequence[bytes], transactions: Sequence[Json], block: Json
) -> Steps[None]:
    """Prove all receipts of a block by its root of them.

    Args:
        blooms: the bloom of each, proved.
        transactions: the transactions of the block, proved.
        block: the block; its header is proved.
    """
    if len(transactions) != len(receipts):
        raise Disproved(f"{len(receipts)} receipts for {len(transactions)} transactions")
    encodings = list[bytes]()
    for index, (receipt, bloom, transaction) in enumerate(zip(receipts, blooms, transactions, strict=True)):
        with said_of(f"receipt {index}"):
            encodings.append((yield from _encoded(receipt, bloom, transaction)))
    if (yield from list_root(encodings)) != hash_of(block, "receiptsRoot"):
        if unsure := next(filter(None, (_unsure(receipt, block) for receipt in receipts)), ""):
            raise NotProvable(f"the receipts have another root, of which {unsure} may be a part")
        raise Disproved("the receipts have another root")


def _encoded(receipt: Json, bloom: bytes, transaction: Json) -> Steps[bytes]:
    """A receipt as the root is made of it."""
    kind, logs = _kind(receipt, transaction), list[bytes]()
    for at, log in enumerate(receipt["logs"]):
        emitter, *topics = searched(log)
        words = data(member(log, "data"), "data")
        logs.append(sequence((string(emitter), sequence(map(string, topics)), string(words))))
        if at % ITEMS_A_STEP == 0:
            yield
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


def _kind(receipt: Json, transaction: Json) -> str:
    """The type of a receipt, which is that of its transaction."""
    kind = type_of(transaction)
    if receipt.get("type") is not None and kind != type_of(receipt):
        raise Disproved("another type than its transaction has")
    if len(kind) > len("0x7f"):
        raise NotProvable(f"the type {kind[:8]}")
    return kind


def _unsure(receipt: Json, block: Json) -> str:
    """A member that the root may be made of, and that some nodes leave out of receipts; empty where there is none."""
    kind = receipt.get("type")
    if kind is not None and hex(whole(kind, "type")) == DEPOSIT and receipt.get("depositReceiptVersion") is None:
        return "depositReceiptVersion"
    if receipt.get("root") is None and whole(block.get("number", _WITH_STATUS), "number") < _WITH_STATUS:
        return "root" if whole(block.get("difficulty", 0), "difficulty") >= _PROOF_OF_WORK else ""
    return ""


def prove_repeated(receipt: Json, bloom: bytes, transaction: Json, block: Json, index: int) -> Steps[None]:
    """Prove what a receipt of a block repeats of the block and of its transaction, which are proved, and its bloom."""
    if data(member(receipt, "logsBloom"), "logsBloom", BLOOM_BYTES) != bloom:
        raise Disproved("another bloom than that of its logs")
    prove_place(receipt, block, index)
    prove_same(member(receipt, "transactionHash"), member(transaction, "hash"), data32, "transactionHash")
    _prove_parties(receipt, transaction)
    _kind(receipt, transaction)
    paid, price = receipt.get("effectiveGasPrice"), paid_price(transaction, block)
    if paid is not None and price is not None and whole(paid, "effectiveGasPrice") != price:
        raise Disproved("another effectiveGasPrice than its transaction paid")
    blobs = len(items(transaction.get("blobVersionedHashes") or [], "blobVersionedHashes"))
    if receipt.get("blobGasUsed") is not None and whole(receipt["blobGasUsed"], "blobGasUsed") != blobs * GAS_A_BLOB:
        raise Disproved("another blobGasUsed than its blobs take")
    for at, log in enumerate(receipt["logs"]):
        with said_of(f"log {at}"):
            prove_place(log, block, index)
            prove_same(member(log, "transactionHash"), member(transaction, "hash"), data32, "transactionHash")
            if log.get("removed"):
                raise Disproved("it is said to be removed")
        if at % ITEMS_A_STEP == 0:
            yield


def _prove_parties(receipt: Json, transaction: Json) -> None:
    """Prove who sent a transaction to whom, and what contract it made."""
    if receipt.get("from") == _NOBODY:
        raise NotProvable("the receipt of a transaction of the chain itself, which nobody signed")
    origin, to = address(member(transaction, "from"), "from"), transaction.get("to")
    if "from" in receipt and address(receipt["from"], "from") != origin:
        raise Disproved("another from than its transaction has")
    if "to" in receipt and write_address(receipt["to"], "to") != write_address(to, "to"):
        raise Disproved("another to than its transaction has")
    created = receipt.get("contractAddress")
    if created not in (None, _NOBODY):
        made = sequence((string(origin), write_number(member(transaction, "nonce"), "nonce")))
        if to is not None or address(created, "contractAddress") != keccak256(made)[12:]:
            raise Disproved("another contractAddress than its transaction makes")
    elif to is None:
        raise NotProvable("contractAddress is missing")


# -- one of them -------------------------------------------------------------------------------------------------------

_HASHED = ("cumulativeGasUsed", "gasUsed", "transactionHash", "transactionIndex", "blockHash", "blockNumber")


def prove_among(receipt: Json, proved: Json) -> Steps[None]:
    """Prove a receipt by the one with its index, which is proved with all others of the block: what the root of
    receipts is made of is the same in both."""
    for name in (*_HASHED, "root" if _has(proved, "root") else "status"):
        prove_same(member(receipt, name), member(proved, name), whole, name)
    logs = items(member(proved, "logs"), "logs")
    if len(logs) != len(receipt["logs"]):
        raise Disproved(f"{len(receipt['logs'])} logs where there are {len(logs)}")
    for at, (log, right) in enumerate(zip(receipt["logs"], logs, strict=True)):
        if not same_log(log, right):
            raise Disproved(f"log {at} is another one")
        if at % ITEMS_A_STEP == 0:
            yield


def same_log(log: Json, proved: Json) -> bool:
    """Is a log the same as a proved one, in what a hash is made of?"""
    # Most nodes spell alike, and to read a log takes twenty times as long.
    return not log.get("removed") and (log == proved or _as_values(log) == _as_values(proved))


def _as_values(log: Json) -> tuple[Any, ...]:
    numbers = [whole(member(log, name), name) for name in ("blockNumber", "transactionIndex", "logIndex")]
    hashes = [hash_of(log, name) for name in ("blockHash", "transactionHash")]
    return searched(log), data(member(log, "data"), "data"), numbers, hashes


def _has(of: Json, name: str) -> bool:
    return of.get(name) not in (None, "0x")
