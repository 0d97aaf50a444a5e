"""Reads and writes account addresses in Harmony's two spellings: 0x hex and one1 bech32 (BIP-173)."""

from __future__ import annotations

from functools import lru_cache

_CHARSET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_PREFIX = "one"


def _polymod(values: list[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for i, generator in enumerate(_GENERATOR):
            if top >> i & 1:
                check ^= generator
    return check


_EXPANDED = [ord(c) >> 5 for c in _PREFIX] + [0] + [ord(c) & 31 for c in _PREFIX]


@lru_cache(maxsize=65536)
def to_one(address: bytes) -> str:
    """The one1... text of a 20-byte address."""
    number = int.from_bytes(address, "big")
    data = [number >> shift & 31 for shift in range(155, -1, -5)]
    check = _polymod([*_EXPANDED, *data, 0, 0, 0, 0, 0, 0]) ^ 1
    data += [check >> shift & 31 for shift in (25, 20, 15, 10, 5, 0)]
    return _PREFIX + "1" + "".join(_CHARSET[value] for value in data)


def to_hex(address: bytes) -> str:
    return "0x" + address.hex()


@lru_cache(maxsize=65536)
def parse(text: str) -> bytes:
    """The 20 bytes that `text` names, in either spelling.

    Raises ValueError when it names none; the caller words the error as its node does.
    """
    if text.startswith(("0x", "0X")) and len(text) == 42:
        return bytes.fromhex(text[2:])
    if not text.startswith(_PREFIX + "1") or len(text) != 42:
        raise ValueError(text)
    data = [_CHARSET.index(c) for c in text[4:]]
    if _polymod(_EXPANDED + data) != 1:
        raise ValueError(text)
    number = 0
    for value in data[:-6]:
        number = number << 5 | value
    return number.to_bytes(20, "big")
