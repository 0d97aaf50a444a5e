"""Failures as values: what went wrong, whether anything was sent, and what follows from it.

Exceptions of libraries and errors of nodes are translated once, where they enter (dataplane.upstream.node_failures,
core.replies.error_rules). One table says what follows from each kind of failure; the default row stands first.
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
    CLIENT_DEADLINE = "client-deadline"
    HTTP_STATUS = "http-status"
    NOT_JSON_RPC = "not-json-rpc"
    WRONG_ID = "wrong-id"
    IMPOSSIBLE = "impossible-result"
    FALSE_HASHES = "false-hashes"
    UNPROVEN = "unproven"
    DISPROVED = "disproved"
    DISAGREED = "disagreed"
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
    """What follows from a kind of failure."""

    retry: Literal["never", "if-repeatable", "always", "same-node", "one-other"]
    """May another attempt be made? "always": even for calls that may not be repeated, since nothing happened.
    "same-node": on a new connection to the same node, if the call is repeatable. "one-other": once, on another node,
    if the call is repeatable."""
    breaker: Literal["failure", "ignore", "success"]
    """The verdict for the node's breaker."""
    client: Literal["own-error", "pass-through", "success-with-hash"]
    """What the client gets when no node answers better."""
    code: int = -32603
    """The JSON-RPC code of the proxy's own error (JSON-RPC 2.0 section 5.1, EIP-1474), and that of a node's error whose
    code `uniform_code` replaces."""
    http: int = 200
    """The HTTP status when every attempt ended with this kind."""
    pays: Literal["nothing", "apart", "budget"] = "budget"
    """What a retry after this failure is paid from (core.dispatch.retry_budget). "nothing": the failed attempt cost the
    node no work, and the attempts and the deadline of the call are limit enough. "apart": the call itself may have
    caused the failure, so a budget of its own keeps clients from draining the common one. "budget": the node did work
    or may be overloaded."""
    fault: Literal["node", "lack", "client", "proxy"] = "node"
    """Where the cause lies. "lack": the node is well and lacks something that another node may have. "client": the call
    itself, which every node would answer so. "proxy": this program or its settings."""


_POLICIES: dict[FailureKind, Policy] = {
    # An error that no row classifies. The breaker ignores it: otherwise a client that repeats a call which gets such an
    # error would shut one node after the other.
    FailureKind.UNKNOWN: Policy("if-repeatable", "ignore", "pass-through", pays="apart"),
    # Nothing was sent: any call may be tried elsewhere.
    FailureKind.CONNECT: Policy("always", "failure", "own-error", http=502, pays="nothing"),
    FailureKind.TLS: Policy("always", "failure", "own-error", http=502, pays="nothing"),
    FailureKind.DNS: Policy("always", "failure", "own-error", http=502, pays="nothing"),
    # The node closed an idle connection while the call was written: it is healthy.
    FailureKind.RESET_BEFORE_REPLY: Policy("same-node", "ignore", "own-error", http=502, pays="nothing"),
    FailureKind.BROKEN_REPLY: Policy("if-repeatable", "failure", "own-error", http=502),
    # The answer is longer than the settings allow. The cause is most likely the call, whichever node is asked, so the
    # breaker ignores it: otherwise a client that repeats the call would shut one node after the other.
    FailureKind.OVERSIZED: Policy("one-other", "ignore", "own-error", http=502, pays="apart", fault="client"),
    FailureKind.TIMEOUT: Policy("if-repeatable", "failure", "own-error", http=504),
    # The client gave the request less time than the answer took. The fetch goes on for others who wait for it.
    FailureKind.CLIENT_DEADLINE: Policy("never", "ignore", "own-error", http=504, fault="client"),
    FailureKind.HTTP_STATUS: Policy("if-repeatable", "failure", "own-error", http=502),
    FailureKind.NOT_JSON_RPC: Policy("if-repeatable", "failure", "own-error", http=502),
    FailureKind.WRONG_ID: Policy("if-repeatable", "failure", "own-error", http=502),
    # A result that the method never has, such as [] where there is always a number.
    FailureKind.IMPOSSIBLE: Policy("if-repeatable", "failure", "own-error", http=502),
    # The logs in the result name a block hash that the block does not have: a node of Harmony keeps such hashes of the
    # blocks that it proposed. Everything else in the result is right, so the client gets it when no node does better.
    FailureKind.FALSE_HASHES: Policy("if-repeatable", "ignore", "pass-through", pays="apart", fault="lack"),
    # Another node may have a better answer: this one is of another branch than the one that is served, or what it is
    # proved by cannot be had now. The client gets it when no node does better, but not where the operator wants proof.
    FailureKind.UNPROVEN: Policy("if-repeatable", "ignore", "pass-through", http=502, pays="apart", fault="lack"),
    # The answer contradicts the call, or the hash of its block. No client gets it. That is no doing of the client, and
    # a node that lies often must not use up what honest ones are asked by.
    FailureKind.DISPROVED: Policy("if-repeatable", "ignore", "own-error", http=502, pays="nothing"),
    # Too few nodes gave the same answer to a call for which the operator wants agreement. Each node is well by itself.
    FailureKind.DISAGREED: Policy("never", "ignore", "own-error", http=502, fault="proxy"),
    # Refused before anything was done. A busy node is healthy: it is parked, and its breaker ignores the refusal.
    FailureKind.RATE_LIMITED: Policy("always", "ignore", "own-error", code=-32005, http=429, pays="nothing"),
    # The operator must act: the URL is wrong, or the key is refused. Nothing was done. The breaker ignores it, because
    # some providers refuse single methods in this way, and a client that calls those must not shut the node for all.
    # When probes get the same answer, the node is shut out (core.nodes.eligibility, BARRED).
    FailureKind.UNAUTHORIZED: Policy("always", "ignore", "own-error", http=502, pays="nothing"),
    FailureKind.MISCONFIGURED: Policy("always", "ignore", "own-error", http=502, pays="nothing"),
    # Most likely the call is at fault (too long, malformed). One other node is asked, in case the node is.
    FailureKind.CALL_REFUSED: Policy(
        "one-other", "ignore", "own-error", code=-32600, http=400, pays="apart", fault="client"
    ),
    # The node is healthy but lacks something (a block, old state, a method, a role) that another may have.
    FailureKind.NODE_BEHIND: Policy(
        "if-repeatable", "ignore", "pass-through", code=-32000, pays="nothing", fault="lack"
    ),
    FailureKind.PRUNED: Policy("if-repeatable", "ignore", "pass-through", code=-32000, pays="nothing", fault="lack"),
    FailureKind.BEYOND_WINDOW: Policy(
        "if-repeatable", "ignore", "pass-through", code=-32000, pays="nothing", fault="lack"
    ),
    FailureKind.METHOD_MISSING: Policy("always", "ignore", "pass-through", code=-32601, pays="nothing", fault="lack"),
    FailureKind.ROLE_MISSING: Policy("always", "ignore", "pass-through", code=-32000, pays="nothing", fault="lack"),
    FailureKind.NODE_TIMEOUT: Policy("if-repeatable", "ignore", "pass-through", code=-32000, pays="apart"),
    # Deterministic answers: every node would say the same.
    FailureKind.TOO_LARGE: Policy("never", "success", "pass-through", code=-32005, pays="apart", fault="client"),
    FailureKind.REVERT: Policy("never", "success", "pass-through", code=3, fault="client"),
    # Nodes also use the codes of wrong params for refusals of their own, so that one other node is asked.
    FailureKind.INVALID_PARAMS: Policy(
        "one-other", "success", "pass-through", code=-32602, pays="apart", fault="client"
    ),
    FailureKind.REJECTED: Policy("never", "success", "pass-through", code=-32000, pays="apart", fault="client"),
    FailureKind.ALREADY_KNOWN: Policy(
        "never", "success", "success-with-hash", code=-32000, pays="apart", fault="client"
    ),
    FailureKind.NONCE_TOO_LOW: Policy("never", "success", "pass-through", code=-32000, pays="apart", fault="client"),
    FailureKind.FILTER_NOT_FOUND: Policy("never", "success", "pass-through", code=-32000, pays="apart", fault="client"),
    # Failures of the proxy itself.
    FailureKind.NO_NODE: Policy("never", "ignore", "own-error", http=503, fault="proxy"),
    FailureKind.BUSY: Policy("always", "ignore", "own-error", code=-32005, http=503, pays="nothing", fault="proxy"),
    FailureKind.CANCELLED: Policy("never", "ignore", "own-error", fault="proxy"),
}


def policy(kind: FailureKind) -> Policy:
    """The row of `kind`; the row of UNKNOWN for a kind without one."""
    return _POLICIES.get(kind, _POLICIES[FailureKind.UNKNOWN])


_NODE_FAULTS = frozenset(kind.value for kind in FailureKind if policy(kind).fault == "node")


def is_node_fault(end: str) -> bool:
    """Was an attempt that ended so the node's own fault? `end` is a FailureKind, or another word for how an attempt may
    end."""
    return end in _NODE_FAULTS


_BY_STATUS: dict[int, FailureKind] = {
    400: FailureKind.CALL_REFUSED,
    401: FailureKind.UNAUTHORIZED,
    402: FailureKind.RATE_LIMITED,  # payment required: the plan is used up
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
NOT_OF_READS = frozenset(
    {FailureKind.REJECTED, FailureKind.ALREADY_KNOWN, FailureKind.NONCE_TOO_LOW, FailureKind.FILTER_NOT_FOUND}
)
"""Kinds of errors about what no read has, a transaction or a filter: another node is asked for the read."""
CONTRADICTABLE = NOT_OF_READS | {FailureKind.UNKNOWN, FailureKind.INVALID_PARAMS, FailureKind.TOO_LARGE}
"""Kinds of errors that a node alone is at fault for where another node has a result for the same call."""
LACKING = frozenset({FailureKind.METHOD_MISSING, FailureKind.ROLE_MISSING})
"""Kinds that say that a node lacks a method or role. The lack is remembered for the node, and all nodes are asked
before the client gets such an error (core.dispatch.machine)."""
UNREACHED = frozenset({FailureKind.CONNECT, FailureKind.DNS, FailureKind.TLS})
"""Kinds of failures of a node to which no connection came about, so that nothing was sent."""
BARRING = frozenset({FailureKind.UNAUTHORIZED, FailureKind.MISCONFIGURED})
"""Kinds that shut out a node, if its probes meet them, until the probes are answered again."""


def kind_of_status(status: int) -> FailureKind:
    """The kind of failure of an HTTP status outside 200..299 without a JSON-RPC error in the body (RFC 9110 section
    15).

    Redirects are a misconfiguration for the operator; a status that the table does not name is a failure of the node.
    """
    if 300 <= status < 400:
        return FailureKind.MISCONFIGURED
    return _BY_STATUS.get(status, FailureKind.HTTP_STATUS)


def uniform_code(kind: FailureKind, code: int) -> int:
    """The code of a node's error under the setting `networks.*.uniform_error_codes`.

    The node's own code stays if JSON-RPC 2.0 section 5.1 reserves it (-32768 to -32000) or if it is 3, a revert's; any
    other code is replaced by that of the kind.
    """
    return code if code == 3 or -32768 <= code <= -32000 else policy(kind).code


class Failure(Struct, frozen=True):
    """One failed attempt, or one failed call."""

    kind: FailureKind
    text: str
    """A message for the operator and, for the proxy's own errors, for the client. Holds no credentials of a URL."""
    sent: bool = True
    """May the node have received any byte of the call?"""
    error: bytes | None = None
    """The node's `error` object as raw JSON text, if it sent one."""
    said: str = ""
    """The node's words under a status that refuses, if they are no JSON-RPC: what they mean comes before the status."""
    retry_after: float | None = None
    """Seconds from the node's Retry-After header, if it sent one."""
    node: str = ""
