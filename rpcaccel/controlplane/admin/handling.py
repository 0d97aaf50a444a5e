"""What all handlers of the admin API share: the port to the supervisor, what a guard found about a request, bodies and
preconditions, and errors as problem documents (RFC 9457) with a code that stays the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Protocol, TypeVar

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, Struct, UnsetType

from rpcaccel.config.errors import Fault
from rpcaccel.config.model import NodeSettings
from rpcaccel.controlplane.alerts.alerting import Alerting
from rpcaccel.controlplane.hosts.host_book import HostsNow
from rpcaccel.controlplane.settings.ledger import Author, Ledger
from rpcaccel.controlplane.stats.events import Events
from rpcaccel.controlplane.workers.operations import read
from rpcaccel.controlplane.workers.workers import WorkerStanding
from rpcaccel.core.agreement.cases import Case
from rpcaccel.core.heads.identity import NodesFound, NodeTrial
from rpcaccel.core.heads.served_head import NodeHead
from rpcaccel.core.stats.error_log import ErrorLog

T = TypeVar("T")

MAX_BODY_BYTES = 1 << 20
"""Bytes of a body that are read."""
_TAG = re.compile(r'\s*(?:W/)?"(\d{1,18})"\s*')
_JSON = ("application/json", "application/merge-patch+json")

AUTHOR = web.RequestKey("author", Author)
"""The author of a change, as found by the guard."""
STREAM_HEADERS = web.RequestKey("stream_headers", dict[str, str])
"""The headers of every answer, which a stream needs before it begins."""
STILL_ALLOWED: web.RequestKey[Callable[[], bool]] = web.RequestKey("still_allowed")
"""A function that tells whether the reader of a stream may still read."""

TITLES = {
    "not-json": "The body is no JSON object",
    "not-logged-in": "Log in first",
    "wrong-password": "The name or the password is wrong",
    "not-allowed": "This account may not do that",
    "cross-site": "X-Rpcaccel-Request is missing or Origin is not ours: changes come from the page or a program",
    "not-found": "There is no such thing",
    "refused": "The change was refused; nothing is changed anywhere",
    "no-file": "There is no config file to be read again",
    "changed-meanwhile": "The settings were changed meanwhile",
    "too-large": "The body is too large",
    "too-slow": "The body took too long",
    "malformed-body": "The body does not fit its Content-Encoding or Transfer-Encoding",
    "wrong-host": "The admin side is asked under its own address only (Host header)",
    "invalid-settings": "The settings would not be valid",
    "if-match-required": "Say by If-Match which revision the change is made for",
    "too-many-logins": "Too many attempts to log in",
    "no-answer": "The proxy's own front did not answer",
    "invalid-selection": "What is meant is not said, or more than one thing is",
    "invalid-question": "That cannot be answered",
    "nodes-known": "There are nodes already",
    "nodes-too-slow": "The nodes took too long",
    "not-a-call": "The call is no JSON-RPC call",
}
"""Every code with its title."""


class Control(Protocol):
    """The part of the supervisor that the admin side uses beside the view."""

    ledger: Ledger
    events: Events
    errors: ErrorLog
    alerts: Alerting

    @property
    def cases(self) -> Iterable[Case]:
        """The cases of disagreement that are kept, the newest first."""
        ...

    def workers(self) -> Sequence[WorkerStanding]:
        """The workers with their states, draining ones included."""
        ...

    def adopted(self) -> int:
        """The number of workers that run the revision in force."""
        ...

    @property
    def replaced(self) -> int:
        """Workers that died and were replaced since the start."""
        ...

    def shared(self) -> dict[str, Any] | None:
        """The state of the sharing with other hosts; None when nothing is shared."""
        ...

    def hosts(self) -> HostsNow:
        """The hosts that share a Redis with this one, as they are known."""
        ...

    async def purged(self, body: bytes, *, complete: bool = True) -> None:
        """Send a purge that was carried out here to the other hosts. One that is not `complete` here is repeated."""
        ...

    async def probe(self, network: str, node: str) -> NodeHead | None:
        """Probe a node at once; None when there is no such node."""
        ...

    def examine(self, network: str, node: str) -> NodeHead | None:
        """Begin to examine a node; returns what is known of it until then, and None when there is no such node."""
        ...

    async def try_node(self, network: str, node: NodeSettings) -> NodeTrial | None:
        """Probe a node that is not in the settings; None when there is no such network."""
        ...

    async def find_nodes(self, texts: Sequence[str]) -> NodesFound:
        """Ask nodes that no network has what they are. Raises ConfigError."""
        ...


class Problem(Struct, frozen=True, kw_only=True):
    """A problem document (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    code: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET
    errors: list[dict[str, Any]] | UnsetType = UNSET
    revision: Annotated[int | UnsetType, Meta(description="Of the settings in force.")] = UNSET

    def response(self) -> web.Response:
        """The answer with this document."""
        body = msgspec.json.encode(self)
        return web.Response(status=self.status, body=body, content_type="application/problem+json")


class ProblemError(Exception):
    """Ends a request with a problem document."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str = "",
        *,
        faults: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
        revision: int | UnsetType = UNSET,
    ) -> None:
        super().__init__(f"{status} {code}")
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers or {}
        errors = [{"path": one.path, "found": one.found, "expected": one.expected, "text": str(one)} for one in faults]
        self.document = Problem(
            title=TITLES[code],
            status=status,
            code=code,
            detail=detail or UNSET,
            errors=errors or UNSET,
            revision=revision,
        )

    def response(self) -> web.Response:
        """The answer with the document."""
        response = self.document.response()
        response.headers.update(self.headers)
        return response


def json_response(document: object) -> web.Response:
    """An answer with this document."""
    return web.Response(body=msgspec.json.encode(document), content_type="application/json")


def expected_revision(request: web.Request, ledger: Ledger) -> int | None:
    """The revision in If-Match (RFC 9110, section 13.1.1); None for any. Raises ProblemError."""
    asked = request.headers.get("If-Match")
    if asked is None:
        raise ProblemError(428, "if-match-required", revision=ledger.revision)
    if asked.strip() == "*":
        return None
    match = _TAG.fullmatch(asked)
    if match is None or int(match[1]) != ledger.revision:
        raise ProblemError(412, "changed-meanwhile", revision=ledger.revision)
    return int(match[1])


async def body_of(request: web.Request, kind: type[T]) -> T:
    """The document in the body; an empty body is an empty object. Raises ProblemError or OperationRefused."""
    try:
        body = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise ProblemError(413, "too-large", f"at most {MAX_BODY_BYTES} bytes are read") from None
    if body and request.content_type not in _JSON:
        raise ProblemError(415, "not-json", f"send {_JSON[0]} or {_JSON[1]}")
    return read(body or b"{}", kind)
