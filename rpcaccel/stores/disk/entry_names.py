"""The names of entries in the file: shorter than their cache keys, and in the order of the blocks that they are about.

A key is `network@chain-id:method:scope:params` (core.plan.cache_key). Everything before the params is replaced by a
number of three bytes, which the table `prefixes` of the file gives out. Params that are a short list stand as they are,
without its brackets, so that calls about neighbouring blocks are neighbours in the index. All others stand as a digest.
"""

from __future__ import annotations

from hashlib import blake2b

ID_BYTES = 3
MOST_PREFIXES = 256**ID_BYTES - 1
LONGEST = 24
"""Bytes of the longest params that stand in a name as they are."""
_DIGEST = b"\xff"
"""Stands before a digest; no item of a list in JSON begins with it."""


def prefix_of(key: bytes) -> bytes:
    """The part of a key that is replaced by a number: network, method and scope, with the colon after them."""
    end = -1
    for _ in range(3):
        found = key.find(b":", end + 1)
        if found < 0:
            break
        end = found
    return key[: end + 1]


def name_of(number: int, params: bytes) -> bytes:
    """The name of the entry with these params under the prefix of this number. Raises OverflowError for a number that
    does not fit."""
    if len(params) <= LONGEST and params.startswith(b"[") and params.endswith(b"]") and params[1:2] != _DIGEST:
        short = params[1:-1]
    else:
        short = _DIGEST + blake2b(params, digest_size=20).digest()
    return number.to_bytes(ID_BYTES, "big") + short


def number_in(name: bytes) -> int:
    """The number of the prefix in a name."""
    return int.from_bytes(name[:ID_BYTES], "big")


def names_under(number: int) -> tuple[bytes, bytes]:
    """The bounds of all names under the prefix of this number: the first one, and the first one after them."""
    return number.to_bytes(ID_BYTES, "big"), (number + 1).to_bytes(ID_BYTES, "big")
