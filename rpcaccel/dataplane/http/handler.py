"""The front: what an HTTP request is answered with, whichever lane it came in by.

Knows paths, clients, limits, headers, compression and origins; knows neither sockets nor aiohttp. `server` and `lane`
bring requests here and write out what comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from math import ceil

from msgspec import Struct

import rpcaccel
from rpcaccel.config.model import HttpSettings
from rpcaccel.core.client_limits import Client, LimitRefusal
from rpcaccel.core.stats.tally import Tally
from rpcaccel.core.wire import jsonrpc
from rpcaccel.core.wire.gzip_reply import pack
from rpcaccel.core.wire.jsonrpc import Invalid
from rpcaccel.dataplane.engine.single_flight import Pending
from rpcaccel.dataplane.http.aiohttp_protocol import SERVER
from rpcaccel.dataplane.rpc import observer, response_headers
from rpcaccel.dataplane.rpc.access_log import HEADER
from rpcaccel.dataplane.rpc.admission import Admission, Headers
from rpcaccel.dataplane.rpc.calls import Answered, Calls
from rpcaccel.dataplane.rpc.path_routes import PathRoute

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
_OURS = f"Server: {SERVER}\r\n"
_OURS_JSON = f"Content-Type: {JSON}\r\n{_OURS}"
_TIMEOUT = response_headers.TIMEOUT.lower()
_LONGEST_ACCEPTED = 256
"""Characters of Accept-Encoding that are looked at, and remembered."""
GZIP = "Content-Encoding: gzip\r\n"
INLINE_GZIP = 64 * 1024
"""Bytes. Longer answers are compressed in a thread, so that no other call waits for it."""


class HttpAnswer(Struct, frozen=True, gc=False):
    """An HTTP answer; Content-Length and Date are added where it is written out."""

    status: int
    headers: str
    """Lines, each with its line break."""
    body: bytes
    close: bool = False
    """End the connection after it."""
    shared: tuple[bytes, ...] = ()
    """What follows the body, when that is long: all who are told it have the same bytes, and none a copy."""

    @property
    def size(self) -> int:
        """Bytes of the whole body."""
        return len(self.body) + sum(map(len, self.shared)) if self.shared else len(self.body)


class Visit(Struct):
    """A request that was let in. `RequestHandler.leave` ends it."""

    started: float
    headers: Headers
    address: str
    route: PathRoute
    guest: Client | None
    request: str = ""
    """The name it goes by in the log; empty when no lines are written."""


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
    ) -> None:
        """`not_ready` names, in sentences, the networks that cannot serve; empty when all can."""
        self.settings = settings
        self.routes: dict[str, PathRoute] = {}
        self.draining = False
        self.clock = clock
        self._calls = calls
        self._not_ready = not_ready
        self._tally = tally
        self._admission = admission

    @property
    def logs(self) -> bool:
        """Are lines written about calls?"""
        return self._calls.access is not None

    def enter(self, path: str, named: Headers, peer: str | None) -> Visit | HttpAnswer:
        """Let a POST in, or turn it away."""
        started = self.clock()
        admission = self._admission
        address = admission.address(peer, named) if admission.trusting else peer or ""
        guest: Client | None = None
        refusal: LimitRefusal | None = None
        if admission.on:
            path, guest, refusal = admission.visit(path, named, address)
        route = self.routes.get(path)
        if route is None:
            return self._text(404, f"no network is served on {path}; there is: {', '.join(sorted(self.routes))}")
        tally = self._tally
        tally.requests += 1
        if refusal is None and tally.in_flight >= self.settings.max_in_flight:
            tally.refused("in-flight")
            busy = Invalid(jsonrpc.LIMIT_EXCEEDED, "too many calls at once, try again")
            return self.finish(named, 503, jsonrpc.refusal(busy), "Retry-After: 1\r\n")
        if refusal is None and guest is not None:
            refusal = guest.enter(started)
        if refusal is not None:
            return self._turned_away(named, refusal)
        tally.in_flight += 1
        return Visit(started, named, address, route, guest)

    def leave(self, visit: Visit) -> None:
        """The request is over."""
        self._tally.in_flight -= 1
        if visit.guest is not None:
            visit.guest.leave()

    def answer(
        self, visit: Visit, body: bytes
    ) -> HttpAnswer | Pending[HttpAnswer | Awaitable[HttpAnswer]] | Awaitable[HttpAnswer]:
        """Answer a body: at once where nothing has to be waited for, without a task where a flight is."""
        self._tally.bytes_in += len(body)
        observer.forget()
        access = self._calls.access
        if access is not None:
            visit.request = access.arrived(visit.headers, visit.address, visit.guest)
        given = visit.headers.get(_TIMEOUT, "")
        seconds = response_headers.seconds_given(given) if given else None
        if given and seconds is None:
            return self._not_understood(visit.headers)
        ends = None if seconds is None else visit.started + seconds
        answered = self._calls.begin(body, visit.route, visit.address.encode(), visit.guest, ends)
        if isinstance(answered, Answered):
            return self._reply(visit, answered)
        return answered.then(partial(self._reply, visit))

    def _reply(self, visit: Visit, answered: Answered) -> HttpAnswer | Awaitable[HttpAnswer]:
        seconds, shown = self.clock() - visit.started, self.settings.headers
        if answered.batch:
            told = response_headers.for_batch(answered.outcomes, shown, seconds)
        else:
            told = response_headers.for_call(answered.outcomes[0], shown, seconds) if answered.outcomes else ""
        if visit.request:
            told += f"{HEADER}: {visit.request}\r\n"
        body, shared = answered.body, answered.shared
        size = len(body) + sum(map(len, shared)) if shared else len(body)
        if size < self.settings.gzip_from:
            return self.finish(visit.headers, answered.http, body, told, shared=shared)
        if not takes_gzip(visit.headers.get("accept-encoding", "")):
            return self.finish(visit.headers, answered.http, body, told, vary="Accept-Encoding", shared=shared)
        if size < INLINE_GZIP:
            return self._packed(visit, answered.http, pack(body), told)
        return self._pack_later(visit, answered, told)

    async def _pack_later(self, visit: Visit, answered: Answered, told: str) -> HttpAnswer:
        body = await asyncio.to_thread(lambda: pack(answered.whole()))
        return self._packed(visit, answered.http, body, told)

    def _packed(self, visit: Visit, status: int, body: bytes, told: str) -> HttpAnswer:
        return self.finish(visit.headers, status, body, told + GZIP, vary="Accept-Encoding")

    def refuse(self, named: Headers, reason: str, status: int, invalid: Invalid) -> HttpAnswer:
        """An answer to a request that cannot be read on: the connection ends with it."""
        self._tally.refused(reason)
        return self.finish(named, status, jsonrpc.refusal(invalid), "", close=True)

    def failed(self) -> HttpAnswer:
        """The answer when it is our fault: a bug, of which a client learns nothing."""
        self._tally.refused("bug")
        told = Invalid(jsonrpc.INTERNAL_ERROR, "internal error")
        return self.finish(NO_HEADERS, 500, jsonrpc.refusal(told), "", close=True)

    def malformed(self) -> None:
        """Something came that is no HTTP request, and was refused."""
        self._tally.refused("malformed-http")

    def lost(self, why: str) -> None:
        """A client was let go of."""
        self._tally.refused(why)

    def _not_understood(self, named: Headers) -> HttpAnswer:
        self._tally.refused("malformed")
        message = f"{response_headers.TIMEOUT} takes a duration above nothing, such as 2s or 500ms"
        return self.finish(named, 400, jsonrpc.refusal(Invalid(jsonrpc.INVALID_REQUEST, message)), "")

    def header_too_large(self, named: Headers) -> HttpAnswer:
        """The answer to a header over the limit (RFC 6585 section 5)."""
        message = f"the header is larger than {self.settings.max_header} bytes"
        return self.refuse(named, "header-too-large", 431, Invalid(jsonrpc.INVALID_REQUEST, message))

    def too_large(self, named: Headers) -> HttpAnswer:
        """The answer to a body over the limit."""
        message = f"the body is larger than {self.settings.max_body} bytes"
        return self.refuse(named, "body-too-large", 413, Invalid(jsonrpc.INVALID_REQUEST, message))

    def too_slow(self, named: Headers) -> HttpAnswer:
        """The answer to a body that does not come."""
        message = f"the request did not arrive within {self.settings.read_timeout:g} s"
        return self.refuse(named, "slow-client", 408, Invalid(jsonrpc.INVALID_REQUEST, message))

    def other(self, method: str, path: str, named: Headers) -> HttpAnswer:
        """Everything that is not a call: health, preflight, and a word for those who came with a browser."""
        if method == "OPTIONS":
            return self._preflight(named)
        if method not in ("GET", "HEAD"):
            return self._text(405, "calls are sent by POST", named, "Allow: GET, HEAD, OPTIONS, POST\r\n")
        if named.get("upgrade", "").lower() == "websocket":
            self._tally.refused("websocket")
            word = "there are no WebSockets here: send calls by POST, and poll a filter instead of subscribing"
            return self._text(400, word, named)
        if path == "/healthz":
            return self._text(200, "alive", named)
        if path == "/readyz":
            reasons = ["draining"] if self.draining else self._not_ready()
            return self._text(503, "\n".join(reasons), named) if reasons else self._text(200, "ready", named)
        if path in self.routes:
            word = f"rpcaccel {rpcaccel.__version__}: send JSON-RPC 2.0 calls here by POST"
            return self._text(200, word, named)
        return self._text(404, "nothing is served here; calls go by POST to /, /NETWORK or a chain's own paths", named)

    def finish(
        self,
        named: Headers,
        status: int,
        body: bytes,
        told: str,
        *,
        vary: str = "",
        content_type: str = JSON,
        close: bool = False,
        shared: tuple[bytes, ...] = (),
    ) -> HttpAnswer:
        """An answer with the headers that every answer has."""
        origin = named.get("origin", "")
        if origin:
            allowed, varies = self._allow(origin)
            told += allowed
            vary = ", ".join(name for name in (vary, varies) if name)
        if vary:
            told += f"Vary: {vary}\r\n"
        rest = _OURS_JSON if content_type is JSON else f"Content-Type: {content_type}\r\n{_OURS}"
        return HttpAnswer(status, told + rest, body, close or self.draining, shared)

    def _allow(self, origin: str) -> tuple[str, str]:
        """Cross-origin header lines (Fetch standard) for the origins the settings allow; and what they vary by."""
        allowed = self.settings.cors_origins
        every = "*" in allowed
        if not (every or origin in allowed):
            return "", ""
        lines = f"Access-Control-Allow-Origin: {'*' if every else origin}\r\n"
        return f"{lines}Access-Control-Expose-Headers: {response_headers.EXPOSED}\r\n", "" if every else "Origin"

    def _preflight(self, named: Headers) -> HttpAnswer:
        told, varies = self._allow(named.get("origin", ""))
        if told:
            wanted = named.get("access-control-request-headers", "Content-Type")
            told += "Access-Control-Allow-Methods: GET, OPTIONS, POST\r\n"
            told += f"Access-Control-Allow-Headers: {wanted}\r\nAccess-Control-Max-Age: 86400\r\n"
        if varies:
            told += f"Vary: {varies}\r\n"
        return HttpAnswer(204, told + _OURS, b"", self.draining)

    def _turned_away(self, named: Headers, refusal: LimitRefusal) -> HttpAnswer:
        told = ""
        if refusal.retry_after is not None:
            told += f"Retry-After: {max(1, ceil(refusal.retry_after))}\r\n"
        if refusal.http == 401:
            told += "WWW-Authenticate: Bearer\r\n"
        return self.finish(named, refusal.http, jsonrpc.error_reply(b"null", refusal.error), told)

    def _text(self, status: int, text: str, named: Headers | None = None, told: str = "") -> HttpAnswer:
        named = named if named is not None else NO_HEADERS
        return self.finish(named, status, text.encode() + b"\n", told, content_type=TEXT)


class _NoHeaders:
    def get(self, _key: str, default: str) -> str:
        return default

    def getall(self, _key: str, default: list[str]) -> list[str]:
        return default


NO_HEADERS = _NoHeaders()


def takes_gzip(accepted: str) -> bool:
    """Does Accept-Encoding (RFC 9110 section 12.5.3) allow gzip?"""
    return _allows_gzip(accepted[:_LONGEST_ACCEPTED])


@lru_cache(maxsize=256)
def _allows_gzip(accepted: str) -> bool:
    for item in accepted.lower().split(","):
        coding, _, weight = item.partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
