"""zstd for large values of the second tier."""

from __future__ import annotations

import zstandard

LEVEL = 1
"""JSON shrinks well at any level, and this runs on the event loop."""
LONGEST = 256 << 20
"""Bytes a value may claim to expand to."""


class Zstd:
    """Compresses from `threshold` bytes up. For one thread at a time."""

    __slots__ = ("_compressor", "_decompressor", "threshold")

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)
        self._decompressor = zstandard.ZstdDecompressor()

    def compress(self, body: bytes) -> bytes | None:
        """The shorter form; None below the threshold or when it saves less than a tenth."""
        if len(body) < self.threshold:
            return None
        shorter = self._compressor.compress(body)
        return shorter if len(shorter) * 10 <= len(body) * 9 else None

    def expand(self, body: bytes, length: int) -> bytes | None:
        """The body of `length` bytes; None when the frame is damaged or says otherwise."""
        try:
            # Checked before anything is allocated: a frame may claim any size.
            if length > LONGEST or zstandard.frame_content_size(body) != length:
                return None
            return self._decompressor.decompress(body)
        except zstandard.ZstdError:
            return None
