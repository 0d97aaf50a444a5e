"""The hashes of blocks and transactions that results named: what such a hash names is there, whatever a node says."""

from __future__ import annotations

import re

MAX_HASHES = 8192
"""Hashes that are remembered, some 150 bytes each; the one stored first is dropped first."""
_READ = 4096
"""Bytes of the beginning of a result that are searched."""
_OF_A_RESULT = 4
"""Hashes that are taken from one result: those of what it is about come first."""
_NAMED = re.compile(rb'"(?:hash|blockHash|transactionHash)":\s?"(0x[0-9a-fA-F]{64})"')
_PENDING = re.compile(rb'"blockHash":\s?(?:null|"0x0*")')
"""What stands in a transaction that is in no block: it has no receipt yet, and other nodes need not know it."""
_HASH = re.compile(rb"0x[0-9a-fA-F]{64}(?![0-9a-fA-F])")


class KnownHashes:
    """The hashes of one network."""

    __slots__ = ("_hashes",)

    def __init__(self) -> None:
        self._hashes: dict[bytes, None] = {}

    def __repr__(self) -> str:
        return f"<{len(self._hashes)} known hashes>"

    def note(self, result: bytes) -> None:
        """Remember what a result names, unless that is in no block yet."""
        if _PENDING.search(result, 0, _READ):
            return
        for hash in _NAMED.findall(result, 0, _READ)[:_OF_A_RESULT]:
            self._hashes[hash.lower()] = None
        while len(self._hashes) > MAX_HASHES:
            del self._hashes[next(iter(self._hashes))]

    def named_in(self, params: bytes) -> bool:
        """Does a call begin with the name of something that is known?"""
        found = _HASH.search(params, 0, _READ)
        return found is not None and found.group().lower() in self._hashes
