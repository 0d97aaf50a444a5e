"""Reads the raw transactions that wallets send: RLP, typed envelopes, hashes and the address that signed.

Sources: Ethereum yellow paper appendix B (RLP), EIP-155, EIP-2718, EIP-2930 and EIP-1559. Harmony's own form has
shardID and toShardID after the gas limit; transactions of both forms are accepted.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from Crypto.Hash import keccak
from msgspec import Struct

_P = 2**256 - 2**32 - 977
_N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_G = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)
"""The prime, the order and the generator of secp256k1 (SEC 2, section 2.4.1)."""
Item: TypeAlias = "bytes | list[Item]"
Point = tuple[int, int] | None
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


def keccak256(data: bytes) -> bytes:
    """The 32-byte Keccak-256 digest of `data`, by which Ethereum and Harmony name transactions and addresses."""
    return keccak.new(data=data, digest_bits=256).digest()


class RawTransaction(Struct, frozen=True, kw_only=True):
    """The fields of a signed transaction."""

    hash: bytes
    """The Keccak-256 hash of the bytes as they were sent."""
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
        return keccak256(encode([self.sender, number_bytes(self.nonce)]))[12:]

    def harmony_hash(self, shard: int) -> bytes:
        """The hash that Harmony's own methods show: that of the same transaction in Harmony's form."""
        if self.harmony:
            return self.hash
        members = {"to": self.to or b"", "data": self.data, "shard": number_bytes(shard)}
        names = _MEMBERS["harmony"].split()
        return keccak256(
            encode([members[name] if name in members else number_bytes(getattr(self, name)) for name in names])
        )


def intrinsic_gas(raw: RawTransaction) -> int:
    """The gas that any such transaction uses at least."""
    return (53_000 if raw.to is None else 21_000) + sum(16 if byte else 4 for byte in raw.data)


def number_bytes(number: int) -> bytes:
    """A number as RLP wants it: big-endian without leading zeros."""
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def encode(item: Item) -> bytes:
    """RLP of bytes or nested lists of bytes."""
    if isinstance(item, bytes):
        return item if len(item) == 1 and item[0] < 0x80 else _length(len(item), 0x80) + item
    body = b"".join(encode(part) for part in item)
    return _length(len(body), 0xC0) + body


def _length(length: int, offset: int) -> bytes:
    if length < 56:
        return bytes([offset + length])
    size = number_bytes(length)
    return bytes([offset + 55 + len(size)]) + size


def decode(data: bytes) -> Item:
    """The RLP item in `data`. Raises ValueError with the node's own words for other data."""
    item, end = _decode(data, 0)
    if end != len(data):
        raise ValueError("rlp: input contains more than one value")
    return item


def _decode(data: bytes, at: int) -> tuple[Item, int]:
    if at >= len(data):
        raise ValueError("EOF")
    head = data[at]
    if head < 0x80:
        return data[at : at + 1], at + 1
    base = 0x80 if head < 0xC0 else 0xC0
    length, start = head - base, at + 1
    if length > 55:
        size = length - 55
        start += size
        length = int.from_bytes(data[at + 1 : start], "big")
    end = start + length
    if end > len(data):
        raise ValueError("rlp: value size exceeds available input length")
    if base == 0x80:
        return data[start:end], end
    items: list[Item] = []
    while start < end:
        item, start = _decode(data, start)
        items.append(item)
    return items, end


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
            unsigned += [number_bytes(numbers["chain_id"]), b"", b""]
    sender = recover(keccak256(raw[:typed] + encode(unsigned)), parity, numbers["r"], numbers["s"])
    return RawTransaction(
        hash=keccak256(raw),
        sender=sender,
        to=members["to"] or None,
        data=members["data"],
        type=raw[0] if typed else 0,
        harmony=form == "harmony",
        **{name: numbers[name] for name in numbers if name in RawTransaction.__struct_fields__},
    )


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def recover(digest: bytes, parity: int, r: int, s: int) -> bytes:
    """The address whose key signed `digest`. Raises ValueError when no key can have."""
    y_squared = (pow(r, 3, _P) + 7) % _P
    y = pow(y_squared, (_P + 1) // 4, _P)
    if not (0 < r < _N and 0 < s < _N) or y * y % _P != y_squared:
        raise ValueError(_UNSIGNED)
    if y % 2 != parity:
        y = _P - y
    inverse = pow(r, -1, _N)
    signed = _multiply((r, y), s * inverse % _N)
    message = _multiply(_G, -_number(digest) * inverse % _N)
    point = _sum(signed, message)
    if point is None:
        raise ValueError(_UNSIGNED)
    return keccak256(point[0].to_bytes(32, "big") + point[1].to_bytes(32, "big"))[12:]


def _sum(a: Point, b: Point) -> Point:
    if a is None or b is None:
        return a or b
    if a[0] == b[0]:
        if (a[1] + b[1]) % _P == 0:
            return None
        slope = 3 * a[0] * a[0] * pow(2 * a[1], -1, _P) % _P
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, _P) % _P
    x = (slope * slope - a[0] - b[0]) % _P
    return x, (slope * (a[0] - x) - a[1]) % _P


def _multiply(point: Point, times: int) -> Point:
    total: Point = None
    while times:
        if times & 1:
            total = _sum(total, point)
        point = _sum(point, point)
        times >>= 1
    return total
