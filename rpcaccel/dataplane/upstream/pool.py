"""The nodes of one network and the means to reach them: what every way of asking them is given.

Calls that wait for a node to have room again: in order, not too many, and not too long.

Many deadlines under one timer: most of what is waited for comes long before, so that a timer each would be made and
cancelled in vain.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Generic, Protocol, TypeVar

from rpcaccel.balancers import Balancer
from rpcaccel.core.dispatch.broadcast import BroadcastSettings
from rpcaccel.core.dispatch.commands import DispatchSettings, Hedging
from rpcaccel.core.dispatch.retry_budget import Budget
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.nodes.outliers import OutlierPolicy
from rpcaccel.core.plan.rules import Bulkhead
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.stats.counters import NodeCell

_LOOK_AGAIN = 0.05
"""Seconds: room also comes with time, where a node has a quota for each second."""
_LOOKERS = 16
"""Waiting calls for each of which that is no trouble; more of them look less often."""


class WaitQueue:
    """The waiting calls of one network and bulkhead."""

    __slots__ = ("_waiting", "most", "refused", "seconds")

    def __init__(self, most: int = 1000, seconds: float = 1.0) -> None:
        self.most = most
        """Calls that may wait; more are refused at once."""
        self.seconds = seconds
        """How long each may wait."""
        self.refused = 0
        """Calls for which no node came free in time, ever."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def __repr__(self) -> str:
        return f"<wait queue, {len(self)} calls waiting>"

    async def wait(self, seconds: float, *, again: bool = False) -> bool:
        """Wait for this call's turn, or until it is time to look again, at most `seconds`; False when there is no
        time left or no room to wait in.

        Args:
            again: it waited before: it stands in front of those that came later, and they do not fill its place.
        """
        if seconds <= 0 or (len(self._waiting) >= self.most and not again):
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._waiting.appendleft if again else self._waiting.append)(turn)
        try:
            await asyncio.wait([turn], timeout=min(seconds, _LOOK_AGAIN * (1 + len(self._waiting) / _LOOKERS)))
        except asyncio.CancelledError:
            if turn.done():
                self.free()  # the turn came and cannot be used: it is the next one's
            raise
        finally:
            if not turn.done():
                self._waiting.remove(turn)
        return True

    def free(self) -> None:
        """A call ended: who has waited longest may try again."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


T = TypeVar("T")
_EARLY = 0.001
"""Seconds: loops count in milliseconds, and a timer may come this much before its time."""


class Deadlines(Generic[T]):
    """Things, each with the time by which it is to be over; what is not gets `expired`. A thing has one deadline.

    There is a timer for the earliest time known when it was set, and none for the others: when it runs out, those
    that are left are looked through. With some hundred calls under way that is nothing beside a timer for each.
    """

    __slots__ = ("_armed", "_expired", "_timer", "_until")

    def __init__(self, expired: Callable[[T], None]) -> None:
        self._expired = expired
        self._until: dict[T, float] = {}
        self._armed = inf
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._until)

    def __iter__(self) -> Iterator[T]:
        return iter(self._until)

    def __repr__(self) -> str:
        return f"<deadlines of {len(self)}>"

    def add(self, thing: T, seconds: float) -> None:
        """It is to be over in so many seconds."""
        loop = asyncio.get_running_loop()
        until = self._until[thing] = loop.time() + seconds
        if until < self._armed:
            self._arm(loop, until)

    def drop(self, thing: T) -> None:
        """It is over; also when it never had a deadline."""
        self._until.pop(thing, None)

    def _arm(self, loop: asyncio.AbstractEventLoop, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed = until
        self._timer = loop.call_at(until, self._look)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._armed, self._timer = inf, None
        now = loop.time() + _EARLY
        due = [thing for thing, until in self._until.items() if until <= now]
        for thing in due:
            if self._until.pop(thing, None) is not None:  # those expired before it may have dropped it
                self._expired(thing)
        earliest = min(self._until.values(), default=inf)
        if earliest < self._armed:
            self._arm(loop, earliest)


Classify = Callable[[int, str, int], FailureKind]
"""Code, message and HTTP status of a node's error to its kind."""


Unclassed = Callable[[str, str, int, str, int], None]
"""Node, method, code, message and HTTP status of an error."""


class Deserted(Protocol):
    """A call that waits for a node, and is told when that node hangs."""

    def desert(self) -> None:
        """The node that the call waits for was found to hang."""
        ...


class Late(Deserted, Protocol):
    """A first attempt, beside which another node may be asked."""

    @property
    def node_id(self) -> str:
        """The id of the node that is waited for."""
        ...

    def late(self) -> None:
        """Start a hedge: the first attempt is overdue."""
        ...


Done = Callable[[Answer | Failure], None]
"""Told the reply to a call, once, and not before the call that asked has returned. Must not raise."""


class UnderWay(Protocol):
    """A call that is on its way to a node."""

    def cancel(self) -> None:
        """Nobody wants the reply any more: nobody is told of one."""
        ...


class NodeClient(Protocol):
    """What sends a call to one node."""

    def call(self, method: str, params: bytes, *, timeout: float, done: Done, span: str = "") -> UnderWay:
        """One attempt: within `timeout` seconds `done` is told. Raises nothing.

        Args:
            span: what the node is told of the trace that the call belongs to; empty: nothing.
        """
        ...


def _late(first: Late) -> None:
    first.late()


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
    unclassed: Unclassed | None = None
    """Told of every error that no rule knows."""
    broadcast: BroadcastSettings = field(default_factory=BroadcastSettings)
    rooms: tuple[WaitQueue, ...] = field(default_factory=lambda: tuple(WaitQueue() for _ in Bulkhead))
    """Where the calls of each bulkhead wait when every node has as many of them as it may have."""
    hedging: Hedging | None = None
    outliers: OutlierPolicy = field(default_factory=OutlierPolicy)
    most_lag: int = 0
    """Blocks that a machine hidden behind a node's URL is believed to be behind at most."""
    cells: Mapping[str, NodeCell] = field(default_factory=dict)
    """Where the attempts of a node are counted, by its id."""
    late: Deadlines[Late] = field(default_factory=lambda: Deadlines(_late))
    """First attempts that may be asked of another as well, and when a hedge beside each is due, if ever."""
    waiting: dict[str, set[Deserted]] = field(default_factory=dict)
    """The calls whose first attempt a node has, by its id, as far as they may be asked of another as well."""

    def desert(self, node_id: str) -> None:
        """A node was found to hang: what waits for it goes to others, as far as the budget reaches."""
        for first in [late for late in self.late if late.node_id == node_id]:
            self.late.drop(first)
            first.desert()
        for hedge in tuple(self.waiting.get(node_id, ())):
            hedge.desert()
