"""The state that each node of a chain has for itself: identity, peers, filters and rejected transactions."""

from __future__ import annotations

from collections import OrderedDict, deque
from random import Random
from typing import Any

from msgspec import Struct

from rpcaccel.simnode.chain.clock import Clock
from rpcaccel.simnode.chain.knobs import Knobs

RECEIPTS_KEPT = 32
"""Blocks whose receipts a node keeps in its cache."""


class Filter(Struct):
    """A filter that a client installed on this node."""

    kind: str
    """blocks, logs or pending."""
    criteria: dict[str, Any]
    next_block: int
    """The first block whose changes were not yet polled."""
    polled_at: float
    seen: set[bytes]


class Local:
    """One node's own facts; two nodes of one chain share none of them."""

    def __init__(self, name: str, knobs: Knobs, clock: Clock, rng: Random) -> None:
        self.name = name
        self.knobs = knobs
        self.clock = clock
        self.rng = rng
        self.filters: dict[str, Filter] = {}
        self.sink: deque[dict[str, Any]] = deque(maxlen=1024)
        """Rejected transactions, newest last."""
        self.arrived: dict[bytes, float] = {}
        """The time at which this node took a transaction from a client, by the eth hash of the transaction."""
        self.heard: dict[bytes, float] = {}
        """The time at which this node was first asked about a transaction of another node, by its eth hash. Gossip
        counts from then."""
        self._receipts: OrderedDict[int, bool] = OrderedDict()
        """Blocks whose receipts were read lately, the newest last, and whether an eth_getLogs spoiled them."""
        self.peer_id = "Qm" + "".join(rng.choices("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", k=44))
        self.peers = rng.randint(3, 30)

    def __repr__(self) -> str:
        return f"<Local {self.name} {self.peer_id[:8]}>"

    def read_receipts(self, number: int, *, spoil: bool = False) -> bool:
        """Note that the receipts of a block are read, and say whether an eth_getLogs spoiled them before."""
        spoiled = self._receipts.pop(number, False)
        self._receipts[number] = spoiled or spoil
        if len(self._receipts) > RECEIPTS_KEPT:
            self._receipts.popitem(last=False)
        return spoiled

    def token(self) -> str:
        """A new filter id, never the same on two nodes."""
        return hex(self.rng.getrandbits(127) | 1 << 126)
