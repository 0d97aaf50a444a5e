"""Gzip replies (RFC 1952), built so that a result is compressed once for all ids.

The text before the result becomes a stored (uncompressed) block; the result and what follows become blocks of their
own, which are the same for every caller. Only the checksum is computed for each reply.
"""

from __future__ import annotations

import struct
import zlib

from rpcaccel.core.wire.jsonrpc import RESULT

_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
"""The gzip header: deflate, no name, no time, fastest algorithm (4), unknown system (255)."""
_STORED = struct.Struct("<BHH")
"""Header of a stored block that is not the last: its length, and the inverted length (RFC 1951 section 3.2.4)."""
_LONGEST_STORED = 0xFFFF
_END = struct.Struct("<II")
_LEVEL = 1


def pack(body: bytes) -> bytes:
    """Compress a body; for a reply, the result equals that of `member` for its parts."""
    cut = body.find(RESULT)
    if not 0 <= cut <= _LONGEST_STORED:
        cut = 0
    rest = memoryview(body)[cut:]  # no copy: the body may be long
    return member(body[:cut], rest, squeeze(rest))


def squeeze(rest: bytes | memoryview) -> bytes:
    """Compress the rest of a body into deflate blocks, the last block included."""
    squeezing = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return squeezing.compress(rest) + squeezing.flush()


def member(before: bytes, rest: bytes | memoryview, squeezed: bytes) -> bytes:
    """The gzip form of `before` + `rest`, where `squeezed` is `squeeze(rest)`; `before` has at most 65,535 bytes."""
    size = len(before)
    checksum = zlib.crc32(rest, zlib.crc32(before))
    stored = _STORED.pack(0, size, size ^ _LONGEST_STORED)
    return b"".join((_HEADER, stored, before, squeezed, _END.pack(checksum, (size + len(rest)) & 0xFFFFFFFF)))
