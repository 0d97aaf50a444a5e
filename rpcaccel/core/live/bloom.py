"""The logs bloom of a block's header: it says which logs the block does not have.

A bloom of 2048 bits has three bits set for each address and each topic of the block's logs, taken from the Keccak-256
of the word (Ethereum yellow paper, section 4.4.3). Words may share bits, so it never says for certain what there is.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
from Crypto.Hash import keccak
from msgspec import Struct

from rpcaccel.core.live.log_filter import LogFilter
from rpcaccel.core.wire.json_text import UNREADABLE

_DIGITS = 2 + 512
_ALL = (1 << 2048) - 1


class _Header(Struct, gc=False):
    logsBloom: str = ""


_decode = msgspec.json.Decoder(_Header).decode


def may_match(header: bytes, wanted: LogFilter) -> bool:
    """May the block have logs that match a filter, as its header says? False where the header has no bloom, and where
    all bits are alike, which some chains fill in."""
    bloom = _bloom(header)
    if bloom in (0, _ALL):
        return False
    return all(not words or any(_has(bloom, word) for word in words) for words in (wanted.addresses, *wanted.topics))


def _bloom(header: bytes) -> int:
    try:
        said = _decode(header).logsBloom
        return int(said, 16) if len(said) == _DIGITS else 0
    except (ValueError, *UNREADABLE):
        return 0


def _has(bloom: int, word: str) -> bool:
    bits = _bits(word)
    return bloom & bits == bits


@lru_cache(maxsize=4096)
def _bits(word: str) -> int:
    """The bits of an address or a topic."""
    digest = keccak.new(data=bytes.fromhex(word[2:]), digest_bits=256).digest()
    return sum({1 << (int.from_bytes(digest[place : place + 2], "big") & 2047) for place in (0, 2, 4)})
