"""Addresses that stand for others: the same one always for the same, and none that leads back."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b

from rpcaccel.testing.address import parse as read
from rpcaccel.testing.address import to_hex, to_one

_ADDRESS = re.compile(r'"(0x[0-9a-fA-F]{40}|one1[02-9ac-hj-np-z]{38})"')
_DATA = re.compile(r'"0x((?:[0-9a-fA-F]{8})??)((?:[0-9a-fA-F]{64})+)"')
"""Calldata (a selector, then words), or words alone, as topics are."""
_WORD = re.compile(r"^0{24}([0-9a-fA-F]{40})$")
_SMALL = bytes(8)
"""What begins so is a number, or a contract that every chain has."""


class Hidden:
    """Puts addresses in place of those in the params of calls, for one recording."""

    def __init__(self, salt: bytes) -> None:
        """`salt` is thrown away with the recording: without it nobody can try addresses out."""
        self._salt = salt
        self._other = lru_cache(maxsize=65536)(self._made)

    def __repr__(self) -> str:
        return "<hidden addresses>"

    def params(self, text: str) -> str:
        """Raw JSON text with other addresses in it: where one stands for itself, and in the words of calldata."""
        return _DATA.sub(self._data, _ADDRESS.sub(self._named, text))

    def _named(self, found: re.Match[str]) -> str:
        text = found[1]
        try:
            known = read(text)
        except ValueError:
            return found[0]
        other = self._other(known)
        return f'"{to_one(other) if text.startswith("one1") else to_hex(other)}"'

    def _data(self, found: re.Match[str]) -> str:
        words = (found[2][at : at + 64] for at in range(0, len(found[2]), 64))
        return f'"0x{found[1]}{"".join(map(self._word, words))}"'

    def _word(self, word: str) -> str:
        found = _WORD.match(word)
        return word if found is None else "0" * 24 + self._other(bytes.fromhex(found[1])).hex()

    def _made(self, address: bytes) -> bytes:
        if address.startswith(_SMALL):
            return address
        return blake2b(address, digest_size=20, key=self._salt).digest()
