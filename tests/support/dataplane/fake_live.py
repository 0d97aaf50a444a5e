"""Stands in for what a hub has around it: the follower of a network, and the connection of a client."""

from __future__ import annotations

import json
from typing import Any

from rpcaccel.core.heads.served_head import NetworkHeads, Served
from rpcaccel.core.messages import Announced
from rpcaccel.core.stats.counters import NetworkCell
from rpcaccel.dataplane.engine.engine import Engine
from rpcaccel.dataplane.live.follower import Follower
from rpcaccel.dataplane.live.live_session import LiveSubscription
from rpcaccel.dataplane.live.pending import PendingTransactions
from rpcaccel.dataplane.live.topics import Topics
from rpcaccel.dataplane.networks.network import Network


class FakeFollower(Follower):
    """Lets subscriptions join at once, and notes what it is told."""

    def __init__(
        self, network: Network, _engine: Engine, topics: Topics, cell: NetworkCell, _clock: object, **_: Any
    ) -> None:
        self.network = network
        self.topics = topics
        self.cell = cell
        self.begun: list[LiveSubscription] = []
        self.changes = 0
        self.seen: list[Served] = []
        self.told: list[Announced] = []
        self.closed = False
        self.holds_back = False
        """Do subscriptions that begin not join yet?"""

    def adopt(self, network: Network) -> None:
        self.network = network

    def begin(self, subscription: LiveSubscription) -> None:
        self.begun.append(subscription)
        if not self.holds_back:
            self.topics.add(subscription)

    def ended(self, subscription: LiveSubscription) -> None:
        self.changes += 1

    def look(self, served: Served) -> None:
        self.seen.append(served)

    def announced(self, header: Announced) -> None:
        self.told.append(header)

    async def close(self) -> None:
        self.closed = True


class FakePending(PendingTransactions):
    """Notes whether pending transactions are wanted."""

    def __init__(self, _network: Network, _engine: Engine, topics: Topics, **_: Any) -> None:
        self.topics = topics
        self.wanted = False

    def want(self, *, wanted: bool) -> None:
        self.wanted = wanted

    def adopt(self, network: Network) -> None:
        """Do nothing."""

    def see(self, heads: NetworkHeads) -> None:
        """Do nothing."""

    async def close(self) -> None:
        self.wanted = False


class FakeSink:
    """Keeps what is sent to a client."""

    def __init__(self, queue: int = 4 << 20) -> None:
        """`queue`: bytes that the client may leave unread."""
        self.queue = queue
        self.sent: list[bytes] = []
        self._results: list[Any] = []
        self.closed: list[tuple[int, str]] = []
        self.unread = 0
        self.stalls_in = 0
        """Notifications after which the client reads no more; 0: it goes on."""
        self.alive = True

    def notify(self, *parts: bytes) -> bool:
        if self.alive:
            self.sent.append(b"".join(parts))
            if self.stalls_in == 1:
                self.unread = 1 << 20
            self.stalls_in = max(0, self.stalls_in - 1)
        return self.alive

    def close(self, code: int, reason: str) -> None:
        self.alive = False
        self.closed.append((code, reason))

    @property
    def results(self) -> list[Any]:
        """The results in the notifications that were sent; the list grows with them."""
        self._results += [json.loads(text)["params"]["result"] for text in self.sent[len(self._results) :]]
        return self._results
