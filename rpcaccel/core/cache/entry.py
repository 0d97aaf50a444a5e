"""A kept answer: its value in memory, and its serialised form in the second tier.

The serialised form is a fixed header (magic, schema, class, flags, block, times, lengths, checksum), the names of the
network and the method, and the result, compressed or not. Data that cannot be read become a value (Damaged), which is a
miss and never an exception.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from enum import StrEnum
from math import inf, isnan
from sys import intern

from msgspec import Struct

from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.wire.json_text import is_utf8

SCHEMA = 1
"""Increased whenever the serialised form or the meaning of a key changes; entries of other schemas are misses."""

MAGIC = b"rpca"

Compress = Callable[[bytes], bytes | None]
"""Compresses a body; None when compression does not pay."""
Expand = Callable[[bytes, int], bytes | None]
"""Expands a compressed body to the given length (bytes); None when it is damaged. Must not raise."""


class Entry(Struct, frozen=True, kw_only=True, gc=False):
    """A kept answer. Times are monotonic seconds of this process."""

    result: bytes
    """The raw JSON text of the result, in a bytes object of its own and not a view of a larger buffer."""
    cache: CacheClass
    block: int = -1
    """The block that the answer is about, or the head at which it was true; -1 when neither matters."""
    network: str
    method: str
    stored_at: float
    expires: float = inf
    proved: str = ""
    """The hash of the block by which the answer was proved here; empty when it was not, and in the tiers behind memory,
    where others may write."""

    def __repr__(self) -> str:
        return f"<Entry {self.network} {self.method} {self.cache} block={self.block} {len(self.result)} B>"


class Selection(Struct, frozen=True, kw_only=True):
    """The entries that a purge selects, judged by their keys (core.plan.cache_key). An empty selection selects all."""

    key: bytes | None = None
    network: str = ""
    method: str = ""

    def matches(self, key: bytes) -> bool:
        """Is the entry with this key selected?"""
        if self.key is not None and key != self.key:
            return False
        if not self.network and not self.method:
            return True
        network, _, rest = key.partition(b":")
        if self.network and network.partition(b"@")[0] != self.network.encode():
            return False
        return not self.method or rest.partition(b":")[0] == self.method.encode()

    @property
    def everything(self) -> bool:
        """Does this select every entry?"""
        return self.key is None and not (self.network or self.method)


class Damage(StrEnum):
    """Why data of the second tier could not be read as an entry."""

    SHORT = "short"
    FOREIGN = "foreign"
    SCHEMA = "schema"
    CHECKSUM = "checksum"
    FIELDS = "fields"
    COMPRESSION = "compression"


class Damaged(Struct, frozen=True):
    """Data of the second tier that are no entry of this version."""

    why: Damage


_CLASS_CODES = {
    CacheClass.STATIC: 1,
    CacheClass.FOREVER: 2,
    CacheClass.BY_NUMBER: 3,
    CacheClass.EPOCH: 4,
    CacheClass.HEAD: 5,
    CacheClass.NODE: 6,
    CacheClass.NEVER: 7,
}
_CLASSES = {code: cache for cache, code in _CLASS_CODES.items()}

_HEADER = struct.Struct(">4sBBBqddIHH")
"""Magic, schema, class, flags, block, `stored_at` and `expires` (Unix seconds), lengths of result, network, method."""
_CHECKSUM = struct.Struct(">I")
_START = _HEADER.size + _CHECKSUM.size
_COMPRESSED = 1
ON_TRUST = 0.1
"""Share of its whole lifetime for which an entry that was just read is trusted, whatever the clocks say."""


def encode(entry: Entry, *, now: float, wall: float, compress: Compress | None = None) -> bytes:
    """Serialise an entry; `now` (monotonic) and `wall` (Unix) are the same instant in seconds.

    Raises ValueError for an entry that does not fit the header (a block beyond 2^63, a result beyond 4 GiB).
    """
    body = entry.result
    flags = 0
    shorter = compress(body) if compress is not None else None
    if shorter is not None:
        body, flags = shorter, _COMPRESSED
    network, method = entry.network.encode(), entry.method.encode()
    shift = wall - now
    try:
        header = _HEADER.pack(
            MAGIC,
            SCHEMA,
            _CLASS_CODES[entry.cache],
            flags,
            entry.block,
            entry.stored_at + shift,
            entry.expires + shift,
            len(entry.result),
            len(network),
            len(method),
        )
    except struct.error as error:
        raise ValueError(f"{entry!r} does not fit the wire form: {error}") from None
    rest = network + method + body
    return header + _CHECKSUM.pack(zlib.crc32(rest, zlib.crc32(header))) + rest


def decode(data: bytes, *, now: float, wall: float, expand: Expand | None = None) -> Entry | Damaged:
    """Deserialise an entry, with times on this process's monotonic clock. Never raises, whatever `data` is.

    The clock of the writer may be wrong. An entry stored in the future counts as stored now. Only the store knows the
    real age of an entry and forgets it in time, so an entry that expires stays in memory only for the share ON_TRUST of
    its lifetime, and is then read again.
    """
    damage = _seal_damage(data)
    if damage is not None:
        return Damaged(damage)
    _, _, code, flags, block, stored, expires, length, network_length, method_length = _HEADER.unpack_from(data)
    method_start = _START + network_length
    method_end = method_start + method_length
    cache = _CLASSES.get(code)
    if cache is None or len(data) < method_end or isnan(stored) or isnan(expires):
        return Damaged(Damage.FIELDS)
    try:
        network, method = data[_START:method_start].decode(), data[method_start:method_end].decode()
    except UnicodeDecodeError:
        return Damaged(Damage.FIELDS)
    body = _body(data[method_end:], flags, length, expand)
    if isinstance(body, Damage):
        return Damaged(body)
    if not is_utf8(body):  # written by a version that did not check: it would spoil every batch that holds it
        return Damaged(Damage.FIELDS)
    shift = now - wall - max(0.0, stored - wall)
    on_trust = now + ON_TRUST * (expires - stored)
    return Entry(
        result=body,
        cache=cache,
        block=block,
        # Interned, because the memory tier does not count the names of entries.
        network=intern(network),
        method=intern(method),
        stored_at=stored + shift,
        expires=min(expires + shift, on_trust),
    )


def _seal_damage(data: bytes) -> Damage | None:
    """What is wrong with the data as a whole; None when header and checksum are right."""
    if len(data) < _START:
        return Damage.SHORT
    if not data.startswith(MAGIC):
        return Damage.FOREIGN
    if data[len(MAGIC)] != SCHEMA:
        return Damage.SCHEMA
    view = memoryview(data)
    (checksum,) = _CHECKSUM.unpack_from(data, _HEADER.size)
    right = zlib.crc32(view[_START:], zlib.crc32(view[: _HEADER.size])) == checksum
    return None if right else Damage.CHECKSUM


def _body(stored: bytes, flags: int, length: int, expand: Expand | None) -> bytes | Damage:
    if not flags & _COMPRESSED:
        return stored if len(stored) == length else Damage.FIELDS
    body = expand(stored, length) if expand is not None else None
    return body if body is not None and len(body) == length else Damage.COMPRESSION
