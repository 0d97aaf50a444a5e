"""The nodes of one network and the means to reach them: what every way of asking them is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from rpcaccel.balancers import Balancer
from rpcaccel.core.answer import Answer
from rpcaccel.core.broadcast import BroadcastSettings
from rpcaccel.core.budget import Budget
from rpcaccel.core.cells import NodeCell
from rpcaccel.core.dispatch_settings import DispatchSettings
from rpcaccel.core.failure import Failure, FailureKind
from rpcaccel.core.hedging import Hedging
from rpcaccel.core.node import Node
from rpcaccel.core.outliers import OutlierSettings
from rpcaccel.core.rules import Bulkhead
from rpcaccel.dataplane.deadlines import Deadlines
from rpcaccel.dataplane.wait_queue import WaitQueue

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


class Upstream(Protocol):
    """What sends a call to one node. Never takes longer than `timeout` seconds, raises nothing but CancelledError."""

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        """One attempt."""
        ...


def _late(first: Late) -> None:
    first.late()


@dataclass(slots=True, kw_only=True)
class Pool:
    """The nodes of one network and the means to reach them."""

    nodes: Sequence[Node]
    balancer: Balancer
    upstreams: Mapping[str, Upstream]
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
    outliers: OutlierSettings = field(default_factory=OutlierSettings)
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
