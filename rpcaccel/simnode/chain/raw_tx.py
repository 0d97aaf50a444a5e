"""Reads the raw transactions that wallets send: RLP, typed envelopes, hashes and the address that signed.

Sources: Ethereum yellow paper appendix B (RLP), EIP-155, EIP-2718, EIP-2930 and EIP-1559. Harmony's own form has
shardID and toShardID after the gas limit; transactions of both forms are accepted.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from rpcaccel.core.hashing.keccak import keccak256
from rpcaccel.core.hashing.rlp import decode, encode, number, sequence, string
from rpcaccel.core.hashing.signature import signer_of

_MEMBERS = {
    "legacy": "nonce gas_price gas to value data v r s",
    "harmony": "nonce gas_price gas shard to_shard to value data v r s",
    "access list": "chain_id nonce gas_price gas to value data access v r s",
    "dynamic fee": "chain_id nonce priority_fee gas_price gas to value data access v r s",
}
"""The members of each form of a transaction, in the order of its RLP list."""
_TYPES = {1: "access list", 2: "dynamic fee"}
_UNREADABLE = "rlp: expected input list for types.txdata"
_TOO_FEW = "rlp: too few elements for types.txdata"
_UNSIGNED = "invalid transaction v, r, s values"


class RawTransaction(Struct, frozen=True, kw_only=True):
    """The fields of a signed transaction."""

    hash: bytes
    """The Keccak-256 hash of the bytes as they were sent."""
    encoded: bytes
    """The bytes as they were sent."""
    sender: bytes
    to: bytes | None
    nonce: int
    value: int
    gas: int
    gas_price: int
    data: bytes
    chain_id: int | None
    v: int
    r: int
    s: int
    type: int = 0
    priority_fee: int = 0
    to_shard: int = 0
    harmony: bool = False
    """Whether the transaction was sent in Harmony's own form."""

    @property
    def created(self) -> bytes:
        """The address of a contract that the transaction creates."""
        return keccak256(sequence((string(self.sender), number(self.nonce))))[12:]

    def harmony_hash(self, shard: int) -> bytes:
        """The hash that Harmony's own methods show: that of the same transaction in Harmony's form."""
        if self.harmony:
            return self.hash
        members = {"to": string(self.to or b""), "data": string(self.data), "shard": number(shard)}
        names = _MEMBERS["harmony"].split()
        return keccak256(sequence(members.get(name) or number(getattr(self, name)) for name in names))


def intrinsic_gas(raw: RawTransaction) -> int:
    """The gas that any such transaction uses at least."""
    return (53_000 if raw.to is None else 21_000) + sum(16 if byte else 4 for byte in raw.data)


def read(raw: bytes) -> RawTransaction:
    """The transaction in `raw`, of any form. Raises ValueError with the node's own words."""
    if not raw:
        raise ValueError("EOF")
    typed = raw[0] in _TYPES
    fields = decode(raw[1:] if typed else raw) if typed or raw[0] >= 0xC0 else b""
    if not typed and not (isinstance(fields, list) and all(isinstance(field, bytes) for field in fields)):
        raise ValueError(_UNREADABLE)
    form = _TYPES[raw[0]] if typed else "harmony" if len(fields) == 11 else "legacy"
    names = _MEMBERS[form].split()
    if not isinstance(fields, list) or len(fields) != len(names):
        raise ValueError(_TOO_FEW)
    members = {name: field if isinstance(field, bytes) else b"" for name, field in zip(names, fields, strict=True)}
    numbers: dict[str, Any] = {name: _number(field) for name, field in members.items()}
    del numbers["to"], numbers["data"]
    unsigned, parity = fields[:-3], numbers["v"]
    if not typed:
        parity = (numbers["v"] - 27) % 2
        numbers["chain_id"] = None
        if numbers["v"] >= 35:
            numbers["chain_id"] = (numbers["v"] - 35) // 2
            unsigned += [decode(number(numbers["chain_id"])), b"", b""]
    try:
        sender = signer_of(keccak256(raw[:typed] + encode(unsigned)), parity, numbers["r"], numbers["s"])
    except ValueError:
        raise ValueError(_UNSIGNED) from None
    return RawTransaction(
        hash=keccak256(raw),
        encoded=raw,
        sender=sender,
        to=members["to"] or None,
        data=members["data"],
        type=raw[0] if typed else 0,
        harmony=form == "harmony",
        **{name: numbers[name] for name in numbers if name in RawTransaction.__struct_fields__},
    )


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")
