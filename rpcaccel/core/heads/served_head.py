"""The served head of a network and what is known of its nodes, as the control plane tells them to the workers."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.core.heads.examination import Examination

Finality = Literal["instant", "tag", "depth"]
"""When a block is final: at once, when the `finalized` tag has passed it, or a number of blocks later."""


class Served(Struct, frozen=True):
    """The served head at one moment."""

    head: int = -1
    """Block number; -1 until a node has reported one."""
    final: int = -1
    """The highest final block; -1 when none is known. It goes back only on a chain that can reorganise, and only when
    the head falls below it or a final block was replaced."""
    fork_epoch: int = 0
    """Increases each time that served blocks may have been replaced; always 0 where blocks are final at once."""
    doubted: int = -1
    """The fork epoch since which final blocks are in doubt, because one was replaced, or because the head fell below
    them and perhaps to another chain. -1: never."""
    since: float = 0.0
    """Monotonic time at which `head` last changed (seconds)."""
    note: str = ""
    """A sentence for the operator when something is wrong with the head; else empty."""
    hash: str = ""
    """The hash of the block `head` on the served branch, in lower case; empty where no probe has told it, as on chains
    whose blocks are final at once."""


class NodeHead(Struct, frozen=True, kw_only=True):
    """What the probes know about one node."""

    id: str
    head: int = -1
    chain_ok: bool | None = None
    """Does the node serve the right chain and shard? None while that is not known."""
    says: dict[str, bool] = {}
    """Whether the node has a role, by its own report; only roles that it reports about."""
    answering: bool = False
    barred: str = ""
    """Why the node is shut out: its probes are refused, or its URL serves no JSON-RPC. Empty when it is not."""
    note: str = ""
    """A sentence for the operator; empty when there is nothing to say."""
    latency: float | None = None
    """Seconds of the last successful probe."""
    seen_at: float | None = None
    """Monotonic time of the last answered probe (seconds)."""
    behind: bool = False
    """Does the node lag for longer than a new block needs to reach it (core.heads.lateness)?"""
    pushes: bool = False
    """Does the node tell its new heads over a WebSocket now?"""
    place: int = 0
    """Where that WebSocket is, among the places that dataplane.upstream.node_socket.places names."""
    late: float = 0.0
    """Seconds after the served head that new blocks usually reach the node, where that makes it behind; else 0."""
    examining: bool = False
    """Is the node kept from calls of clients until it is examined?"""
    examination: Examination | None = None
    """What shadow calls showed of the node; None before its first examination has ended."""

    @property
    def looked_at(self) -> bool:
        """Has a first probe of the node ended? A failed one leaves its reason in `note`."""
        return self.answering or self.seen_at is not None or bool(self.note)


class NetworkHeads(Struct, frozen=True, kw_only=True):
    """Everything that workers need to know about the heads of one network."""

    network: str
    served: Served
    finalized: int = -1
    """The block that the `finalized` tag names; -1 when the chain has no such tag or the block is not known."""
    safe: int = -1
    """The block that the `safe` tag names, at least that of `finalized`; -1 likewise."""
    epoch: int = -1
    """A lower bound of the current epoch; -1 when the chain has no epochs or it is not known."""
    block_time: float | None = None
    """Seconds that a block takes by two headers or by the moves of the head, in two digits; None until that is
    known."""
    eth_chain_id: int | None = None
    network_id: int | None = None
    genesis: str | None = ""
    """The hash of block 0; empty when no node tells it, None when no node was asked yet."""
    block_one: str | None = ""
    """The hash of block 1, once it is final; empty when no node tells it, None when no node was asked since."""
    nodes: tuple[NodeHead, ...] = ()
    suspects: dict[str, tuple[str, ...]] = {}
    """By id of a node that others contradict more often than by chance: the methods about which they do. What the node
    answers is kept nowhere, and others are asked before it for these methods."""

    @property
    def essence(self) -> tuple[object, ...]:
        """Everything but times: what is published as soon as it changes."""
        return (replace(self, nodes=()), [replace(node, latency=None, seen_at=None, late=0.0) for node in self.nodes])
