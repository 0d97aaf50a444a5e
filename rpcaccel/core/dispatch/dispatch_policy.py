"""How far a call is taken: how many attempts it may have, when a hedge is sent, and which of several ends is told.

A hedge costs another node a call, so it is sent only where it is known what to expect, not sooner than a floor, and
within the budget that retries share. A node is slow with a call after a quantile of what the method took on that node.
Of several bad ends the client is told the one that says most about the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind, policy

_PACES = 64
"""Settings that are remembered: they change with the pace of a chain."""


class Settle(Struct, frozen=True):
    """The call is over."""

    answer: Answer | None
    """What a node said, error or result."""
    failure: Failure | None
    """None only for a success."""
    node: Node | None
    """Who said it."""


class DispatchSettings(Struct, frozen=True, kw_only=True):
    """How far a call is taken."""

    attempts: int = 3
    """Attempts of a call, hedges among them."""
    behind_attempts: int = 2
    """Further attempts after "not there yet" answers, beside the others."""
    patience: float = inf
    """Seconds for which the nodes that have a block are waited for, where others are merely behind."""
    behind_pause: float | None = None
    """Seconds (half a block) that a call may wait altogether for nodes that were not there yet; None: no time."""

    def pause(self, number: int) -> float | None:
        """Seconds of the pause of this number, from 1; None when there is none, or no further one.

        The pauses grow, and are `behind_pause` together: most machines that lack a block have it a moment later.
        """
        if self.behind_pause is None or number > self.behind_attempts:
            return None
        most = self.behind_attempts
        return self.behind_pause * 2 * number / (most * (most + 1))


RECENT_BLOCKS = 128
"""Blocks below the highest head. A machine that lacks one of these has it a moment later. Older ones do not come by
waiting, but another machine behind the same address may have them."""


def dispatch_settings(settings: DispatchSettings, plan: Plan, nodes: Sequence[Node]) -> DispatchSettings:
    """The settings as far as waiting helps this call: a block that no node has is nobody's yet, and who polls for it
    is told so at once; a recent one is worth a pause; for an old one, nodes are asked again without a pause; where no
    block is named, others are asked."""
    if settings.behind_pause is None and not settings.behind_attempts:
        return settings
    if plan.block is None:
        return without_pause(settings)
    needed, best = plan.block + plan.depth, max((node.head for node in nodes), default=-1)
    if best < 0:
        return settings
    if best < needed:
        return _without_waiting(settings)
    return settings if best - needed <= RECENT_BLOCKS or settings.behind_pause is None else _at_once(settings)


@lru_cache(_PACES)
def _without_waiting(settings: DispatchSettings) -> DispatchSettings:
    return replace(settings, behind_attempts=0, behind_pause=None)


@lru_cache(_PACES)
def _at_once(settings: DispatchSettings) -> DispatchSettings:
    return replace(settings, behind_pause=0.0)


@lru_cache(_PACES)
def without_pause(settings: DispatchSettings) -> DispatchSettings:
    """The settings of a call that is not to wait, or has waited, for nodes that are not there yet."""
    return replace(settings, behind_pause=None)


class Hedging(Struct, frozen=True, kw_only=True):
    """When a second node is asked as well."""

    at_least: float = 0.1
    """Seconds that a node is given in any case."""
    samples: int = 30
    """Answers that must have been seen before the quantile is believed."""

    def after(self, method: str, node: Node) -> float | None:
        """Seconds after which `node` is slow with `method`; None while that is not known."""
        pace = node.pace.of(method)
        if pace is None or pace.count < self.samples:
            return None
        return max(pace.quantile, self.at_least)


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
