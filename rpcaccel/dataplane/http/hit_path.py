"""The shortcut: a call that was answered at once before is answered from bytes to bytes, in one function.

What the long way (Front.enter, Calls.begin, Front.leave, Lane._write) looks at and counts for such a call is looked at
and counted here, and the bytes are the same; what it saves are the layers between. Whatever is not as it was when the
call was learnt (dataplane.rpc.hit_memo) goes the long way, and is counted there alone.
"""

from __future__ import annotations

from collections.abc import Callable

from rpcaccel.core.cache.eviction import CacheSlot
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.client_limits import Client
from rpcaccel.core.stats.tally import Tally
from rpcaccel.core.wire import call_template
from rpcaccel.core.wire.gzip_reply import member
from rpcaccel.core.wire.http_head import END, HttpHead
from rpcaccel.core.wire.jsonrpc import RESULT, SHARED_FROM
from rpcaccel.dataplane.http.handler import GZIP, INLINE_GZIP, RequestHandler, takes_gzip
from rpcaccel.dataplane.rpc import response_headers
from rpcaccel.dataplane.rpc.admission import Admission
from rpcaccel.dataplane.rpc.hit_memo import Known
from rpcaccel.dataplane.rpc.path_routes import PathRoute
from rpcaccel.dataplane.rpc.response_headers import DateHeader

_ID = b'{"jsonrpc":"2.0","id":'
_AROUND = len(_ID) + len(RESULT) + len(b"}")


class RequestHead:
    """A request's head, read, and what follows from it under the settings of the moment."""

    __slots__ = ("apart", "compact", "end", "guest", "headers", "length", "long", "most", "packs", "path", "route",
                 "short", "text", "under", "whole")  # fmt: skip

    def __init__(self, text: bytes, head: HttpHead) -> None:
        self.text = text
        """The head as it was sent, up to the empty line."""
        self.path = head.path
        self.length = head.length
        """Bytes of the body."""
        self.headers = Named(head)
        self.end = len(text)
        self.whole = len(text) + head.length
        """Bytes of head and body."""
        self.under: object = None
        """The table of paths that the rest was read with: each revision of the settings has one of its own."""
        self.route: PathRoute | None = None
        """Where known calls are; None when the shortcut is closed."""
        self.guest: Client | None = None
        """Whose key came with it."""
        self.apart = False
        """Are those without a key told apart by their address?"""
        self.most = 0
        """Calls that may be served at once."""
        self.short = self.long = b""
        """Header lines of an answer too short to be compressed, and of a longer one, up to its length."""
        self.compact = 0
        """Bytes from which an answer is a longer one."""
        self.packs = False
        """Does this client take those compressed?"""


class Named:
    """A head's headers, by name in lower case."""

    __slots__ = ("_headers", "get")

    def __init__(self, head: HttpHead) -> None:
        self._headers = head.headers
        self.get: Callable[[str, str], str] = head.headers.get
        """The value of a header, by its name and what stands for none."""

    def getall(self, key: str, default: list[str]) -> list[str]:
        """Every value of a header: an ordinary head has one."""
        value = self._headers.get(key)
        return default if value is None else [value]


class Shortcut:
    """Answers known calls. One per worker."""

    def __init__(
        self, front: RequestHandler, admission: Admission, memory: MemoryTier, tally: Tally, clock: Callable[[], float]
    ) -> None:
        self._front = front
        self._admission = admission
        self._memory = memory
        self._tally = tally
        self._clock = clock
        self._date = DateHeader(END + _ID)

    def answer(self, asked: RequestHead, body: bytes, peer: str) -> bytes | tuple[bytes, ...] | None:
        """The whole answer to a request, its head included, a long one in parts; None when it goes the long way."""
        front, tally, started = self._front, self._tally, self._clock()
        if asked.under is not front.routes:
            self._read(asked)
        route = asked.route
        if route is None or front.draining or tally.in_flight >= asked.most:
            return None
        words, call_id = call_template.split(body)
        known = route.known.get(words)
        if known is None or known.serial != route.network.sight.view.serial:
            return None
        result, slot = known.local, None
        if result is None:
            slot = self._memory.find(known.key, started)
            if slot is None or slot.entry is None:
                return None
            result = slot.entry.result
        length = len(result) + len(call_id) + _AROUND
        packed = length >= asked.compact and asked.packs
        if packed and (slot is None or length >= INLINE_GZIP):
            return None
        if asked.apart and not self._passes(asked, known, peer, started):
            return None
        told = self._count(known, slot, len(result), len(body), started)
        lines = asked.short if length < asked.compact else asked.long
        if packed and slot is not None:
            return self._pack(slot, call_id, result, told + lines)
        if length >= SHARED_FROM:
            return b"".join((told, lines, b"%d" % length, self._date.bytes, call_id, RESULT)), result, b"}"
        return b"".join((told, lines, b"%d" % length, self._date.bytes, call_id, RESULT, result, b"}"))

    def _count(self, known: Known, slot: CacheSlot | None, size: int, arrived: int, started: float) -> bytes:
        """Count the answer, of so many bytes of result, to a body of so many that arrived; the beginning of its head.
        Nothing was counted before, and nothing turns it back now."""
        tally, now = self._tally, self._clock()
        if slot is not None:
            self._memory.hit(slot)
        known.uses.count += 1
        known.cell.size += size
        tally.requests += 1
        tally.bytes_in += arrived
        if now >= self._date.until:
            self._date.turn(now)
        seconds = now - started
        known.latency.observe(seconds)
        if seconds < response_headers.SHOWN:
            return known.told
        shown = self._front.settings.headers
        return response_headers.of_hit(slot is None, known.head, shown, response_headers.hundredths(seconds))

    def _pack(self, slot: CacheSlot, call_id: bytes, result: bytes, lines: bytes) -> bytes:
        """The answer to a client that takes it compressed."""
        rest = b"".join((RESULT, result, b"}"))
        body = member(_ID + call_id, rest, self._memory.squeeze(slot, rest, self._clock()))
        return b"".join((lines, b"%d" % len(body), self._date.text.encode("ascii"), END, body))

    def _passes(self, asked: RequestHead, known: Known, peer: str, now: float) -> bool:
        """Is the caller within its limits?"""
        admission = self._admission
        guest = asked.guest or admission.anonymous(admission.address(peer, asked.headers))
        return guest.passes(known.method, known.heavy, now)

    def _read(self, asked: RequestHead) -> None:
        """What follows from a head, now that the settings are others."""
        front, settings, admission = self._front, self._front.settings, self._admission
        given = asked.headers.get(response_headers.TIMEOUT.lower(), "")
        understood = not given or response_headers.seconds_given(given) is not None
        path, asked.guest, refusal = admission.look(asked.path, asked.headers)
        open_ = understood and refusal is None and asked.length <= settings.max_body and not front.logs
        asked.route = front.routes.get(path) if open_ else None
        asked.apart, asked.most, asked.compact = admission.on, settings.max_in_flight, settings.gzip_from
        asked.packs = takes_gzip(asked.headers.get("accept-encoding", ""))
        asked.short = self._lines(asked, "", "")
        asked.long = self._lines(asked, GZIP if asked.packs else "", "Accept-Encoding")
        asked.under = front.routes

    def _lines(self, asked: RequestHead, told: str, vary: str) -> bytes:
        reply = self._front.finish(asked.headers, 200, b"", told, vary=vary)
        return f"{reply.headers}Content-Length: ".encode("latin-1")
