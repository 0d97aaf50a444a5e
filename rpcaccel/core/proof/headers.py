"""Proves the members of a block by its hash: the header, the transactions, the withdrawals and the receipts.

    block's hash <- header <- transactionsRoot <- transactions, their hashes and senders
                           <- receiptsRoot     <- receipts, logs, blooms
                           <- withdrawalsRoot  <- withdrawals

That the chain has this hash at this height is for the caller to know. Every function returns nothing where its proof
holds, raises Disproved where an answer contradicts the hash, and NotProvable where the answer lacks something that the
hash is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rpcaccel.core.hashing.keccak import keccak256
from rpcaccel.core.hashing.rlp import decode, sequence
from rpcaccel.core.hashing.trie import list_root
from rpcaccel.core.proof.encoding import (
    HEADER_WRITERS,
    Disproved,
    Json,
    NotProvable,
    data,
    data32,
    encoded,
    items,
    member,
    whole,
    write_number,
)
from rpcaccel.core.proof.forms import HashedHeader
from rpcaccel.core.stepwise import Steps

_NO_UNCLES = keccak256(b"\xc0")
"""`sha3Uncles` of a block without uncles."""
_WITHDRAWAL = ("index", "validatorIndex", "address", "amount")
_WITHDRAWAL_WRITERS = dict.fromkeys(("index", "validatorIndex", "amount"), write_number)


def prove_header(block: Json, form: HashedHeader, encoded_header: bytes | None = None) -> None:
    """Prove the members that the hash of a block is made of.

    Args:
        block: a block or a header, as a node gave it.
        encoded_header: the header as it is hashed, where the chain has a method that gives it.
    """
    named = hash_of(block, "hash")
    if form.members:
        if keccak256(sequence(encoded(block, (*form.members, *_later(block, form)), HEADER_WRITERS))) != named:
            _refuse(block, form, named)
    elif encoded_header is None:
        raise NotProvable("the chain's nodes do not show all that the hash of a block is made of")
    elif keccak256(encoded_header) != named:
        raise NotProvable("the encoded header has another hash: it or the block is false, or they are of two forks")
    else:
        _compare(block, form.positions, encoded_header)
    if block.get("uncles") and hash_of(block, "sha3Uncles") == _NO_UNCLES:
        raise Disproved("the block shows uncles, and its header says that there are none")


def _refuse(block: Json, form: HashedHeader, named: bytes) -> None:
    """Refuse a header with another hash. It is not false where the block shows that it was sealed in another form, nor
    where the node shows who signed it in place of the miner, as erigon does on Polygon."""
    if sealed := next((name for name in form.other_seals if block.get(name) is not None), None):
        raise NotProvable(f"its hash is made of {sealed}, too")
    unsigned = {**block, "miner": "0x" + "00" * 20}
    if keccak256(sequence(encoded(unsigned, (*form.members, *_later(block, form)), HEADER_WRITERS))) == named:
        raise NotProvable("its miner is another one than that of the header")
    raise Disproved("the header has another hash")


def prove_withdrawals(block: Json) -> Steps[None]:
    """Prove the withdrawals that a block shows by the root that its header has of them (EIP-4895)."""
    entries = list[bytes]()
    for one in items(member(block, "withdrawals"), "withdrawals"):
        entries.append(sequence(encoded(one, _WITHDRAWAL, _WITHDRAWAL_WRITERS)))
        yield
    if (yield from list_root(entries)) != hash_of(block, "withdrawalsRoot"):
        raise Disproved("the withdrawals have another root")


def _later(block: Json, form: HashedHeader) -> tuple[str, ...]:
    """The members that forks added, of which a block has the first ones."""
    there = tuple(name for name in form.later if block.get(name) is not None)
    if there != form.later[: len(there)]:
        raise NotProvable(f"{there[-1]} is there without a member that came before it")
    return there


def _compare(block: Json, positions: Iterable[str], header: bytes) -> None:
    """Compare the members that a block shows with those of its encoded header."""
    try:
        found = decode(header)
    except ValueError as error:
        raise NotProvable(f"the encoded header: {error}") from None
    if len(found) == 3 and isinstance(found[2], list):  # Harmony writes a name and a version before the members
        found = found[2]
    for name, value in zip(positions, found, strict=False):
        if name not in block or not isinstance(value, bytes):
            continue
        if HEADER_WRITERS.get(name) is write_number:
            same = whole(block[name], name) == int.from_bytes(value, "big")
        else:
            same = data(block[name], name) == value
        if not same:
            raise Disproved(f"{name} is another one than in the encoded header")


def hash_of(of: Json, name: str) -> bytes:
    """A member of 32 bytes."""
    return data32(member(of, name), name)


def prove_place(of: Json, block: Json, index: int) -> None:
    """Prove where a transaction, a receipt or a log says that it stands.

    Args:
        of: what says so.
        block: the block in which it stands; its header is proved.
        index: the number of its transaction in the block.
    """
    if whole(member(of, "transactionIndex"), "transactionIndex") != index:
        raise Disproved("another transactionIndex")
    prove_same(member(of, "blockHash"), member(block, "hash"), data32, "blockHash")
    prove_same(member(of, "blockNumber"), member(block, "number"), whole, "blockNumber")
    for name in ("blockTimestamp", "timestamp"):
        if of.get(name) is not None:
            prove_same(of[name], member(block, "timestamp"), whole, name)


def prove_same(shown: Any, known: Any, read: Callable[[Any, str], object], name: str) -> None:
    """Prove a member that repeats one that was read. Texts that are equal need not be read again."""
    if not (isinstance(shown, str) and shown == known) and read(shown, name) != read(known, name):
        raise Disproved(f"another {name}")
