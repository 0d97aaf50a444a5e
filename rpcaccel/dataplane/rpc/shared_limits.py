"""Clients' limits over several workers and hosts.

Each worker holds a client to the full rate by itself, and tells the others, a few times a second and in the background,
what the client has spent: that is then taken from the client's bucket there. So no call ever waits for another machine,
and a client gets at most its rate times the time between two exchanges more than it should from each further worker.
Without an answer from Redis every worker goes on alone, and counts that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from rpcaccel.core.client_limits import Client
from rpcaccel.core.messages import Spent
from rpcaccel.core.stats.tally import Tally

EVERY = 0.2
"""Seconds between two exchanges."""
AFTER = 5.0
"""Seconds after its last request for which a client takes part in exchanges."""

Exchange = Callable[[Mapping[bytes, int]], Awaitable[dict[bytes, int] | None]]
"""Takes the tokens that each client spent here, and returns those it spent elsewhere; None when that is unknown."""


class SharedLimits:
    """Exchanges what clients spent between this worker and others."""

    def __init__(
        self, clients: Callable[[], Iterable[tuple[str, Client]]], clock: Callable[[], float], tally: Tally
    ) -> None:
        """`clients` returns all known clients, each with the name that all workers have for the same client."""
        self._clients = clients
        self._clock = clock
        self._tally = tally

    async def settle(self, exchange: Exchange) -> None:
        """Make one exchange for the clients that called lately."""
        now = self._clock()
        active = {
            name.encode(): client
            for name, client in self._clients()
            if client.shares and (client.spent or now - client.seen_at < AFTER)
        }
        if not active:
            return
        others = await exchange({name: client.settle() for name, client in active.items()})
        if others is None:
            self._tally.limits_alone += 1
            return
        self.charge({name.decode(): tokens for name, tokens in others.items() if tokens})

    def charge(self, tokens: Mapping[str, int]) -> None:
        """Take tokens that clients spent elsewhere. Clients that are not known here are left out."""
        if not tokens:
            return
        now = self._clock()
        for name, client in self._clients():
            if name in tokens:
                client.charge(tokens[name], now)

    async def run(self, exchange: Exchange) -> None:
        """Exchange until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            await self.settle(exchange)


class Neighbours:
    """Exchanges with the other workers of this host, through the supervisor. What they spent comes to `charge`."""

    def __init__(self, tell: Callable[[Spent], None]) -> None:
        self._tell = tell

    async def exchange(self, spent: Mapping[bytes, int]) -> dict[bytes, int] | None:
        """Send what was spent here; nothing is known yet of what was spent elsewhere."""
        tokens = {name.decode(): count for name, count in spent.items() if count}
        if tokens:
            self._tell(Spent(tokens))
        return {}
