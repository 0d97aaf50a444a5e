"""The head of a POST, read, and what follows from it under the settings in force.

A client sends the same head again and again. What path, key and other headers mean is therefore found out once for each
head and revision of the settings, and read by the hit path and by the ordinary way alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from rpcaccel.core.client_limits import Client, LimitRefusal
from rpcaccel.core.directives import DIRECTIVE_HEADERS
from rpcaccel.core.wire.http_head import read_head
from rpcaccel.dataplane.rpc.admission import Headers, PathRoute
from rpcaccel.dataplane.rpc.hit_memo import KnownCalls

_SLASHES = re.compile("/+")
_MAX_HEADS, _MAX_HEAD_BYTES = 1024, 2048
"""Heads that are remembered, and bytes of the longest one."""
_MAX_ACCEPTED_CHARACTERS = 256
"""Characters of Accept-Encoding that are looked at, and remembered."""


class Named:
    """Headers by name in lower case, where no name is repeated."""

    __slots__ = ("_headers", "get")

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers
        self.get: Callable[[str, str], str] = headers.get
        """The value of a header, by its name and a default."""

    def getall(self, key: str, default: list[str]) -> list[str]:
        """Every value of a header, of which there is at most one."""
        value = self._headers.get(key)
        return default if value is None else [value]


NO_HEADERS = Named({})


def one_slash(path: str) -> str:
    """A path with one slash for each run of them: some clients join an address and a path with two."""
    return _SLASHES.sub("/", path) if "//" in path else path


class RequestHead:
    """The head of a POST. `RequestHandler.read` fills in what follows from it under the settings in force."""

    __slots__ = ("apart", "compact", "end", "guest", "headers", "known", "length", "long", "long_hit", "most", "packs",
                 "path", "patience", "place", "query", "refusal", "route", "short", "short_hit", "text", "under",
                 "whole")  # fmt: skip

    def __init__(self, path: str, headers: Headers, text: bytes = b"", length: int = 0) -> None:
        """`path` may have a query. `text` and `length` are known of the heads of ordinary POSTs."""
        path, _, self.query = path.partition("?")
        self.path = path = one_slash(path)
        self.headers = headers
        self.text = text
        """The head as it was sent, up to the empty line."""
        self.length = length
        """Bytes of the body."""
        self.end = len(text)
        self.whole = len(text) + length
        """Bytes of head and body."""
        self.under: object = None
        """The table of paths under which the rest was read: each revision of the settings has a table of its own."""
        self.place = path
        """The path without a key."""
        self.route: PathRoute | None = None
        """Where the path leads; None: no network is served there."""
        self.guest: Client | None = None
        """The client whose key came with the request."""
        self.refusal: LimitRefusal | None = None
        """Why the request is turned away: for its key, or for want of one, or for a header that cannot be followed."""
        self.apart = False
        """Are clients without a key told apart by their address?"""
        self.patience: float | None = None
        """Seconds that the client will wait; None: as long as the network does."""
        self.packs = False
        """Does the client take gzip?"""
        self.short = self.long = ""
        """The header lines that follow from this head, for an answer too short to be compressed and for a longer
        one."""
        self.known: KnownCalls | None = None
        """The known calls of the path; None where the hit path may answer nothing that comes under this head."""
        self.most = 0
        """The setting http.max_in_flight."""
        self.compact = 0
        """The setting http.gzip_from."""
        self.short_hit = self.long_hit = b""
        """The lines of `short` and `long` as the hit path writes them, with the beginning of Content-Length."""


class HeadMemo:
    """Heads that were read: most clients send the same head again and again."""

    def __init__(self, max_header: Callable[[], int]) -> None:
        """`max_header` gives the bytes that a head may have."""
        self._max_header = max_header
        self._heads: dict[bytes, RequestHead | None] = {}

    def read(self, text: bytes) -> RequestHead | None:
        """Read a head, once for all requests that have the same; None when it is not that of an ordinary POST."""
        if text in self._heads:
            return self._heads[text]
        head = read_head(text) if len(text) <= self._max_header() else None
        read = None if head is None else RequestHead(head.path, Named(head.headers), text, head.length)
        directed = head is not None and ("?" in head.path or any(name in head.headers for name in DIRECTIVE_HEADERS))
        if len(text) <= _MAX_HEAD_BYTES and not directed:  # a head keeps the route of its directives in memory
            if len(self._heads) >= _MAX_HEADS:
                self._heads.clear()
            self._heads[text] = read
        return read


def takes_gzip(accepted: str) -> bool:
    """Does Accept-Encoding (RFC 9110 section 12.5.3) allow gzip?"""
    return _allows_gzip(accepted[:_MAX_ACCEPTED_CHARACTERS])


@lru_cache(maxsize=256)
def _allows_gzip(accepted: str) -> bool:
    for item in accepted.lower().split(","):
        coding, _, weight = item.partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
