"""What the admin side looks at: one port towards the supervisor, and the values it hands out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from rpcaccel.controlplane.errors import ErrorQuestion
from rpcaccel.core.quota import QuotaUse
from rpcaccel.core.tally import TallySnapshot
from rpcaccel.core.unclassed import UnclassedError

NodeState = Literal["serving", "behind", "parked", "failing", "wrong-chain", "cordoned", "drained", "unknown"]
"""One word for what a node is doing; `why` says the rest."""


class NodeView(Struct, frozen=True, kw_only=True):
    """One node as the control plane knows it."""

    network: str
    id: str
    address: str = ""
    """Host and port alone: a path, query or user may hold a credential."""
    weight: int = 1
    eligible: bool = True
    """Does it take calls about the newest blocks now, or will it as soon as it has the block that just came?"""
    state: NodeState = "unknown"
    why: str = ""
    """A sentence, with what would end the state: "14 blocks behind; it gets no calls about newer blocks"."""
    since: float | None = None
    """Seconds it has been in this state."""
    head: int = -1
    head_age: float | None = None
    """Seconds since its head last moved."""
    lag: int | None = None
    """Blocks behind the served head; None when its head is not known."""
    roles: tuple[str, ...] = ()
    """What the operator says it has."""
    says: Mapping[str, bool] = {}
    """Which of the roles that it speaks of it has, by its own word."""
    tier: int = 0
    limit: int = 0
    """Calls it may have at once, all workers together; 0 when not known."""
    quota: tuple[QuotaUse, ...] = ()
    """What is used of each quota it has, all workers together."""


class HeadView(Struct, frozen=True, kw_only=True):
    """One network: its served head and how it is balanced."""

    network: str
    chain: str
    shard: int = 0
    balancer: str = ""
    head: int = -1
    age: float | None = None
    """Seconds since the served head last moved."""
    block_time: float = 2.0
    """Seconds that a block of this chain takes, normally."""
    note: str = ""
    """A sentence when something is unusual: "the nodes at the head are gone; following the best left"."""


class WorkerView(Struct, frozen=True, kw_only=True):
    """One worker process; in the supervisor's own process when there is a single one."""

    id: str
    pid: int
    revision: int = 0
    uptime: float = 0.0
    """Seconds."""


class Notice(Struct, frozen=True):
    """Something to look at, in a sentence."""

    level: Literal["bad", "warn"]
    subject: str
    text: str


class View(Protocol):
    """What the supervisor shows. Every method is synchronous and cheap: it reads what is there."""

    def frame(self) -> Frame:
        """All of it in one go."""
        ...

    def snapshot(self) -> TallySnapshot:
        """The merged tally of all workers, gone ones included, so that no counter ever falls; not to be written to."""
        ...

    def nodes(self) -> Sequence[NodeView]:
        """Every node of every network, in the order of the settings."""
        ...

    def heads(self) -> Sequence[HeadView]:
        """Every network, in the order of the settings."""
        ...

    def workers(self) -> Sequence[WorkerView]:
        """The workers that run."""
        ...

    def replaced(self) -> Mapping[str, int]:
        """How many workers were replaced since the start, by why: died, unresponsive."""
        ...

    def errors(self) -> Sequence[UnclassedError]:
        """Errors of nodes that no rule knew, of all workers."""
        ...

    def treatment(self, question: ErrorQuestion) -> Mapping[str, object]:
        """What would be done with an error; raises ValueError for a question that makes no sense."""
        ...

    def settings(self) -> Mapping[str, object]:
        """The settings as plain JSON values, secrets masked."""
        ...

    def notices(self) -> Sequence[Notice]:
        """What should be looked at beyond what nodes, heads and tiers show."""
        ...


class Frame(Struct, frozen=True, kw_only=True):
    """Everything to be shown, read in one go so that its parts agree."""

    snapshot: TallySnapshot
    nodes: tuple[NodeView, ...]
    heads: tuple[HeadView, ...]
    workers: tuple[WorkerView, ...]
    notices: tuple[Notice, ...] = ()
    replaced: Mapping[str, int] = {}


def look(view: View) -> Frame:
    """What `view.frame` is made of."""
    return Frame(
        snapshot=view.snapshot(),
        nodes=tuple(view.nodes()),
        heads=tuple(view.heads()),
        workers=tuple(view.workers()),
        notices=tuple(view.notices()),
        replaced=dict(view.replaced()),
    )
