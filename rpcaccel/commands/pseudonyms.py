"""Addresses that stand for others: the same one always for the same, and none that leads back."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from hashlib import blake2b

from rpcaccel.testing.address import parse as read
from rpcaccel.testing.address import to_hex, to_one

_ADDRESS = re.compile(r'"((?:0[xX])?[0-9a-fA-F]{40}|one1[02-9ac-hj-np-z]{38}|ONE1[02-9AC-HJ-NP-Z]{38})"')
"""In every spelling that some node takes."""
_ESCAPED = re.compile(r'"(?=[^"]*\\)(?:[^"\\]|\\.)*"')
_DATA = re.compile(r'"0[xX]((?:[0-9a-fA-F]{2}){32,})"')
"""Calldata (a selector, then words, perhaps a tag behind them), or words alone, as topics are."""
_SELECTOR, _ADDRESS_LENGTH, _WORD_LENGTH = 8, 40, 64
"""Hex digits."""
_WORD = re.compile(r"^0{24}([0-9a-fA-F]{40})$")
_SMALL = bytes(8)
"""What begins so is a number, or a contract that every chain has."""


class Pseudonyms:
    """Puts addresses in place of those in the params of calls, for one recording."""

    def __init__(self, salt: bytes) -> None:
        """`salt` is thrown away with the recording: without it nobody can try addresses out."""
        self._salt = salt
        self._other = lru_cache(maxsize=65536)(self._made)

    def __repr__(self) -> str:
        return "<Pseudonyms>"

    def params(self, text: str) -> str:
        """Raw JSON text with other addresses in it: where one stands for itself, and in the words of calldata."""
        plain = _ESCAPED.sub(_unescaped, text) if "\\" in text else text
        return _DATA.sub(self._data, _ADDRESS.sub(self._named, plain))

    def _named(self, found: re.Match[str]) -> str:
        text = found[1].lower()
        if not text.startswith("one1"):
            return f'"{to_hex(self._other(bytes.fromhex(text[-_ADDRESS_LENGTH:])))}"'
        try:
            return f'"{to_one(self._other(read(text)))}"'
        except ValueError:
            return found[0]

    def _data(self, found: re.Match[str]) -> str:
        return f'"0x{self._call(found[1]) if len(found[1]) % _WORD_LENGTH else self._words(found[1])}"'

    def _call(self, data: str) -> str:
        return data[:_SELECTOR] + self._words(data[_SELECTOR:])

    def _words(self, data: str) -> str:
        """Words, and the calls that stand among them as bytes (Solidity's ABI): so do those of a multicall."""
        told: list[str] = []
        at = 0
        while at + _WORD_LENGTH <= len(data):
            word = data[at : at + _WORD_LENGTH]
            told.append(self._word(word))
            at += _WORD_LENGTH
            if length := _call_length(word, data, at):
                told.append(self._call(data[at : at + length]))
                at += length
                told.append(data[at : at + _WORD_LENGTH - _SELECTOR])
                at += _WORD_LENGTH - _SELECTOR
        return "".join(told) + data[at:]

    def _word(self, word: str) -> str:
        found = _WORD.match(word)
        return word if found is None else "0" * 24 + self._other(bytes.fromhex(found[1])).hex()

    def _made(self, address: bytes) -> bytes:
        if address.startswith(_SMALL):
            return address
        return blake2b(address, digest_size=20, key=self._salt).digest()


def _unescaped(found: re.Match[str]) -> str:
    """A JSON text without escapes, if it is an address or data."""
    try:
        plain = f'"{json.loads(found[0])}"'
    except ValueError:
        return found[0]
    return plain if _ADDRESS.fullmatch(plain) or _DATA.fullmatch(plain) else found[0]


def _call_length(word: str, data: str, at: int) -> int:
    """Hex digits of the call that begins here, if the word before says how long it is; 0: it does not.

    A number may look like a length: a call has a selector, and zeros behind it up to the next word.
    """
    if word[:48].strip("0"):
        return 0
    length = 2 * int(word, 16)
    end = at + length
    padding = data[end : end + _WORD_LENGTH - _SELECTOR]
    fits = length % _WORD_LENGTH == _SELECTOR and end <= len(data) and not padding.strip("0")
    return length if fits and data[at : at + _SELECTOR].strip("0") else 0
