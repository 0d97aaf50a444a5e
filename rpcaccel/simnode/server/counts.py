"""Counts the connections, requests and calls of a simulated node, so that a test can assert what a node was asked."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Any


class Counts:
    """Plain counters; `reset` starts them anew."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[Counts], bool], asyncio.Future[None]]] = []
        self.reset()

    def __repr__(self) -> str:
        return f"<Counts {self.calls} calls, {self.requests} requests, {self.connections} connections>"

    def reset(self) -> None:
        """Forget everything counted so far."""
        self.methods: Counter[str] = Counter()
        """Calls by method, including those in batches and those that met a fault."""
        self.requests = 0
        """HTTP requests with a JSON-RPC body."""
        self.batches = 0
        self.batch_items = 0
        self.notifications = 0
        self.connections = 0
        """TCP connections accepted."""
        self.sockets = 0
        """WebSockets opened."""
        self.refused = 0
        """Upgrades that opened none."""
        self.subscriptions = 0
        """Subscriptions made."""
        self.pushed = 0
        """Notifications sent."""
        self.faults: Counter[str] = Counter()
        """Faults met, by kind."""
        self.errors = 0
        """Error replies."""
        self.log: deque[tuple[str, bytes]] = deque(maxlen=1000)
        """The newest calls: method and raw params."""

    @property
    def calls(self) -> int:
        """All calls."""
        return self.methods.total()

    def asked(self, method: str) -> int:
        """Calls of one method."""
        return self.methods[method]

    async def until(self, reached: Callable[[Counts], bool]) -> None:
        """Wait until `reached(counts)` holds: `await node.counts.until(lambda c: c.asked("eth_call") == 2)`."""
        if not reached(self):
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((reached, done))
            await done

    def settle(self) -> None:
        """Wake the callers of `until` whose condition holds now."""
        for reached, done in [waiting for waiting in self._waiting if waiting[0](self)]:
            self._waiting.remove((reached, done))
            if not done.done():
                done.set_result(None)

    def view(self) -> dict[str, Any]:
        """Everything as plain JSON values, without the log."""
        return {
            "calls": self.calls,
            "methods": dict(sorted(self.methods.items())),
            "requests": self.requests,
            "batches": self.batches,
            "batch_items": self.batch_items,
            "notifications": self.notifications,
            "connections": self.connections,
            "sockets": self.sockets,
            "refused": self.refused,
            "subscriptions": self.subscriptions,
            "pushed": self.pushed,
            "errors": self.errors,
            "faults": dict(self.faults),
        }
