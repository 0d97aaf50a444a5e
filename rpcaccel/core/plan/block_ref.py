"""Reads block references as nodes read them: which block does this text name?

Source: docs/harmony.md section 6 (Go types BlockNumber and BlockNumberOrHash) and the execution API's
BlockNumberOrTag and BlockNumberOrTagOrHash (EIP-1898). A reference that cannot be read with certainty is OPAQUE: the
call is forwarded unchanged and its answer is not kept.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any

from msgspec import Struct

from rpcaccel.core.plan.rules import Spelling
from rpcaccel.core.wire.json_params import Number

MAX_BLOCK = 2**63 - 1
"""The highest block number: nodes store it in a signed 64-bit integer."""


class RefKind(StrEnum):
    """The kind of block that a reference names."""

    NUMBER = "number"
    LATEST = "latest"
    FINALIZED = "finalized"
    SAFE = "safe"
    PENDING = "pending"
    HASH = "hash"
    OPAQUE = "opaque"


class BlockRef(Struct, frozen=True, gc=False):
    """A parsed block reference."""

    kind: RefKind
    number: int = -1
    """The block number of a reference of kind NUMBER."""
    hash: str = ""
    """The block hash of a reference of kind HASH, in lower case."""
    canonical_only: bool = False
    """`requireCanonical` of EIP-1898: the answer depends on the branch, not on the hash alone."""


OPAQUE = BlockRef(RefKind.OPAQUE)
LATEST_BLOCK = BlockRef(RefKind.LATEST)
PENDING = BlockRef(RefKind.PENDING)
EARLIEST = BlockRef(RefKind.NUMBER, 0)

_TAGS = {
    "latest": LATEST_BLOCK,
    "earliest": EARLIEST,
    "pending": PENDING,
    "finalized": BlockRef(RefKind.FINALIZED),
    "safe": BlockRef(RefKind.SAFE),
}
_HEX = re.compile(r"0x(?:0|[1-9a-fA-F][0-9a-fA-F]{0,15})")
_HASH = re.compile(r"0x[0-9a-fA-F]{64}")
_INTEGER = re.compile(r"0|[1-9][0-9]{0,18}")
_TAKES_INTEGER = frozenset({Spelling.HARMONY_NUMBER, Spelling.HARMONY_NUMBER_OR_HASH})
_TAKES_HASH = frozenset({Spelling.HARMONY_NUMBER_OR_HASH, Spelling.HEX_TAG_OR_HASH})


def read(value: Any, spelling: Spelling, tags: frozenset[str]) -> BlockRef:
    """Parse a value of a params tree as a block reference; `tags` are the tags that the chain knows."""
    if isinstance(value, Number):
        return _integer(value) if spelling in _TAKES_INTEGER else OPAQUE
    if isinstance(value, str):
        return _text(value, spelling, tags)
    if isinstance(value, dict) and spelling in _TAKES_HASH:
        return _object(value, tags)
    return OPAQUE


def as_hex(number: int) -> str:
    """The spelling of a block number that every method of every chain accepts."""
    return hex(number)


def _integer(text: str) -> BlockRef:
    if text == "-1":
        return LATEST_BLOCK
    if text == "-2":
        return PENDING
    return _number(int(text)) if _INTEGER.fullmatch(text) else OPAQUE


def _text(text: str, spelling: Spelling, tags: frozenset[str]) -> BlockRef:
    if text in tags:
        return _TAGS.get(text, OPAQUE)
    if _HEX.fullmatch(text):
        return _number(int(text, 16))
    if spelling in _TAKES_HASH and _HASH.fullmatch(text):
        return BlockRef(RefKind.HASH, hash=text.lower())
    if spelling is Spelling.HARMONY_NUMBER and _INTEGER.fullmatch(text):
        return _number(int(text))
    return OPAQUE


def _object(members: dict[str, Any], tags: frozenset[str]) -> BlockRef:
    canonical = members.get("requireCanonical", False)
    names = members.keys() - {"requireCanonical"}
    if not isinstance(canonical, bool):
        return OPAQUE
    if names == {"blockNumber"}:
        return read(members["blockNumber"], Spelling.HEX_OR_TAG, tags)
    block_hash = members.get("blockHash")
    if names == {"blockHash"} and isinstance(block_hash, str) and _HASH.fullmatch(block_hash):
        return BlockRef(RefKind.HASH, hash=block_hash.lower(), canonical_only=canonical)
    return OPAQUE


def _number(number: int) -> BlockRef:
    return BlockRef(RefKind.NUMBER, number) if number <= MAX_BLOCK else OPAQUE
