"""Reads and writes account addresses in Harmony's two spellings: 0x hex and one1 bech32 (BIP-173)."""

from __future__ import annotations

from functools import lru_cache

from rpcaccel.core.hashing import bech32


@lru_cache(maxsize=65536)
def to_one(address: bytes) -> str:
    """The one1... text of a 20-byte address."""
    return bech32.write(address)


def to_hex(address: bytes) -> str:
    return "0x" + address.hex()


@lru_cache(maxsize=65536)
def parse(text: str) -> bytes:
    """The 20 bytes that `text` names, in either spelling.

    Raises ValueError when it names none; the caller words the error as its node does.
    """
    if text.startswith(("0x", "0X")) and len(text) == 42:
        return bytes.fromhex(text[2:])
    return bech32.read(text)
