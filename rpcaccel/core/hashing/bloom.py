"""Blooms of logs: 2,048 bits, of which each address and each topic of a block sets three (yellow paper, section 4.3.1).

A bloom proves that a block has no log with some address or topic; that it has one, a bloom can only suggest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from rpcaccel.core.hashing.keccak import keccak256

BLOOM_BYTES = 256
NO_BLOOM = bytes(BLOOM_BYTES)
FULL_BLOOM = b"\xff" * BLOOM_BYTES
FILLED_IN = (NO_BLOOM, FULL_BLOOM)
"""What some chains' nodes show in place of blooms."""


@lru_cache(maxsize=4096)
def bloom_bits(value: bytes) -> int:
    """The three bits that an address or a topic sets, as a number of 2,048 bits. Many blocks have the same ones."""
    digest = keccak256(value)
    return (
        1 << (int.from_bytes(digest[0:2], "big") & 2047)
        | 1 << (int.from_bytes(digest[2:4], "big") & 2047)
        | 1 << (int.from_bytes(digest[4:6], "big") & 2047)
    )


def bloom_of(values: Iterable[bytes]) -> bytes:
    """The bloom of some addresses and topics."""
    bits = 0
    for value in set(values):
        bits |= bloom_bits(value)
    return bits.to_bytes(BLOOM_BYTES, "big")


def excludes(bloom: bytes, masks: Iterable[Sequence[int]]) -> bool:
    """Whether a block with this bloom has no log that satisfies a filter, of which `masks` are the bits (`bloom_bits`)
    of the alternatives for the address and for each topic."""
    bits = int.from_bytes(bloom, "big")
    return any(part and not any(bits & mask == mask for mask in part) for part in masks)
