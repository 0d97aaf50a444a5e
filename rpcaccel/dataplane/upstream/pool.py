"""The nodes of one network and the means to reach them, as every way of asking the nodes gets them.

Here are also the queues of calls for which no node has room, and `Deadlines`, many deadlines under one timer: most
calls end long before their deadline, so that a timer for each would be made and cancelled in vain.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from random import Random
from typing import Any, Protocol, TypeVar

from rpcaccel.balancers import Balancer
from rpcaccel.core.dispatch.broadcast import BroadcastSettings
from rpcaccel.core.dispatch.dispatch_policy import DispatchSettings, Hedging
from rpcaccel.core.dispatch.retry_budget import Budget
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.nodes.outliers import OutlierPolicy
from rpcaccel.core.plan.rules import Bulkhead
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.stats.counters import NodeCell
from rpcaccel.dataplane.event_loop import TURN_SECONDS

_LOOK_AGAIN = 0.05
"""Seconds after which a waiting call looks for room by itself: a quota for each second makes room with time."""
_LOOKERS = 16
"""Waiting calls that may look as often as that; when more calls wait, each looks less often."""


class WaitQueue:
    """The waiting calls of one network and bulkhead."""

    __slots__ = ("_freed", "most", "refused", "seconds", "waiting")

    def __init__(self, most: int = 1000, seconds: float = 1.0) -> None:
        self.most = most
        """The number of calls that may wait; further calls are refused at once."""
        self.seconds = seconds
        """How long a call may wait."""
        self.refused = 0
        """The number of calls, since the start, for which no node had room in time."""
        self.waiting: OrderedDict[Callable[[], None], asyncio.TimerHandle] = OrderedDict()
        """What is called for each call that waits, the one that has waited longest first, and the timer of each."""
        self._freed = 0
        """The number of calls that ended in this turn of the loop: at its end, as many waiting calls look again."""

    def __len__(self) -> int:
        return len(self.waiting)

    def __repr__(self) -> str:
        return f"<wait queue, {len(self)} calls waiting>"

    def wait(self, look: Callable[[], None], seconds: float, *, again: bool = False) -> bool:
        """Put a call into the queue: `look` is called once, when room may have come free or after `seconds` at the
        latest. False when no time is left or the queue is full.

        Args:
            again: the call waited before, so it goes to the front, and a full queue does not keep it out.
        """
        if seconds <= 0 or (len(self.waiting) >= self.most and not again):
            return False
        wait = min(seconds, _LOOK_AGAIN * (1 + len(self.waiting) / _LOOKERS))
        self.waiting[look] = asyncio.get_running_loop().call_later(wait, self._told, look)
        if again:
            self.waiting.move_to_end(look, last=False)
        return True

    def leave(self, look: Callable[[], None]) -> None:
        """Take a call out of the queue; nothing when the call is not in it."""
        timer = self.waiting.pop(look, None)
        if timer is not None:
            timer.cancel()

    def free(self, count: int = 1) -> None:
        """Note that `count` calls ended: as many waiting calls look again when this turn of the loop is over."""
        if self.waiting:
            if not self._freed:
                asyncio.get_running_loop().call_soon(self._next)
            self._freed += count

    def _next(self) -> None:
        freed, self._freed = self._freed, 0
        turn_ends = time.monotonic() + TURN_SECONDS
        for looked, look in enumerate([*islice(self.waiting, freed)], 1):
            self._told(look)
            if looked < freed and time.monotonic() >= turn_ends:
                self.free(freed - looked)
                return

    def _told(self, look: Callable[[], None]) -> None:
        self.leave(look)
        look()


T = TypeVar("T")
_EARLY = 0.001
"""Seconds by which a timer may run out before its time, since event loops count in milliseconds."""


class Deadlines(dict[T, float]):
    """Things, each with the time of the loop by which the thing must be over; those that are not get `expired`.

    One timer is set for the earliest time known when the timer was set: when the timer runs out, the things that are
    left are looked through. With some hundred calls under way that costs nothing beside a timer for each. A thing that
    is over is taken out as from any dict.
    """

    __slots__ = ("_armed", "_expired", "_timer")

    def __init__(self, expired: Callable[[T], None]) -> None:
        super().__init__()
        self._expired = expired
        self._armed = inf
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<deadlines of {len(self)}>"

    def add(self, thing: T, seconds: float) -> None:
        """Set the deadline of a thing, in seconds from now."""
        loop = asyncio.get_running_loop()
        until = self[thing] = loop.time() + seconds
        if until < self._armed:
            self._arm(loop, until)

    def _arm(self, loop: asyncio.AbstractEventLoop, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed = until
        self._timer = loop.call_at(until, self._look)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._armed, self._timer = inf, None
        now = loop.time() + _EARLY
        due = [thing for thing, until in self.items() if until <= now]
        for thing in due:
            if self.pop(thing, None) is not None:  # `expired` of another may have taken the thing out
                try:
                    self._expired(thing)
                except Exception as error:  # or the others would wait for nothing
                    loop.call_exception_handler({"message": "a deadline is over", "exception": error})
        earliest = min(self.values(), default=inf)
        if earliest < self._armed:
            self._arm(loop, earliest)


Classify = Callable[[int, str, int], FailureKind]
"""The kind of a node's error, from its code, its message and the HTTP status."""


OnUnclassed = Callable[[str, str, int, str, int], None]
"""Node, method, code, message and HTTP status of an error."""


class Hedged(Protocol):
    """A call beside whose attempt another may be made."""

    @property
    def waits_for(self) -> str:
        """The id of the node that the call waits for."""
        ...

    def overdue(self) -> None:
        """Start a hedge, because the first attempt is overdue."""
        ...

    def abandon(self, *, silent: bool = True) -> None:
        """Ask another node: the one that the call waits for was left alone, and is perhaps `silent`."""
        ...


OnReply = Callable[[Sequence[Any], Sequence[Answer | Failure]], None]
"""Called once with the calls of a request and their replies, not before the request was begun. Must not raise."""


class UnderWay(Protocol):
    """An HTTP request on its way to a node."""

    @property
    def calls(self) -> Sequence[object]:
        """The calls that the request carries; none once the request is over."""
        ...

    def cancel(self) -> None:
        """Give the request up: nothing is called with a reply to its calls."""
        ...


class NodeClient(Protocol):
    """The client that sends the attempts at one node (dataplane.upstream.attempt.Attempt)."""

    def call(self, attempt: Any) -> None:
        """Send an attempt, alone or with others. `Attempt.settle` gets the reply within the attempt's timeout, and not
        before `call` has returned."""
        ...

    def leave(self, attempt: Any) -> None:
        """Forget an attempt that was given up."""
        ...


def _overdue(call: Hedged) -> None:
    call.overdue()


@dataclass(slots=True, kw_only=True)
class NodePool:
    """The nodes of one network and the means to reach them."""

    nodes: Sequence[Node]
    balancer: Balancer
    upstreams: Mapping[str, NodeClient]
    classify: Classify
    clock: Callable[[], float]
    rng: Random
    settings: DispatchSettings = field(default_factory=DispatchSettings)
    budget: Budget = field(default_factory=Budget)
    unclassed: OnUnclassed | None = None
    """Called with every error that no rule knows."""
    broadcast: BroadcastSettings = field(default_factory=BroadcastSettings)
    rooms: tuple[WaitQueue, ...] = field(default_factory=lambda: tuple(WaitQueue() for _ in Bulkhead))
    """The queues, by bulkhead, of calls for which every node has as many calls as it may have."""
    hedging: Hedging | None = None
    outliers: OutlierPolicy = field(default_factory=OutlierPolicy)
    most_lag: int = 0
    """Blocks that a machine hidden behind a node's URL is believed to be behind at most."""
    cells: Mapping[str, NodeCell] = field(default_factory=dict)
    """The counters of each node, by its id."""
    hedged: Deadlines[Hedged] = field(default_factory=lambda: Deadlines(_overdue))
    """Calls that wait for one node and may be sent to another as well, and when the attempt of each is overdue."""

    def free(self, bulkhead: Bulkhead, count: int, *, full: bool) -> None:
        """Let as many calls as ended at a node look for room again.

        Args:
            full: the node had as many calls as it may have, so that calls of any bulkhead waited for it.
        """
        if full or bulkhead is not Bulkhead.LIGHT:  # a place of another bulkhead is a place for light calls, too
            for room in self.rooms:
                room.free(count)
        else:
            self.rooms[bulkhead].free(count)

    def abandon(self, node_id: str, *, silent: bool = True) -> None:
        """Let the calls that wait for a node that was left alone go to others; those that may take long only when it is
        `silent`: it replies to nothing."""
        for call in [call for call in self.hedged if call.waits_for == node_id]:
            call.abandon(silent=silent)
