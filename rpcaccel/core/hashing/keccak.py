"""Keccak-256, by which Ethereum and Harmony name what they have; the hash of a signed transaction from its raw bytes.

A transaction's hash is the Keccak-256 of its consensus encoding (Ethereum yellow paper section 4.2; EIP-2718 for typed
ones). Wallets send that very encoding, with one exception: a blob transaction travels with its blobs (EIP-4844), which
are not part of the hash. The hash of a blob transaction, and of a type not listed here, is left to the node.
"""

from __future__ import annotations

from typing import Any

import msgspec
from Crypto.Hash import keccak

from rpcaccel.core.wire.json_text import UNREADABLE

_TYPES_HASHED_AS_SENT = frozenset({0x01, 0x02, 0x04})
"""Transaction types whose raw bytes are hashed: access list (EIP-2930), fee market (EIP-1559), set code (EIP-7702)."""
_LEGACY_FROM = 0xC0
"""A first byte from here on is an RLP list: a transaction without a type."""
_decode = msgspec.json.Decoder(list[Any]).decode


def keccak256(data: bytes) -> bytes:
    """The digest of `data`, 32 bytes."""
    return keccak.new(data=data, digest_bits=256).digest()


def transaction_hash(params: bytes) -> bytes | None:
    """The transaction's hash as JSON text, from the raw params of a send; None when it cannot be computed from them."""
    raw = _raw(params)
    if not raw or not (raw[0] >= _LEGACY_FROM or raw[0] in _TYPES_HASHED_AS_SENT):
        return None
    return b'"0x%b"' % keccak256(raw).hex().encode()


def _raw(params: bytes) -> bytes | None:
    try:
        first = _decode(params)[0]
        return bytes.fromhex(first[2:]) if first[:2] in ("0x", "0X") else None
    except (*UNREADABLE, ValueError, LookupError, TypeError):
        return None
