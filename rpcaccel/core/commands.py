"""What core.dispatch tells its driver to do."""

from __future__ import annotations

from msgspec import Struct

from rpcaccel.core.answer import Answer
from rpcaccel.core.failure import Failure
from rpcaccel.core.node import Node


class StartAttempt(Struct, frozen=True, gc=False):
    """Send the call to `node` and report as `attempt`."""

    attempt: int
    node: Node
    timeout: float
    """Seconds the attempt may take."""
    hedge: bool = False


class CancelAttempt(Struct, frozen=True, gc=False):
    """Another attempt won, or the call is over: stop this one. Nothing is to be reported of it."""

    attempt: int


class SetTimer(Struct, frozen=True, gc=False):
    """Send the timer event after `delay` seconds, if `timer_set` still holds then."""

    delay: float
    """Infinite beside an attempt for which no hedge will be due: it may still be deserted."""


class Settle(Struct, frozen=True):
    """The call is over."""

    answer: Answer | None
    """What a node said, error or result."""
    failure: Failure | None
    """None only for a success."""
    node: Node | None
    """Who said it."""


Command = StartAttempt | CancelAttempt | SetTimer | Settle
