"""Connections of clients: aiohttp's protocol, with our own word where a request is no HTTP.

What is decided here about framing is the parser's (llhttp, strict): two Content-Lengths, Content-Length beside
Transfer-Encoding, bare line feeds, folded lines and the like are answered with 400, and the connection ends, so that
no two programs in a row can take different bytes for the next request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

from rpcaccel.core import jsonrpc
from rpcaccel.core.jsonrpc import Invalid

SERVER = "rpcaccel"
"""What the Server header says: versions are of use to attackers only."""


class Connection(web.RequestHandler):
    """One connection."""

    __slots__ = ("_answered", "_ended", "_newest", "on_malformed")

    def __init__(self, manager: web.Server, *, on_malformed: Callable[[], None], **options: Any) -> None:
        super().__init__(manager, **options)
        self.on_malformed = on_malformed
        self._answered = 0
        """Requests."""
        self._newest: StreamReader = EMPTY_PAYLOAD
        """The body of the request that came last."""
        self._ended = False
        """Has the client said that it sends no more?"""

    def data_received(self, data: bytes) -> None:
        """Bytes of requests."""
        super().data_received(data)
        if self._messages:
            self._newest = self._messages[-1][1]

    def eof_received(self) -> bool:  # type: ignore[override] # asyncio's protocols may say that they go on
        """The client sends no more. Is there a whole request that waits for its answer?"""
        self._ended = True
        return self._whole() > 0

    def answers(self) -> bool:
        """Call it once for each answer. Is it the last that this client can get?"""
        self._answered += 1
        return self._ended and self._whole() <= 0

    def _whole(self) -> int:
        """Requests that are there to their end, and not answered."""
        return self._request_count - self._answered - (not self._newest.is_eof())

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what is no HTTP request, or to a bug of ours. The connection ends with it."""
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
    """Makes the connections of one worker."""

    def __init__(self, handler: Callable[[web.BaseRequest], Any], on_malformed: Callable[[], None], **options: Any):
        # A client that leaves frees what it held: its handler is cancelled. Flights and writes are not the handler's.
        super().__init__(handler, handler_cancellation=True, **options)
        self._on_malformed = on_malformed

    def __call__(self) -> Connection:
        """One more."""
        return Connection(self, on_malformed=self._on_malformed, loop=self._loop, **self._kwargs)
