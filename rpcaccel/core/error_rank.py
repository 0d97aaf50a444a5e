"""Which of several bad ends the client is told: the one that says most about the call."""

from __future__ import annotations

from rpcaccel.core.commands import Settle
from rpcaccel.core.failure import FailureKind, policy

_TELLING: dict[FailureKind, int] = {
    FailureKind.CONNECT: 0,
    FailureKind.DNS: 0,
    FailureKind.TLS: 0,
    FailureKind.BUSY: 1,
    FailureKind.RATE_LIMITED: 3,
    FailureKind.TIMEOUT: 4,
    FailureKind.CALL_REFUSED: 5,
    FailureKind.METHOD_MISSING: 5,
    FailureKind.ROLE_MISSING: 6,
    FailureKind.NODE_BEHIND: 7,
    FailureKind.PRUNED: 8,
    FailureKind.BEYOND_WINDOW: 8,
    FailureKind.NODE_TIMEOUT: 9,
    FailureKind.UNKNOWN: 10,
    FailureKind.NONCE_TOO_LOW: 11,
    FailureKind.INVALID_PARAMS: 12,
    FailureKind.REJECTED: 13,
    FailureKind.ALREADY_KNOWN: 14,
}
"""How telling a failure is: least when nothing was sent, most when a node that has the method said so."""
_OTHERS = 2
_NOTHING_SAID = -1
"""A result by which a node shows that it cannot know: any failure of another node says more."""
NO_RANK = -2
"""Under every rank."""
_SAID, _RESULT = 100, 200
"""Added for words of the node that are fit for the client, and for a result (if only an early one)."""


def error_rank(end: Settle) -> int:
    """The higher, the more it tells."""
    kind = end.failure.kind if end.failure else FailureKind.UNKNOWN
    if kind is FailureKind.ROLE_MISSING and end.answer is not None and end.answer.result is not None:
        return _NOTHING_SAID
    rank = _TELLING.get(kind, _OTHERS)
    if end.answer is None or policy(kind).client == "own-error":
        return rank
    return rank + (_SAID if end.answer.result is None else _RESULT)
