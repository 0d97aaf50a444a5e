"""Harmony's own spelling of addresses: `one1`, the bytes in digits of five bits, and a checksum (BIP-173)."""

from __future__ import annotations

from functools import lru_cache

ADDRESS_PREFIX = "one1"
_DIGITS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_EXPANDED_PREFIX = [ord(letter) >> 5 for letter in "one"] + [0] + [ord(letter) & 31 for letter in "one"]


def _checksum(digits: list[int]) -> int:
    check = 1
    for value in _EXPANDED_PREFIX + digits:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate(_GENERATOR):
            if top >> bit & 1:
                check ^= generator
    return check


def write(address: bytes) -> str:
    """The text of an address of 20 bytes."""
    number = int.from_bytes(address, "big")
    digits = [number >> shift & 31 for shift in range(155, -1, -5)]
    check = _checksum([*digits, 0, 0, 0, 0, 0, 0]) ^ 1
    digits += [check >> shift & 31 for shift in (25, 20, 15, 10, 5, 0)]
    return ADDRESS_PREFIX + "".join(_DIGITS[digit] for digit in digits)


@lru_cache(maxsize=4096)
def read(text: str) -> bytes:
    """The 20 bytes of an address.

    Raises:
        ValueError: the text is no address, or its checksum is wrong.
    """
    if not text.startswith(ADDRESS_PREFIX) or len(text) != 42:
        raise ValueError(text)
    digits = [_DIGITS.index(letter) for letter in text[len(ADDRESS_PREFIX) :]]
    if _checksum(digits) != 1:
        raise ValueError(text)
    number = 0
    for digit in digits[:-6]:
        number = number << 5 | digit
    return number.to_bytes(20, "big")
