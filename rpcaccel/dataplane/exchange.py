"""One request and its reply on a connection of aiohttp's pool, without what its session makes for each: a request, a
response, cookies, a task for the body, a timer. That is most of the time a lone call takes.

aiohttp still pools and opens connections, and reads replies: its parser, its limits, unpacking and back-pressure. Of
what it does not document, this relies on `Connection.protocol`: `set_response_params` readies it for a reply,
`len` is the replies nobody has read, `read` gives the next one's head and body or raises, `set_exception` makes it
raise, and `Connection.release` keeps no connection on which anything is left (`should_close`). The tests hold each.
"""

from __future__ import annotations

from aiohttp import StreamReader
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, RawResponseMessage

from rpcaccel.config.units import format_size

RATIO = 200
"""Bytes that one byte of a packed body may unpack to. gzip can make 1,000 of one; the most repetitive of honest answers
are traces that show a contract's memory at each step."""
UNPACKED_FREELY = 32 << 20
"""Bytes up to which a body may unpack at any ratio."""
_MOST_INTERIM = 32
_SWITCHING_PROTOCOLS = 101
_FINAL = 200


class TooLongError(Exception):
    """A reply is longer than it may be; the text says how long that is."""


class Exchange:
    """What goes out and comes back once. Whoever has taken the connection makes it before the next await, and ends it
    by `finish` or `break_off` in any case; both are synchronous."""

    __slots__ = ("_body", "_connection", "_trouble")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._body: StreamReader | None = None
        self._trouble: Exception | None = None

    def __repr__(self) -> str:
        return f"<Exchange on {self._connection}>"

    async def ask(self, request: bytes) -> RawResponseMessage:
        """Write a request, head and body; returns the reply's head, whatever came before it passed over (1xx, RFC 9110
        section 15.2). Raises what the connection met, what `fail` was told, and HttpProcessingError for a reply that
        does not begin."""
        protocol, transport = self._connection.protocol, self._connection.transport
        if protocol is None or transport is None or len(protocol):  # gone, or it spoke without having been asked
            raise ConnectionResetError
        protocol.set_response_params(read_until_eof=True)
        transport.write(request)
        for _ in range(_MOST_INTERIM):
            message, self._body = await protocol.read()
            if self._trouble is not None:
                raise self._trouble
            if message.code >= _FINAL or message.code == _SWITCHING_PROTOCOLS:
                return message
        raise HttpProcessingError(message="interim replies without an end")

    async def read(self, most: int) -> bytes:
        """The body to its end, unpacked. Raises TooLongError for one of more than `most` bytes, or packed too well.

        The body is read as it comes, and not by the reader's own `read`, which takes in whatever comes and switches off
        aiohttp's bound of what is unpacked at once.
        """
        body = self._body
        if body is None:
            return b""
        if body.is_eof():  # all of it is in the reader's buffer, which is much smaller than any bound
            return body.read_nowait()
        pieces: list[bytes] = []
        size = 0
        while piece := await body.readany():
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise TooLongError(f"longer than {format_size(most)}")
            if size > UNPACKED_FREELY and size > RATIO * body.total_raw_bytes:
                raise TooLongError(f"packed so that each byte makes more than {RATIO}")
        return b"".join(pieces)

    def fail(self, trouble: Exception) -> None:
        """Whoever waits for the reply, or will, meets this trouble: its time is over, or the node was taken away."""
        self._trouble = trouble
        if (protocol := self._connection.protocol) is not None:
            protocol.set_exception(trouble)
        if self._body is not None:
            self._body.set_exception(trouble)

    def finish(self) -> None:
        """The reply was read: the connection goes back to the pool, unless it is of no more use."""
        transport = self._connection.transport
        if transport is not None and transport.get_write_buffer_size():  # answered before it was asked to the end
            self.break_off()
        else:
            self._connection.release()

    def break_off(self) -> None:
        """Close the connection. What was not sent by then is not sent, since nobody waits for its answer: TLS does not
        tell how much that is."""
        if (transport := self._connection.transport) is not None:
            transport.abort()
        self._connection.close()
        self._body = self._trouble = None  # an exception knows the frames it went through, and they know this
