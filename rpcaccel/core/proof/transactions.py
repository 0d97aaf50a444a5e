"""Proves transactions by the root that a block's header has of them, and their senders by their signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from rpcaccel.core.hashing.keccak import keccak256
from rpcaccel.core.hashing.rlp import number, sequence
from rpcaccel.core.hashing.signature import signer_of
from rpcaccel.core.hashing.trie import list_root
from rpcaccel.core.proof.encoding import (
    Disproved,
    Json,
    NotProvable,
    address,
    data,
    encoded,
    member,
    said_of,
    whole,
)
from rpcaccel.core.proof.forms import TRANSACTIONS
from rpcaccel.core.proof.headers import hash_of, prove_place
from rpcaccel.core.stepwise import Steps

DEPOSIT = "0x7e"
"""The type of the OP stack's transactions from the chain below, which nobody signs."""
_UNTYPED = ("0x0", "harmony")
"""Forms whose list stands behind no byte that names the type."""
_IMPLIED: Json = {"accessList": [], "isSystemTx": False, "mint": 0, "to": None}
"""What members mean that a node leaves out."""
_REPEATED = {"yParity": "v", "input": "data"}
"""Members that some nodes leave out, and those that have the same values."""
_EIP_155 = 35
"""`v` from which the signature of an untyped transaction covers the id of its chain."""
_WITHOUT_SHARDS = 1_666_600_000
"""The id of a chain from which transactions of Harmony are signed as Ethereum's wallets do, without shards."""


class EncodedTransaction(Struct, frozen=True, gc=False):
    """A transaction as it is hashed."""

    form: str
    """Its type, or "harmony" (core.proof.forms)."""
    members: Json
    """The members that it is hashed with, those among them that the node left out."""
    parts: list[bytes]
    """These in RLP."""
    envelope: bytes
    """The transaction as the root of its block is made of it."""


def encode_transaction(one: Json, types: Sequence[str]) -> EncodedTransaction:
    """The transaction as it is hashed on a chain that has these types."""
    if why := odd(one, types):
        raise NotProvable(why)
    form = _form(one, types)
    filled = _complete(one, TRANSACTIONS[form])
    parts = encoded(filled, TRANSACTIONS[form])
    return EncodedTransaction(form, filled, parts, _enveloped(form, parts))


def odd(one: Json, types: Sequence[str]) -> str:
    """What a transaction is whose hash could not be made, in words; empty for all others. Those that nobody signed are
    of a chain itself, such as Polygon's of its own state: their hashes are made in ways of their own, and the roots
    without them."""
    form = _form(one, types)
    if form not in types:
        return f"transaction of the type {form[:8]}"
    unsigned = form != DEPOSIT and all(whole(one.get(name, 1), name) == 0 for name in ("r", "s"))
    return "transaction that nobody signed" if unsigned else ""


def _form(one: Json, types: Sequence[str]) -> str:
    return "harmony" if "harmony" in types else type_of(one)


def prove_root(transactions: Sequence[Json], block: Json, types: Sequence[str]) -> Steps[list[EncodedTransaction]]:
    """Prove all transactions of a block, whose header is proved, by its root of them. Returns them as they are
    hashed."""
    found = []
    for index, one in enumerate(transactions):
        with said_of(f"transaction {index}"):
            found.append(encode_transaction(one, types))
        yield
    if (yield from list_root([one.envelope for one in found])) != hash_of(block, "transactionsRoot"):
        raise Disproved("the transactions have another root")
    return found


def prove_repeated(transactions: Sequence[Json], encodings: Sequence[EncodedTransaction], block: Json) -> Steps[None]:
    """Prove what each transaction of a block shows beside what its root is made of: hash, place, price and sender."""
    for index, (one, as_hashed) in enumerate(zip(transactions, encodings, strict=True)):
        with said_of(f"transaction {index}"):
            prove_named(one, as_hashed)
            prove_stands(one, block, index)
        yield


def prove_named(one: Json, as_hashed: EncodedTransaction) -> None:
    """Prove a transaction by its hash, and its sender by its signature."""
    filled, form = as_hashed.members, as_hashed.form
    if keccak256(as_hashed.envelope) != hash_of(one, "hash"):
        raise Disproved("another hash")
    if one.get("data") is not None and data(one["data"], "data") != data(filled["input"], "input"):
        raise Disproved("another data than input")
    if form != DEPOSIT and _signer(filled, form, as_hashed.parts[:-3]) != address(member(one, "from"), "from"):
        raise Disproved("signed by another address")


def prove_stands(one: Json, block: Json, index: int) -> None:
    """Prove that a transaction stands where it says in a block whose header is proved, and the price of gas that it
    paid, which nodes show beside those that it offered (EIP-1559)."""
    prove_place(one, block, index)
    paid, shown = paid_price(one, block), one.get("gasPrice")
    if paid is not None and shown is not None and whole(shown, "gasPrice") != paid:
        raise Disproved("another price of gas")


def paid_price(one: Json, block: Json) -> int | None:
    """The price of gas that a transaction of a block paid; None where what the block shows does not tell."""
    most, base, shown = one.get("maxFeePerGas"), block.get("baseFeePerGas"), one.get("gasPrice")
    if most is None or base is None:
        return None if shown is None else whole(shown, "gasPrice")
    tip = whole(member(one, "maxPriorityFeePerGas"), "maxPriorityFeePerGas")
    return min(whole(most, "maxFeePerGas"), whole(base, "baseFeePerGas") + tip)


def type_of(of: Any) -> str:
    """The type that a transaction or a receipt names; those from before EIP-2718 name none."""
    if not isinstance(of, dict):
        raise NotProvable("an object is missing")
    found = of.get("type")
    if found is None and (of.get("maxFeePerGas") is not None or of.get("accessList")):
        raise NotProvable("type is missing")
    return "0x0" if found is None else hex(whole(found, "type"))


def _complete(one: Json, names: Sequence[str]) -> Json:
    """A transaction with the members that nodes leave out where their values follow from others."""
    filled = dict(one)
    for name in names:
        if one.get(name) is None and (name in _IMPLIED or name in _REPEATED):
            filled[name] = _IMPLIED[name] if name in _IMPLIED else one.get(_REPEATED[name])
    return filled


def _enveloped(form: str, parts: Sequence[bytes]) -> bytes:
    body = sequence(parts)
    return body if form in _UNTYPED else bytes((int(form, 16),)) + body


def _signer(one: Json, form: str, unsigned: list[bytes]) -> bytes:
    """The address whose key signed a transaction, of which `unsigned` are the members before the signature, in RLP."""
    if form in _UNTYPED:
        v = whole(member(one, "v"), "v")
        parity, chain_id = (v + 1) % 2, (v - _EIP_155) // 2
        if v >= _EIP_155:
            if form == "harmony" and chain_id >= _WITHOUT_SHARDS:
                unsigned = unsigned[:3] + unsigned[5:]
            unsigned = [*unsigned, number(chain_id), number(0), number(0)]
            if one.get("chainId") is not None and whole(one["chainId"], "chainId") != chain_id:
                raise Disproved("another chainId than the signature has")
    else:
        parity = whole(one["yParity"], "yParity")
        if one.get("v") is not None and whole(one["v"], "v") != parity:
            raise Disproved("another v than yParity")
    try:
        return signer_of(keccak256(_enveloped(form, unsigned)), parity, whole(one["r"], "r"), whole(one["s"], "s"))
    except ValueError as error:
        raise Disproved(str(error)) from None
