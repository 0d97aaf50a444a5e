"""How far a call is taken: how many attempts it may have, and whether what is not there yet is waited for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.core.node import Node
from rpcaccel.core.plan import Plan


class DispatchSettings(Struct, frozen=True, kw_only=True):
    """How far a call is taken."""

    attempts: int = 3
    """Attempts of a call, hedges among them."""
    behind_attempts: int = 2
    """Further attempts after "not there yet" answers, beside the others."""
    patience: float = inf
    """Seconds for which the nodes that have a block are waited for, where others are merely behind."""
    behind_pause: float | None = None
    """Seconds (about a block time) to wait before nodes are asked again that were not there yet; None: never."""


def dispatch_settings(settings: DispatchSettings, plan: Plan, nodes: Sequence[Node]) -> DispatchSettings:
    """The settings as far as waiting helps this call: a block that no node has is nobody's yet, and who polls for it
    is told so at once; one that some node has is worth a pause; where no block is named, others are asked."""
    if settings.behind_pause is None and not settings.behind_attempts:
        return settings
    block, best = plan.block, max([node.head for node in nodes], default=-1)
    if block is not None and best >= 0 and block + plan.depth > best:
        return _without_waiting(settings)
    return settings if block is not None else _without_pause(settings)


@cache
def _without_waiting(settings: DispatchSettings) -> DispatchSettings:
    return replace(settings, behind_attempts=0, behind_pause=None)


@cache
def _without_pause(settings: DispatchSettings) -> DispatchSettings:
    return replace(settings, behind_pause=None)
