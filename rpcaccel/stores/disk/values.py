"""The form of an entry in the file: a header of fourteen bytes, and the result, compressed where that pays.

The checksum covers the key, too: whatever is damaged in the file, no entry is taken for that of another call. Network
and method are those of the key. Only entries that never expire have this form.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from sys import intern

from rpcaccel.core.cache.entry import Damage, Damaged, Entry
from rpcaccel.core.plan.rules import CacheClass

_HEADER = struct.Struct(">BBII")
"""Form (0: as it is; 1: compressed; above: the number of the dictionary that it was compressed with), class, Unix time
when it was stored (seconds), block (NO_BLOCK: none)."""
_CHECKSUM = struct.Struct(">I")
_BODY = _CHECKSUM.size + _HEADER.size
AS_IT_IS, COMPRESSED = 0, 1
_NO_BLOCK = 0xFFFF_FFFF
_CLASSES = tuple(CacheClass)
"""A class is written as its place in this order: core.cache.entry.SCHEMA is increased when that changes."""
_CODES = {cache: code for code, cache in enumerate(_CLASSES)}

Compress = Callable[[bytes], tuple[int, bytes]]
"""The form and the text of a result."""
Expand = Callable[[int, bytes], bytes | None]
"""The result with this form and text; None where it cannot be expanded. Must not raise."""


def encode(key: bytes, entry: Entry, *, now: float, wall: float, compress: Compress) -> bytes:
    """The form of an entry; `now` (monotonic) and `wall` (Unix) are the same instant in seconds."""
    form, body = compress(entry.result)
    stored = min(max(0, int(entry.stored_at + wall - now)), _NO_BLOCK)
    block = entry.block if 0 <= entry.block < _NO_BLOCK else _NO_BLOCK
    sealed = _HEADER.pack(form, _CODES[entry.cache], stored, block) + body
    return _CHECKSUM.pack(zlib.crc32(sealed, zlib.crc32(key))) + sealed


def decode(key: bytes, data: bytes, *, now: float, wall: float, expand: Expand) -> Entry | Damaged:
    """The entry in this form. Never raises, whatever `data` is."""
    if len(data) < _BODY:
        return Damaged(Damage.SHORT)
    sealed = data[_CHECKSUM.size :]
    if _CHECKSUM.unpack_from(data)[0] != zlib.crc32(sealed, zlib.crc32(key)):
        return Damaged(Damage.CHECKSUM)
    form, code, stored, block = _HEADER.unpack_from(sealed)
    if code >= len(_CLASSES):
        return Damaged(Damage.FIELDS)
    body = data[_BODY:]
    result = body if form == AS_IT_IS else expand(form, body)
    if result is None:
        return Damaged(Damage.COMPRESSION)
    network, _, rest = key.partition(b":")
    return Entry(
        result=result,
        cache=_CLASSES[code],
        block=-1 if block == _NO_BLOCK else block,
        # Interned, because the memory tier does not count the names of entries.
        network=intern(network.partition(b"@")[0].decode()),
        method=intern(rest.partition(b":")[0].decode()),
        stored_at=now - max(0.0, wall - stored),
    )
