"""The request handler: the HTTP answer to a request, whichever protocol read it.

Knows paths, clients, limits, headers, compression and origins; knows neither sockets nor aiohttp. `fast_protocol` and
`aiohttp_server` read requests and write the answers out. A POST is answered in four steps: `enter` lets it in, `calls`
answers its body, `reply` makes the HTTP answer, and `leave` counts it out. A call that was answered at once before is
answered from bytes to bytes in one function, `hit`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from math import ceil

from msgspec import Struct

import rpcaccel
from rpcaccel.config.sections import HttpSettings
from rpcaccel.core.cache.eviction import CacheSlot
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.client_limits import Client, LimitRefusal
from rpcaccel.core.directives import DirectiveError, read_directives
from rpcaccel.core.stats.counters import bump
from rpcaccel.core.stats.tally import Tally
from rpcaccel.core.wire import jsonrpc
from rpcaccel.core.wire.http_head import END
from rpcaccel.core.wire.http_reply import member, pack
from rpcaccel.core.wire.jsonrpc import OPENING, RESULT, SHARED_FROM, Invalid, result_reply
from rpcaccel.core.wire.websocket_handshake import WEBSOCKET_VERSION, HandshakeFault, fault
from rpcaccel.dataplane.http.request_head import NO_HEADERS, RequestHead, one_slash, takes_gzip
from rpcaccel.dataplane.live.live_session import MessageTurn
from rpcaccel.dataplane.rpc import response_headers
from rpcaccel.dataplane.rpc.access_log import REQUEST_ID
from rpcaccel.dataplane.rpc.admission import Admission, Caller, Headers, PathRoute
from rpcaccel.dataplane.rpc.calls import Answered, Calls
from rpcaccel.dataplane.rpc.hit_memo import Known
from rpcaccel.dataplane.rpc.response_headers import DateHeader

SERVER = "rpcaccel"
"""The value of the Server header. It names no version, which would be of use to attackers only."""
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
_AROUND = len(OPENING) + len(RESULT) + len(b"}")
"""Bytes of a reply beside its id and result."""
_OURS = f"Server: {SERVER}\r\n"
_TIMEOUT = response_headers.TIMEOUT.lower()
_SOON = "Retry-After: 1\r\n"
GZIP = "Content-Encoding: gzip\r\n"
NO_NODES = "there are no nodes yet: the page takes the first ones, at the address that was printed at the start"
"""What a caller is told while no network is served; the address is nothing for callers."""
NO_WEBSOCKETS = "there are no WebSockets here: send calls by POST, and poll a filter instead of subscribing"
NOT_PLAIN = (
    "open a WebSocket by a plain GET without a body, on a connection of its own; its path may have no percent sign, "
    "and no header may come twice"
)
NO_DURATION = LimitRefusal(
    "malformed",
    f"{response_headers.TIMEOUT} takes a duration above nothing, such as 2s or 500ms",
    jsonrpc.INVALID_REQUEST,
    400,
)
MAX_INLINE_GZIP_BYTES = 64 * 1024
"""Bytes of the longest answer that is compressed at once. A longer one is compressed in a thread, so that no other call
waits for that."""


class HttpAnswer(Struct, frozen=True, gc=False):
    """An HTTP answer without Content-Length and Date, which are added where it is written out."""

    status: int
    headers: str
    """Header lines, each with its line break."""
    parts: tuple[bytes, ...]
    """The body in parts; a long result is a part by itself, which all clients that are told it share."""
    close: bool = False
    """Must the connection end after this answer?"""
    error: bytes = b""
    """The raw error object in the body of a request that was turned away."""

    @property
    def size(self) -> int:
        """Bytes of the whole body."""
        return sum(map(len, self.parts))


class Visit(Struct, gc=False):
    """A request that was let in. `RequestHandler.leave` ends it."""

    head: RequestHead
    route: PathRoute
    started: float
    """When the request was let in (monotonic seconds)."""
    caller: Caller


class RequestHandler:
    """Answers HTTP requests for one worker."""

    def __init__(
        self,
        settings: HttpSettings,
        calls: Calls,
        not_ready: Callable[[], list[str]],
        tally: Tally,
        clock: Callable[[], float],
        admission: Admission,
        memory: MemoryTier,
    ) -> None:
        """`not_ready` returns a sentence for each network that cannot serve."""
        self.settings = settings
        self.routes: dict[str, PathRoute] = {}
        self.draining = False
        self.clock = clock
        self.calls = calls
        self._not_ready = not_ready
        self._tally = tally
        self._admission = admission
        self._memory = memory
        self._date = DateHeader(END + OPENING)

    def read(self, asked: RequestHead) -> None:
        """Fill in what follows from a head under the settings in force."""
        settings, admission = self.settings, self._admission
        asked.place, asked.guest, asked.refusal = admission.look(asked.path, asked.headers)
        asked.route, asked.apart = self.routes.get(asked.place), admission.on
        given = asked.headers.get(_TIMEOUT, "")
        asked.patience = response_headers.seconds_given(given) if given else None
        if given and asked.patience is None:
            asked.refusal = asked.refusal or NO_DURATION
        if asked.route is not None and asked.refusal is None:
            limits = admission.anonymous_limits if asked.guest is None else asked.guest.limits
            try:
                directives = read_directives(asked.headers.getall, asked.query, limits.directives, limits.standing)
                asked.route = asked.route.directed(directives)
            except DirectiveError as error:
                asked.refusal = LimitRefusal("directive", str(error), jsonrpc.INVALID_REQUEST, 400)
        asked.packs = takes_gzip(asked.headers.get("accept-encoding", ""))
        asked.short = self._lines(asked.headers)
        asked.long = (GZIP if asked.packs else "") + self._lines(asked.headers, vary="Accept-Encoding")
        refused = asked.refusal is not None or asked.length > settings.max_body
        closed = refused or self.calls.access is not None
        asked.known = None if closed or asked.route is None else asked.route.known
        asked.most, asked.compact = settings.max_in_flight, settings.gzip_from
        asked.short_hit, asked.long_hit = (
            f"{lines}Content-Length: ".encode("latin-1") for lines in (asked.short, asked.long)
        )
        asked.under = self.routes

    def hit(
        self, asked: RequestHead, body: bytes, peer: str, *, bare: bool = False
    ) -> bytes | tuple[bytes, ...] | None:
        """The whole answer to a call that was answered at once before, its head included, a long one in parts; None
        when the request goes the ordinary way.

        This looks at and counts what `enter`, `Calls.begin`, `reply` and `leave` look at and count for such a call, and
        writes the same bytes; what is saved are the layers between. What a hit on a known template checks and counts is
        said once, in dataplane.rpc.hit_memo. Whatever is not as it was when the call was learnt goes the ordinary way,
        and is counted there alone.

        Args:
            bare: the request is a message of a WebSocket, whose answer has no head, and is in parts.
        """
        tally, memory, started = self._tally, self._memory, self.clock()
        if asked.under is not self.routes:
            self.read(asked)
        if asked.known is None or self.draining or tally.in_flight >= asked.most:
            return None
        known, call_id, result, slot = asked.known.find(body, memory, started)
        if known is None:
            return None
        length = len(result) + len(call_id) + _AROUND
        packed = length >= asked.compact and asked.packs
        if packed and (slot is None or length >= MAX_INLINE_GZIP_BYTES):
            return None
        guest = self._admitted(asked, known, peer, started) if asked.apart else None
        if guest is None and asked.apart:
            return None
        # Nothing was counted before this line, and nothing turns the answer back after it.
        now, date = self.clock(), self._date
        seconds = now - started
        known.count(memory, slot, len(result), seconds)
        if guest is not None:
            guest.cell.answered(known.cell.method, known.outcome.source, seconds)
        tally.requests += 1
        tally.bytes_in += len(body)
        if bare:
            return result_reply(call_id, result)
        if now >= date.until:
            date.turn(now)
        told = known.told
        if seconds >= response_headers.MIN_SHOWN_SECONDS:
            shown, hundredths = self.settings.headers, response_headers.hundredths(seconds)
            told = response_headers.of_hit(slot is None, known.head, shown, hundredths, known.outcome.proved)
        lines = asked.short_hit if length < asked.compact else asked.long_hit
        if packed and slot is not None:
            return self._pack_hit(slot, call_id, result, told + lines)
        if length >= SHARED_FROM:
            return b"".join((told, lines, b"%d" % length, date.bytes, call_id, RESULT)), result, b"}"
        return b"".join((told, lines, b"%d" % length, date.bytes, call_id, RESULT, result, b"}"))

    def _pack_hit(self, slot: CacheSlot, call_id: bytes, result: bytes, lines: bytes) -> bytes:
        """The answer to a client that takes it compressed."""
        rest = b"".join((RESULT, result, b"}"))
        body = member(OPENING + call_id, rest, self._memory.squeeze(slot, rest, self.clock()))
        return b"".join((lines, b"%d" % len(body), self._date.text.encode("ascii"), END, body))

    def _admitted(self, asked: RequestHead, known: Known, peer: str, now: float) -> Client | None:
        """The caller; None when it is not within its limits."""
        admission = self._admission
        guest = asked.guest or admission.anonymous(admission.address(peer, asked.headers))
        return guest if guest.passes(known.method, known.heavy, now) else None

    def enter(self, asked: RequestHead, peer: str | None, turn: MessageTurn | None = None) -> Visit | HttpAnswer:
        """Let a POST in, or the message of a WebSocket that has this `turn`; or turn it away."""
        started, admission, tally = self.clock(), self._admission, self._tally
        if asked.under is not self.routes:
            self.read(asked)
        route, guest, refusal = asked.route, asked.guest, asked.refusal
        address = admission.address(peer, asked.headers) if admission.trusting else peer or ""
        if refusal is not None:
            tally.refused(refusal.reason)
        if route is None:
            return self._unserved(asked)
        tally.requests += 1
        if refusal is None:
            if tally.in_flight >= self.settings.max_in_flight:
                tally.refused("in-flight")
                busy = Invalid(jsonrpc.LIMIT_EXCEEDED, "too many calls at once, try again")
                return self._refusal(asked.headers, 503, busy, _SOON)
            if asked.apart:
                guest = guest or admission.anonymous(address)
            ends = None if asked.patience is None else started + asked.patience
            caller = Caller(address, guest, ends, asked.headers, turn)
            if self.calls.access is not None:
                caller = self.calls.access.arrived(caller)
            # Whatever may raise comes before this line: a request that is counted in is counted out.
            if guest is not None:
                refusal = guest.enter(started)
        if refusal is not None:
            return self._turned_away(asked.headers, refusal)
        tally.in_flight += 1
        return Visit(asked, route, started, caller)

    def leave(self, visit: Visit) -> None:
        """Count a request out."""
        self._tally.in_flight -= 1
        if visit.caller.guest is not None:
            visit.caller.guest.leave()

    def reply(self, visit: Visit, answered: Answered) -> HttpAnswer | Awaitable[HttpAnswer]:
        """The HTTP answer to a request whose body is answered. A long one is compressed in a thread, and awaited."""
        head, settings = visit.head, self.settings
        seconds = self.clock() - visit.started
        lines, parts = "", answered.parts
        if answered.batch:
            lines = response_headers.for_batch(answered.outcomes, settings.headers, seconds)
        elif answered.outcomes:
            lines = response_headers.for_call(answered.outcomes[0], settings.headers, seconds)
        if visit.caller.request:
            lines += f"{REQUEST_ID}: {visit.caller.request}\r\n"
        size = sum(map(len, parts))
        if size < settings.gzip_from:
            lines += head.short
        elif size < MAX_INLINE_GZIP_BYTES or not head.packs:
            lines += head.long
            parts = (pack(answered.body),) if head.packs else parts
        else:
            return self._pack_later(answered, lines + head.long)
        return HttpAnswer(answered.http, lines, parts, self.draining)

    async def _pack_later(self, answered: Answered, lines: str) -> HttpAnswer:
        body = await asyncio.to_thread(lambda: pack(answered.body))
        return HttpAnswer(answered.http, lines, (body,), self.draining)

    def refuse(self, named: Headers, reason: str, status: int, invalid: Invalid) -> HttpAnswer:
        """The refusal of a request that cannot be read to its end, so that the connection ends with the answer."""
        self._tally.refused(reason)
        return self._refusal(named, status, invalid, close=True)

    def failed(self) -> HttpAnswer:
        """The answer when a bug of the proxy was met, of which a client learns nothing."""
        self._tally.refused("bug")
        told = Invalid(jsonrpc.INTERNAL_ERROR, "internal error")
        return self._refusal(NO_HEADERS, 500, told, close=True)

    def malformed(self) -> None:
        """Count something that is no HTTP request, and was refused."""
        self._tally.refused("malformed-http")

    def lost(self, why: str) -> None:
        """Count a connection that was closed because its client is too slow or breaks rules, by the reason."""
        self._tally.refused(why)

    def invite(self, asked: RequestHead, peer: str, opened: int, by_holder: Mapping[str, int]) -> str | HttpAnswer:
        """Let a WebSocket be opened, or turn it away.

        Args:
            opened: how many WebSockets are open, `by_holder` by the name of their client.

        Returns:
            The name of the client.
        """
        self.read(asked)
        settings, named, origin = self.settings.websocket, asked.headers, asked.headers.get("origin", "")
        holder = f"key:{asked.guest.name}" if asked.guest else self._admission.holder(peer, named)
        if not settings.enabled:
            return self._unopened("websocket-off", 403, named, NO_WEBSOCKETS)
        if asked.route is None:
            return self._unserved(asked)
        if asked.refusal is not None:
            self._tally.refused(asked.refusal.reason)
            return self._turned_away(named, asked.refusal)
        if origin and not self._allow(origin)[0]:
            return self._unopened("websocket-origin", 403, named, "this origin may open no WebSocket here")
        if self.draining:
            return self._unopened("websocket-full", 503, named, "draining: connect again", _SOON)
        if opened >= settings.connections:
            return self._unopened("websocket-full", 503, named, "too many WebSockets are open, try again", _SOON)
        if by_holder.get(holder, 0) >= settings.per_client:
            words = f"too many WebSockets: {settings.per_client} may be open for you"
            return self._unopened("websocket-client", 429, named, words, _SOON)
        return holder

    def outdated(self, asked: RequestHead) -> str:
        """Why a WebSocket may not stay open under the settings in force, as a sentence; empty where it may."""
        if asked.under is not self.routes:
            self.read(asked)
        if asked.route is None:
            return "the network is no longer served here"
        if asked.refusal is not None:
            return asked.refusal.message
        return "" if self.settings.websocket.enabled else NO_WEBSOCKETS

    def cut(self, route: PathRoute | None, subscriptions: int, why: str) -> None:
        """Count a WebSocket with subscriptions that the proxy closes, by the reason."""
        if subscriptions and route is not None:
            bump(self._tally.network(route.network.name).cut, why)

    def header_too_large(self, named: Headers) -> HttpAnswer:
        """The answer to a header over the limit (RFC 6585 section 5)."""
        message = f"the header is larger than {self.settings.max_header} bytes"
        return self.refuse(named, "header-too-large", 431, Invalid(jsonrpc.INVALID_REQUEST, message))

    def too_large(self, named: Headers) -> HttpAnswer:
        """The answer to a body over the limit."""
        message = f"the body is larger than {self.settings.max_body} bytes"
        return self.refuse(named, "body-too-large", 413, Invalid(jsonrpc.INVALID_REQUEST, message))

    def too_slow(self, named: Headers) -> HttpAnswer:
        """The answer to a request whose body does not come."""
        message = f"the request did not arrive within {self.settings.read_timeout:g} s"
        return self.refuse(named, "slow-client", 408, Invalid(jsonrpc.INVALID_REQUEST, message))

    def other(self, method: str, path: str, named: Headers) -> HttpAnswer:
        """The answer to a request that is no POST: health, preflight, and a sentence for people with a browser."""
        if method == "OPTIONS":
            return self._preflight(named)
        if method not in ("GET", "HEAD"):
            return self._text(405, "calls are sent by POST", named, "Allow: GET, HEAD, OPTIONS, POST\r\n")
        if named.get("upgrade", "").lower() == "websocket":
            return self._no_websocket(named)
        path = one_slash(path)
        if path == "/healthz":
            return self._text(200, "alive", named)
        if path == "/readyz":
            reasons = ["draining"] if self.draining else self._not_ready()
            return self._text(503, "\n".join(reasons), named) if reasons else self._text(200, "ready", named)
        if path in self.routes:
            word = f"rpcaccel {rpcaccel.__version__}: send JSON-RPC 2.0 calls here by POST"
            return self._text(200, word, named)
        return self._text(404, "nothing is served here; calls go by POST to /, /NETWORK or a chain's own paths", named)

    def _no_websocket(self, named: Headers) -> HttpAnswer:
        """The answer to a handshake that is not well-formed, or that came where none can be taken."""
        if not self.settings.websocket.enabled:
            return self._unopened("websocket-off", 403, named, NO_WEBSOCKETS)
        found = fault(named) or HandshakeFault(400, NOT_PLAIN)
        told = f"Upgrade: websocket\r\nSec-WebSocket-Version: {WEBSOCKET_VERSION}\r\n"
        return self._unopened("websocket", found.status, named, found.words, told)

    def _unopened(self, reason: str, status: int, named: Headers, words: str, told: str = "") -> HttpAnswer:
        """The answer to a handshake that is turned away."""
        self._tally.refused(reason)
        return self._text(status, words, named, told)

    def _unserved(self, asked: RequestHead) -> HttpAnswer:
        """The answer on a path that leads to no network, or before there is any."""
        if not self.routes:
            if asked.refusal is not None:
                return self._turned_away(asked.headers, asked.refusal)
            self._tally.refused("no-network")
            return self._refusal(asked.headers, 503, Invalid(jsonrpc.INTERNAL_ERROR, NO_NODES))
        return self._text(404, f"no network is served on {asked.place}; there is: {', '.join(sorted(self.routes))}")

    def _lines(self, named: Headers, *, vary: str = "", content_type: str = JSON) -> str:
        """The header lines that every answer to a request with these headers has."""
        lines, origin = "", named.get("origin", "")
        if origin:
            lines, varies = self._allow(origin)
            vary = ", ".join(name for name in (vary, varies) if name)
        if vary:
            lines += f"Vary: {vary}\r\n"
        return f"{lines}Content-Type: {content_type}\r\n{_OURS}"

    def _allow(self, origin: str) -> tuple[str, str]:
        """Cross-origin header lines (Fetch standard) for an origin that the settings allow, and the header by which
        these lines vary."""
        allowed = self.settings.cors_origins
        every = "*" in allowed
        if not (every or origin in allowed):
            return "", ""
        lines = f"Access-Control-Allow-Origin: {'*' if every else origin}\r\n"
        return (
            f"{lines}Access-Control-Expose-Headers: {response_headers.EXPOSED_HEADERS}\r\n",
            "" if every else "Origin",
        )

    def _preflight(self, named: Headers) -> HttpAnswer:
        told, varies = self._allow(named.get("origin", ""))
        if told:
            wanted = named.get("access-control-request-headers", "Content-Type")
            told += "Access-Control-Allow-Methods: GET, OPTIONS, POST\r\n"
            told += f"Access-Control-Allow-Headers: {wanted}\r\nAccess-Control-Max-Age: 86400\r\n"
        if varies:
            told += f"Vary: {varies}\r\n"
        return HttpAnswer(204, told + _OURS, (), self.draining)

    def _turned_away(self, named: Headers, refusal: LimitRefusal) -> HttpAnswer:
        told = ""
        if refusal.retry_after is not None:
            told += f"Retry-After: {max(1, ceil(refusal.retry_after))}\r\n"
        if refusal.http == 401:
            told += "WWW-Authenticate: Bearer\r\n"
        return self._refusal(named, refusal.http, Invalid(refusal.code, refusal.message), told)

    def _refusal(
        self, named: Headers, status: int, invalid: Invalid, told: str = "", *, close: bool = False
    ) -> HttpAnswer:
        """The answer to a request that is turned away with a JSON-RPC error."""
        error = jsonrpc.error_object(invalid.code, invalid.message)
        body = jsonrpc.error_reply(invalid.id, error)
        return HttpAnswer(status, told + self._lines(named), (body,), close or self.draining, error)

    def _text(self, status: int, text: str, named: Headers | None = None, told: str = "") -> HttpAnswer:
        lines = told + self._lines(named if named is not None else NO_HEADERS, content_type=TEXT)
        return HttpAnswer(status, lines, (text.encode() + b"\n",), self.draining)
