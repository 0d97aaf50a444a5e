"""aiohttp's protocol on connections of clients, with JSON-RPC errors where a request is no HTTP.

The parser (llhttp, strict) decides about framing: two Content-Lengths, Content-Length beside Transfer-Encoding, bare
line feeds, folded lines and the like are answered with 400, and the connection ends, so that no two programs in a row
can take different bytes for the next request.

aiohttp shares each connection with dataplane.http.fast_protocol: it writes to the connection, and only asks for it to
be closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

from rpcaccel.core.wire import jsonrpc
from rpcaccel.core.wire.jsonrpc import Invalid

SERVER = "rpcaccel"
"""The value of the Server header. It names no version, which would be of use to attackers only."""


class Connection(web.RequestHandler):
    """The part of aiohttp in one connection of a client."""

    __slots__ = ("_answered", "_ended", "_newest", "on_malformed")

    def __init__(self, manager: web.Server, *, on_malformed: Callable[[], None], **options: Any) -> None:
        super().__init__(manager, **options)
        self.on_malformed = on_malformed
        self._answered = 0
        """The number of requests that were answered."""
        self._newest: StreamReader = EMPTY_PAYLOAD
        """The body of the latest request."""
        self._ended = False
        """Did the client say that it sends no more?"""

    def data_received(self, data: bytes) -> None:
        """The client sent requests, or parts of them."""
        super().data_received(data)
        if self._messages:
            self._newest = self._messages[-1][1]

    def eof_received(self) -> bool:  # type: ignore[override] # asyncio's protocols may say that they go on
        """The client sends no more. True, so that the connection stays, while a whole request waits for its answer."""
        self._ended = True
        return self._whole() > 0

    def answers(self) -> bool:
        """Count an answer. True if it is the last one that this client can get."""
        self._answered += 1
        return self._ended and self._whole() <= 0

    def _whole(self) -> int:
        """The number of requests that came whole and are not answered."""
        return self._request_count - self._answered - (not self._newest.is_eof())

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what is no HTTP request, or when a bug of the proxy was met. The connection ends with it."""
        if request.writer.output_size > 0:
            raise ConnectionError("a part of another answer is sent already")
        self.on_malformed()
        if status == 500:
            told = Invalid(jsonrpc.INTERNAL_ERROR, "internal error")
        elif isinstance(exc, LineTooLong):
            status = 431
            told = Invalid(jsonrpc.INVALID_REQUEST, f"a line of the header is longer than {exc.args[1]} bytes")
        else:
            # The parser quotes what it stumbled over on further lines: a client knows what it sent.
            reason = (message or "").partition("\n")[0].strip(" :")
            told = Invalid(jsonrpc.INVALID_REQUEST, f"malformed HTTP request: {reason[:120]}")
        response = web.Response(status=status, body=jsonrpc.refusal(told), content_type="application/json")
        response.headers["Server"] = SERVER
        response.force_close()
        return response


class Listener(web.Server):
    """Makes the protocols of aiohttp for the connections of one worker."""

    def __init__(self, handler: Callable[[web.BaseRequest], Any], on_malformed: Callable[[], None], **options: Any):
        # A client that leaves frees what it held: its handler is cancelled. Flights and writes are not the handler's.
        super().__init__(handler, handler_cancellation=True, **options)
        self._on_malformed = on_malformed

    def __call__(self) -> Connection:
        """Make the protocol for one more connection."""
        return Connection(self, on_malformed=self._on_malformed, loop=self._loop, **self._kwargs)


class Closable(Protocol):
    """The protocol that owns a connection and shares it with aiohttp."""

    def inner_closes(self) -> None:
        """aiohttp wants to close the connection."""

    def begun(self) -> None:
        """aiohttp has the head of a request."""

    def back(self) -> None:
        """aiohttp has answered a request."""


class SharedTransport(asyncio.Transport):
    """The transport of a connection as aiohttp has it: the real one, but closing it is left to the owner."""

    def __init__(self, lane: Closable, transport: asyncio.Transport) -> None:
        super().__init__()
        self.lane = lane
        self._transport = transport

    def close(self) -> None:
        """Ask the owner to close the connection."""
        self.lane.inner_closes()

    def abort(self) -> None:
        """Ask the owner to close the connection, as `close` does."""
        self.lane.inner_closes()

    def is_closing(self) -> bool:
        """Is the connection being closed?"""
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the transport knows about the connection."""
        return self._transport.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write to the client."""
        self._transport.write(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Write several parts to the client."""
        self._transport.writelines(list_of_data)

    def write_eof(self) -> None:
        """Close the sending half of the connection."""
        self._transport.write_eof()

    def can_write_eof(self) -> bool:
        """Can the sending half be closed by itself?"""
        return self._transport.can_write_eof()

    def pause_reading(self) -> None:
        """Read nothing from the client until `resume_reading`."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the client again."""
        self._transport.resume_reading()

    def is_reading(self) -> bool:
        """Is the client read from?"""
        return self._transport.is_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the bytes at which writing is paused and resumed."""
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Bytes that were written and not taken yet."""
        return self._transport.get_write_buffer_size()
