"""A failure is a value: what went wrong, where, whether anything was sent, and what follows from it.

Foreign exceptions and node errors are translated once, where they enter (dataplane.upstream.node_client,
core.replies.error_rules). POLICY answers every question about a kind; the row for what nobody foresaw stands first.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct


class FailureKind(StrEnum):
    """What went wrong, from the proxy's point of view."""

    UNKNOWN = "unknown"
    CONNECT = "connect"
    TLS = "tls"
    DNS = "dns"
    RESET_BEFORE_REPLY = "reset-before-reply"
    BROKEN_REPLY = "broken-reply"
    OVERSIZED = "oversized-answer"
    TIMEOUT = "timeout"
    HTTP_STATUS = "http-status"
    NOT_JSON_RPC = "not-json-rpc"
    WRONG_ID = "wrong-id"
    IMPOSSIBLE = "impossible-result"
    RATE_LIMITED = "rate-limited"
    UNAUTHORIZED = "unauthorized"
    MISCONFIGURED = "misconfigured"
    CALL_REFUSED = "call-refused"
    NODE_BEHIND = "node-behind"
    PRUNED = "pruned"
    BEYOND_WINDOW = "beyond-window"
    METHOD_MISSING = "method-missing"
    ROLE_MISSING = "role-missing"
    TOO_LARGE = "too-large"
    NODE_TIMEOUT = "node-timeout"
    REVERT = "revert"
    INVALID_PARAMS = "invalid-params"
    REJECTED = "rejected"
    ALREADY_KNOWN = "already-known"
    NONCE_TOO_LOW = "nonce-too-low"
    FILTER_NOT_FOUND = "filter-not-found"
    NO_NODE = "no-node"
    BUSY = "busy"
    CANCELLED = "cancelled"


class Policy(Struct, frozen=True):
    """What a kind of failure means for the next step."""

    retry: Literal["never", "if-repeatable", "always", "same-node", "one-other"]
    """May another attempt be made? "always" even for calls that may not be repeated, since nothing happened;
    "same-node": on a new connection to the same node, if repeatable; "one-other": if repeatable, and once only."""
    breaker: Literal["failure", "ignore", "success"]
    """What the node's breaker learns."""
    client: Literal["own-error", "pass-through", "success-with-hash"]
    """What the client sees when nobody does better."""
    code: int = -32603
    """The JSON-RPC code of the proxy's own error (JSON-RPC 2.0 section 5.1, EIP-1474), and of a passed-through one
    where `uniform_code` does not let its own stand."""
    http: int = 200
    """The HTTP status when every attempt ended so."""
    pays: Literal["nothing", "apart", "budget"] = "budget"
    """What the retry after it is paid from (core.dispatch.retry_budget). "nothing": the failed attempt cost the node no
    work, and the attempts and the deadline of the call are bound enough; "apart": the call itself may have brought the
    failure about, so that clients could drain what such retries are paid from; "budget": the node did work, or may be
    overloaded."""


_POLICIES: dict[FailureKind, Policy] = {
    # A node said something nobody classed yet. Its breaker learns nothing: a client that repeats a call which gets such
    # an error would shut one node after the other.
    FailureKind.UNKNOWN: Policy("if-repeatable", "ignore", "pass-through", pays="apart"),
    # Nothing was sent: any call may be tried elsewhere.
    FailureKind.CONNECT: Policy("always", "failure", "own-error", http=502, pays="nothing"),
    FailureKind.TLS: Policy("always", "failure", "own-error", http=502, pays="nothing"),
    FailureKind.DNS: Policy("always", "failure", "own-error", http=502, pays="nothing"),
    # The node closed an idle connection as we wrote: no fault of its health.
    FailureKind.RESET_BEFORE_REPLY: Policy("same-node", "ignore", "own-error", http=502, pays="nothing"),
    FailureKind.BROKEN_REPLY: Policy("if-repeatable", "failure", "own-error", http=502),
    # Longer than the operator lets an answer be. Most likely that is the call's doing, whichever node is asked: the
    # breaker learns nothing, since a client that repeats the call would shut one node after the other.
    FailureKind.OVERSIZED: Policy("one-other", "ignore", "own-error", http=502, pays="apart"),
    FailureKind.TIMEOUT: Policy("if-repeatable", "failure", "own-error", http=504),
    FailureKind.HTTP_STATUS: Policy("if-repeatable", "failure", "own-error", http=502),
    FailureKind.NOT_JSON_RPC: Policy("if-repeatable", "failure", "own-error", http=502),
    FailureKind.WRONG_ID: Policy("if-repeatable", "failure", "own-error", http=502),
    # A result that no node of the chain could mean, such as [] where there is always a number.
    FailureKind.IMPOSSIBLE: Policy("if-repeatable", "failure", "own-error", http=502),
    # Refused before anything was done. A busy node is not a sick one: it is parked, its breaker learns nothing.
    FailureKind.RATE_LIMITED: Policy("always", "ignore", "own-error", code=-32005, http=429, pays="nothing"),
    # The operator's matter: a wrong URL, or a key that is not let in. Nothing was done. The breaker learns nothing, as
    # some providers refuse single methods so, and a client that calls those must not shut the node for all. Where the
    # probes get the same, the node is shut out (core.nodes.eligibility, BARRED).
    FailureKind.UNAUTHORIZED: Policy("always", "ignore", "own-error", http=502, pays="nothing"),
    FailureKind.MISCONFIGURED: Policy("always", "ignore", "own-error", http=502, pays="nothing"),
    # Most likely the call's own fault (too long, too odd): one other node is asked, lest it was the node's.
    FailureKind.CALL_REFUSED: Policy("one-other", "ignore", "own-error", code=-32600, http=400, pays="apart"),
    # The node lacks something (a block, old state, a method, a role) and is healthy: another may have it.
    FailureKind.NODE_BEHIND: Policy("if-repeatable", "ignore", "pass-through", code=-32000, pays="nothing"),
    FailureKind.PRUNED: Policy("if-repeatable", "ignore", "pass-through", code=-32000, pays="nothing"),
    FailureKind.BEYOND_WINDOW: Policy("if-repeatable", "ignore", "pass-through", code=-32000, pays="nothing"),
    FailureKind.METHOD_MISSING: Policy("always", "ignore", "pass-through", code=-32601, pays="nothing"),
    FailureKind.ROLE_MISSING: Policy("always", "ignore", "pass-through", code=-32000, pays="nothing"),
    FailureKind.NODE_TIMEOUT: Policy("if-repeatable", "ignore", "pass-through", code=-32000, pays="apart"),
    # Answers: every node would say the same.
    FailureKind.TOO_LARGE: Policy("never", "success", "pass-through", code=-32005),
    FailureKind.REVERT: Policy("never", "success", "pass-through", code=3),
    FailureKind.INVALID_PARAMS: Policy("never", "success", "pass-through", code=-32602),
    FailureKind.REJECTED: Policy("never", "success", "pass-through", code=-32000),
    FailureKind.ALREADY_KNOWN: Policy("never", "success", "success-with-hash", code=-32000),
    FailureKind.NONCE_TOO_LOW: Policy("never", "success", "pass-through", code=-32000),
    FailureKind.FILTER_NOT_FOUND: Policy("never", "success", "pass-through", code=-32000),
    # The proxy's own.
    FailureKind.NO_NODE: Policy("never", "ignore", "own-error", http=503),
    FailureKind.BUSY: Policy("always", "ignore", "own-error", code=-32005, http=503, pays="nothing"),
    FailureKind.CANCELLED: Policy("never", "ignore", "own-error"),
}


def policy(kind: FailureKind) -> Policy:
    """The row of `kind`; the row of UNKNOWN for a kind without one."""
    return _POLICIES.get(kind, _POLICIES[FailureKind.UNKNOWN])


_BY_STATUS: dict[int, FailureKind] = {
    400: FailureKind.CALL_REFUSED,
    401: FailureKind.UNAUTHORIZED,
    402: FailureKind.RATE_LIMITED,  # no more paid for
    403: FailureKind.UNAUTHORIZED,
    404: FailureKind.MISCONFIGURED,
    405: FailureKind.MISCONFIGURED,
    407: FailureKind.UNAUTHORIZED,
    410: FailureKind.MISCONFIGURED,
    413: FailureKind.CALL_REFUSED,
    414: FailureKind.CALL_REFUSED,
    415: FailureKind.MISCONFIGURED,
    422: FailureKind.CALL_REFUSED,
    429: FailureKind.RATE_LIMITED,
    431: FailureKind.CALL_REFUSED,
}
LACKING = frozenset({FailureKind.METHOD_MISSING, FailureKind.ROLE_MISSING})
"""What a node says that is not made for the call. It is remembered, so that each node says it once in a while, and all
nodes are asked before a client is told so (core.dispatch.machine)."""
BARRING = frozenset({FailureKind.UNAUTHORIZED, FailureKind.MISCONFIGURED})
"""What shuts a node out until its probes are answered again, when they meet it."""


def kind_of_status(status: int) -> FailureKind:
    """What an HTTP status outside 200..299 means where the body says nothing better (RFC 9110 section 15): redirects
    are for the operator to follow, and what is not in the table is the node's failure."""
    if 300 <= status < 400:
        return FailureKind.MISCONFIGURED
    return _BY_STATUS.get(status, FailureKind.HTTP_STATUS)


def uniform_code(kind: FailureKind, code: int) -> int:
    """The code of a node's error where the operator wants uniform ones (networks.*.uniform_error_codes): the node's own
    if it is among those that JSON-RPC 2.0 section 5.1 reserves (-32768 to -32000) or 3, a revert's; else the kind's.
    """
    return code if code == 3 or -32768 <= code <= -32000 else policy(kind).code


class Failure(Struct, frozen=True):
    """One failed attempt, or one failed call."""

    kind: FailureKind
    text: str
    """For the operator and, for own errors, the client. Never holds a URL's credentials."""
    sent: bool = True
    """May the node have read any byte of the call?"""
    error: bytes | None = None
    """The node's own `error` object as raw JSON, when it sent one."""
    retry_after: float | None = None
    """Seconds the node asked to be left alone."""
    node: str = ""
