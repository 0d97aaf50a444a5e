"""RLP, in which Ethereum and Harmony write what they hash (yellow paper, appendix B).

Parts are joined after they are encoded, because what a node answers is written once and never read back. Errors have
the words of geth, which clients know.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

Item: TypeAlias = "bytes | list[Item]"

MAX_NESTED_LISTS = 16
"""Lists within lists that `decode` follows; a header of Harmony has two, a node of a trie two."""
_SHORT = 56
"""Bytes from which a length is written as a number of its own."""


def string(data: bytes) -> bytes:
    """The encoding of some bytes."""
    if len(data) == 1 and data[0] < 0x80:
        return data
    return (_STRING_HEADS[len(data)] if len(data) < _SHORT else _long_head(len(data), 0xB7)) + data


def encode(item: Item) -> bytes:
    """The encoding of bytes, or of nested lists of bytes."""
    return string(item) if isinstance(item, bytes) else sequence(map(encode, item))


def number(value: int) -> bytes:
    """The encoding of a number that is 0 or more: its bytes without leading zeros."""
    if value < 0x80:
        return _SMALL_NUMBERS[value]
    return string(value.to_bytes((value.bit_length() + 7) >> 3, "big"))


def sequence(parts: Iterable[bytes]) -> bytes:
    """The encoding of a list of items that are encoded already."""
    body = b"".join(parts)
    return (_LIST_HEADS[len(body)] if len(body) < _SHORT else _long_head(len(body), 0xF7)) + body


_SMALL_NUMBERS = (b"\x80", *(bytes([value]) for value in range(1, 0x80)))
_STRING_HEADS = tuple(bytes([0x80 + length]) for length in range(_SHORT))
_LIST_HEADS = tuple(bytes([0xC0 + length]) for length in range(_SHORT))


def _long_head(length: int, base: int) -> bytes:
    size = length.to_bytes((length.bit_length() + 7) >> 3, "big")
    return bytes([base + len(size)]) + size


def decode(data: bytes) -> Item:
    """The item that `data` encodes.

    Raises:
        ValueError: `data` is cut off, goes on after the item, nests deeper than MAX_NESTED_LISTS, or writes a length or
            a byte in a longer form than it needs, so that two texts would have one meaning.
    """
    if not data:
        raise ValueError("EOF")
    item, end = _decode(data, 0, len(data), MAX_NESTED_LISTS)
    if end != len(data):
        raise ValueError("rlp: input contains more than one value")
    return item


def _decode(data: bytes, at: int, end: int, depth: int) -> tuple[Item, int]:
    """The item that begins at `at`, and where it ends, which is `end` at the most."""
    head = data[at]
    if head < 0x80:
        return data[at : at + 1], at + 1
    start, stop = _extent(data, at, end)
    if head < 0xC0:
        if stop - start == 1 and data[start] < 0x80:
            raise ValueError("rlp: non-canonical size information")
        return data[start:stop], stop
    if not depth:
        raise ValueError(f"rlp: more than {MAX_NESTED_LISTS} lists within each other")
    items: list[Item] = []
    while start < stop:
        item, start = _decode(data, start, stop, depth - 1)
        items.append(item)
    return items, stop


def _extent(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where the content of the item behind the head at `at` begins and ends."""
    head = data[at]
    length, start = head - (0x80 if head < 0xC0 else 0xC0), at + 1
    if length >= _SHORT:
        start, size = start + length - _SHORT + 1, data[at + 1 : at + 2 + length - _SHORT]
        length = int.from_bytes(size, "big")
        if length < _SHORT or size[0] == 0:
            raise ValueError("rlp: non-canonical size information")
    if start + length > end:
        raise ValueError("rlp: value size exceeds available input length")
    return start, start + length
