"""Reads the raw transactions that wallets send: RLP, typed envelopes, hashes and the address that signed.

Sources: Ethereum yellow paper appendix B (RLP), EIP-155, EIP-2718, EIP-2930 and EIP-1559. Harmony's own form has
shardID and toShardID after the gas limit; transactions of both forms are accepted.
"""

from __future__ import annotations

from random import Random
from typing import Any, TypeAlias

from Crypto.Hash import keccak
from msgspec import Struct

_P = 2**256 - 2**32 - 977
_N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_G = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)
Item: TypeAlias = "bytes | list[Item]"
Point = tuple[int, int] | None


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
        numbers = [self.nonce, self.gas_price, self.gas, shard, self.to_shard]
        fields: list[Item] = [number_bytes(number) for number in numbers]
        tail = [number_bytes(number) for number in (self.value,)]
        signature = [number_bytes(number) for number in (self.v, self.r, self.s)]
        return keccak256(encode([*fields, self.to or b"", *tail, self.data, *signature]))


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
    if raw[0] in (1, 2):
        return _typed(raw)
    fields = decode(raw) if raw[0] >= 0xC0 else b""
    if not isinstance(fields, list) or not all(isinstance(field, bytes) for field in fields):
        raise ValueError("rlp: expected input list for types.txdata")
    parts = [field for field in fields if isinstance(field, bytes)]
    if len(parts) not in (9, 11):
        raise ValueError("rlp: too few elements for types.txdata")
    harmony = len(parts) == 11
    shards = parts[3:5] if harmony else []
    nonce, gas_price, gas, to, value, data, v, r, s = parts[:3] + (parts[5:] if harmony else parts[3:])
    v_number = _number(v)
    chain_id = (v_number - 35) // 2 if v_number >= 35 else None
    unsigned: list[Item] = [nonce, gas_price, gas, *shards, to, value, data]
    if chain_id is not None:
        unsigned += [number_bytes(chain_id), b"", b""]
    parity = (v_number - 35) % 2 if v_number >= 35 else (v_number - 27) % 2
    numbers = {"nonce": nonce, "value": value, "gas": gas, "gas_price": gas_price, "v": v, "r": r, "s": s}
    numbers["to_shard"] = shards[1] if shards else b""
    return _signed(raw, encode(unsigned), parity, numbers, to=to or None, data=data, chain_id=chain_id, harmony=harmony)


def _signed(raw: bytes, unsigned: bytes, parity: int, numbers: dict[str, bytes], **more: Any) -> RawTransaction:
    """A transaction whose sender is told by its signature of `unsigned`."""
    values: dict[str, Any] = {name: _number(number) for name, number in numbers.items()}
    sender = recover(keccak256(unsigned), parity, values["r"], values["s"])
    return RawTransaction(hash=keccak256(raw), sender=sender, **values, **more)


def _typed(raw: bytes) -> RawTransaction:
    fields = decode(raw[1:])
    wanted = 12 if raw[0] == 2 else 11
    if not isinstance(fields, list) or len(fields) != wanted:
        raise ValueError("rlp: too few elements for types.txdata")
    plain = [field if isinstance(field, bytes) else b"" for field in fields]
    fees = plain[2:4] if raw[0] == 2 else [b"", plain[2]]
    gas, to, value, data = plain[4:8] if raw[0] == 2 else plain[3:7]
    v, r, s = plain[-3:]
    numbers = {"chain_id": plain[0], "nonce": plain[1], "value": value, "gas": gas, "v": v, "r": r, "s": s}
    numbers |= {"priority_fee": fees[0], "gas_price": fees[1]}
    unsigned = raw[:1] + encode(fields[:-3])
    return _signed(raw, unsigned, _number(v), numbers, to=to or None, data=data, type=raw[0])


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def recover(digest: bytes, parity: int, r: int, s: int) -> bytes:
    """The address whose key signed `digest`. Raises ValueError when no key can have."""
    y_squared = (pow(r, 3, _P) + 7) % _P
    y = pow(y_squared, (_P + 1) // 4, _P)
    if not (0 < r < _N and 0 < s < _N) or y * y % _P != y_squared:
        raise ValueError("invalid transaction v, r, s values")
    if y % 2 != parity:
        y = _P - y
    inverse = pow(r, -1, _N)
    signed = _multiply((r, y), s * inverse % _N)
    message = _multiply(_G, -_number(digest) * inverse % _N)
    point = _sum(signed, message)
    if point is None:
        raise ValueError("invalid transaction v, r, s values")
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


def unfunded(rng: Random, to: bytes, chain_id: int) -> bytes:
    """A well-formed transfer with a made-up signature (EIP-155).

    Any x of a point on the curve recovers to some address. Nobody has used it, so a real node refuses the transfer.
    """
    numbers = (0, 100_000_000_000, 21_000, 1, 35 + 2 * chain_id + rng.randrange(2), _G[0], rng.randrange(1, _N // 2))
    nonce, gas_price, gas, value, *signature = (number_bytes(number) for number in numbers)
    return encode([nonce, gas_price, gas, to, value, b"", *signature])
