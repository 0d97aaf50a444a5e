"""How passwords are tried: wrong ones are slowed down, one after the other, and no right one is ever locked out.

What has been tried is counted by account and address. Behind a reverse proxy that is not trusted every client has the
proxy's address, so a count alone must not turn anybody away: who has been wrong too often waits for a second before the
next password is looked at, and no longer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

from rpcaccel.controlplane.problem import ProblemError
from rpcaccel.core.address import holder

TRIES = 5
"""Wrong passwords for one account from one address within WITHIN seconds, before the next ones are slowed down."""
WITHIN = 60.0
PAUSE = 1.0
"""Seconds between two passwords for one account from one address, when they are slowed down."""
WAITING = 16
"""Passwords for one account from one address that may wait to be looked at."""
WAITING_OF_ADDRESS = 64
WAITING_OF_ALL = 256
_AT_ONCE = 1
"""Passwords compared at the same time: each takes 32 MiB and all of a processor for a tenth of a second."""
_LANES = 1000

Sleep = Callable[[float], Awaitable[object]]


class _Lane:
    """What has been tried for one account from one address."""

    __slots__ = ("failed", "looking", "not_before", "waiting")

    def __init__(self) -> None:
        self.failed: list[float] = []
        """When, in monotonic seconds; the last TRIES at the most."""
        self.waiting = 0
        self.looking = asyncio.Lock()
        """Held by the password that is looked at, so that many for one account do not hold up other accounts."""
        self.not_before = 0.0


class Tries:
    """Says when a password may be looked at. Nothing that strangers send makes it grow beyond its bounds."""

    def __init__(self, clock: Callable[[], float], sleep: Sleep = asyncio.sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._lanes: dict[tuple[str, str], _Lane] = {}
        self._waiting: Counter[str] = Counter()
        self._comparing = asyncio.Semaphore(_AT_ONCE)

    def __repr__(self) -> str:
        return f"<Tries {self._waiting.total()} waiting>"

    @contextlib.asynccontextmanager
    async def turn(self, account: str, remote: str) -> AsyncIterator[None]:
        """Wait until a password of this account from this address may be looked at.

        Raises ProblemError when too many wait already.
        """
        address = holder(remote)
        lane = self._lane(account, address)
        of_address, of_all = self._waiting[address], self._waiting.total()
        if lane.waiting >= WAITING or of_address >= WAITING_OF_ADDRESS or of_all >= WAITING_OF_ALL:
            raise ProblemError(429, "too-many-logins", headers={"Retry-After": str(round(WAITING * PAUSE))})
        lane.waiting += 1
        self._waiting[address] += 1
        try:
            async with lane.looking:
                if (wait := lane.not_before - self._clock()) > 0:
                    await self._sleep(wait)
                async with self._comparing:
                    yield
        finally:
            lane.waiting -= 1
            self._waiting -= Counter((address,))  # which forgets the addresses that have none waiting

    def right(self, account: str, remote: str) -> None:
        """It was the account's password."""
        lane = self._lane(account, holder(remote))
        lane.failed, lane.not_before = [], 0.0

    def wrong(self, account: str, remote: str) -> None:
        """It was not."""
        now, lane = self._clock(), self._lane(account, holder(remote))
        lane.failed = [*(at for at in lane.failed if now - at < WITHIN), now][-TRIES:]
        if len(lane.failed) >= TRIES:
            lane.not_before = now + PAUSE

    def _lane(self, account: str, address: str) -> _Lane:
        """The lane, which is then the last to be forgotten; one in which somebody waits is not forgotten."""
        lane = self._lanes.pop((account, address), None) or _Lane()
        self._lanes[account, address] = lane
        while len(self._lanes) > _LANES:
            oldest = next(iter(self._lanes))
            kept = self._lanes.pop(oldest)
            if kept.waiting:
                self._lanes[oldest] = kept
        return lane
