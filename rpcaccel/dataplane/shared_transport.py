"""One connection for two lanes: the complete lane writes to it, and only asks for it to be closed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol


class Closable(Protocol):
    """Whose connection it is."""

    def inner_closes(self) -> None:
        """The complete lane wants to close."""

    def begun(self) -> None:
        """The complete lane has the head of a request."""

    def back(self) -> None:
        """The complete lane has answered one."""


class SharedTransport(asyncio.Transport):
    """The connection as the other lane has it: the real one, but for closing."""

    def __init__(self, lane: Closable, transport: asyncio.Transport) -> None:
        super().__init__()
        self.lane = lane
        self._transport = transport

    def close(self) -> None:
        """Close, if it is this lane's to close."""
        self.lane.inner_closes()

    def abort(self) -> None:
        """The same."""
        self.lane.inner_closes()

    def is_closing(self) -> bool:
        """Of the connection."""
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Of the connection."""
        return self._transport.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """To the client."""
        self._transport.write(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """To the client."""
        self._transport.writelines(list_of_data)

    def write_eof(self) -> None:
        """To the client."""
        self._transport.write_eof()

    def can_write_eof(self) -> bool:
        """Of the connection."""
        return self._transport.can_write_eof()

    def pause_reading(self) -> None:
        """From the client."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """From the client."""
        self._transport.resume_reading()

    def is_reading(self) -> bool:
        """From the client."""
        return self._transport.is_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Of the connection."""
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Of the connection."""
        return self._transport.get_write_buffer_size()
