"""Messages as frames on a byte stream: four bytes of length (big-endian), then MessagePack."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

LONGEST = 256 * 1024 * 1024
"""Bytes. A longer frame is a fault of the other side, not a message."""

T = TypeVar("T")


def encode(message: object) -> bytes:
    """One message as one frame."""
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(4, "big") + body


class FrameReader(Generic[T]):
    """Collects bytes into messages of one type (or union)."""

    def __init__(self, kind: type[T]) -> None:
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[T]:
        """The messages that are complete now.

        Raises:
            ValueError: a frame is longer than LONGEST or is not a message of this type.
        """
        self._buffer += data
        messages: list[T] = []
        while len(self._buffer) >= 4:
            length = int.from_bytes(self._buffer[:4], "big")
            if length > LONGEST:
                raise ValueError(f"a frame of {length} bytes")
            if len(self._buffer) < 4 + length:
                break
            messages.append(self._decode(bytes(self._buffer[4 : 4 + length])))
            del self._buffer[: 4 + length]
        return messages
