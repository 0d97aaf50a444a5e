"""Compressed replies (gzip, RFC 1952), cut so that a result is compressed once, whatever id its reply has.

What stands before the result goes into a block that is stored as it is, the rest into blocks of its own: those are the
same for every caller, and only the checksum must be made anew.
"""

from __future__ import annotations

import struct
import zlib

from rpcaccel.core.wire.jsonrpc import RESULT

_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
"""Deflated, no name, no time; made for speed (4), by whatever system (255)."""
_STORED = struct.Struct("<BHH")
"""A stored block that is not the last: its length, and the same inverted (RFC 1951 section 3.2.4)."""
_LONGEST_STORED = 0xFFFF
_END = struct.Struct("<II")
_LEVEL = 1


def pack(body: bytes) -> bytes:
    """A body as gzip. Of a reply, the same as `member` makes of its parts."""
    cut = body.find(RESULT)
    if not 0 <= cut <= _LONGEST_STORED:
        cut = 0
    rest = memoryview(body)[cut:]  # no copy: it may be long
    return member(body[:cut], rest, squeeze(rest))


def squeeze(rest: bytes | memoryview) -> bytes:
    """The blocks of a body's rest, its last one included."""
    squeezing = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return squeezing.compress(rest) + squeezing.flush()


def member(before: bytes, rest: bytes | memoryview, squeezed: bytes) -> bytes:
    """A body in two parts as gzip, the second one squeezed already; at most 65,535 bytes before it."""
    size = len(before)
    checksum = zlib.crc32(rest, zlib.crc32(before))
    stored = _STORED.pack(0, size, size ^ _LONGEST_STORED)
    return b"".join((_HEADER, stored, before, squeezed, _END.pack(checksum, (size + len(rest)) & 0xFFFFFFFF)))
