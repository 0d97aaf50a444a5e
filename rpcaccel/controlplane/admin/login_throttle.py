"""How passwords are tried: each waits for its turn, and after some wrong ones it is the bad news that is slowed down.

Behind a reverse proxy that is not trusted every client has the proxy's address, so nothing that others got wrong may
hold up a right password. Before a password is compared a right one cannot be told from a wrong one, so comparing fewer
of an address would keep right ones out as well. What can be slowed is how soon a client comes back: who is told that a
password is wrong waits for that answer, who is told that it is right does not.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from math import ceil

from rpcaccel.controlplane.admin.problems import ProblemError
from rpcaccel.core.wire.forwarded_for import holder

TRIES = 5
"""Wrong passwords from one address within WITHIN seconds, before the answers to further ones are held."""
WITHIN = 60.0
PAUSE = 1.0
"""Seconds between two answers to wrong passwords from one address, when they are held."""
HOLD = 45.0
"""Seconds that an answer is held at the most. Many reverse proxies give up after 60."""
HELD = 512
"""Answers held at one time; what is more is answered at once."""
WAITING_OF_ADDRESS = 256
"""Passwords from one address that may wait for their turn."""
WAITING_OF_ALL = 1024
TAKES = 0.1
"""Seconds that a comparison takes, about. It takes 32 MiB and all of a processor meanwhile: there is one at a time."""
_LANES = 2 * WAITING_OF_ALL
"""Addresses that are remembered: more than those from which somebody waits."""

Sleep = Callable[[float], Awaitable[object]]


def never() -> bool:
    """For callers that cannot tell whether the client has gone."""
    return False


class _Lane:
    """Where the passwords from one address wait. The newest and the oldest are let in by turns: the newest because it
    is then ahead of a crowd that came before it, the oldest so that nobody waits for ever."""

    __slots__ = ("_busy", "_newest", "_queue", "failed", "told")

    def __init__(self) -> None:
        self.failed: list[float] = []
        """When, in monotonic seconds; the last TRIES at the most."""
        self.told = 0.0
        """When the last of the held answers is told, in monotonic seconds."""
        self._queue: deque[asyncio.Future[None]] = deque()
        self._busy = False
        self._newest = False

    @property
    def waiting(self) -> int:
        """How many have not been let in."""
        return len(self._queue)

    @property
    def idle(self) -> bool:
        """Is nobody in, and nobody waiting?"""
        return not self._busy

    async def __aenter__(self) -> None:
        if not self._busy:
            self._busy = True
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                self._queue.remove(place)
            else:
                self._next()  # it was let in and cancelled at once
            raise

    async def __aexit__(self, *_: object) -> None:
        self._next()

    def _next(self) -> None:
        while self._queue:
            self._newest = not self._newest
            place = self._queue.pop() if self._newest else self._queue.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._busy = False


class Tries:
    """Says when a password is compared. Nothing that strangers send makes it grow beyond its bounds."""

    def __init__(self, clock: Callable[[], float], sleep: Sleep = asyncio.sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._lanes: dict[str, _Lane] = {}
        self._waiting = 0
        self._held = 0
        self._comparing = asyncio.Lock()
        """Addresses take turns: many passwords from one do not hold up another."""

    def __repr__(self) -> str:
        return f"<Tries {self._waiting} waiting, {self._held} held>"

    async def look(
        self, remote: str, compare: Callable[[], Awaitable[bool | None]], gone: Callable[[], bool] = never
    ) -> None:
        """Compare a password from this address when its turn comes, and hold the answer to a wrong one.

        `compare` says whether it was right; None when that was known by then, and nothing had to be compared. A client
        that has `gone` is passed over. Raises ProblemError when too many wait already.
        """
        lane = self._lane(holder(remote))
        if lane.waiting >= WAITING_OF_ADDRESS or self._waiting >= WAITING_OF_ALL:
            raise ProblemError(429, "too-many-logins", headers={"Retry-After": str(ceil(self._waiting * TAKES))})
        self._waiting += 1
        try:
            async with lane, self._comparing:
                right = None if gone() else await compare()
        finally:
            self._waiting -= 1
        if right:
            lane.failed, lane.told = [], 0.0
        elif right is not None:
            await self._hold(lane)

    async def _hold(self, lane: _Lane) -> None:
        """Wait until it may be told that a password was wrong."""
        now = self._clock()
        slow = len(lane.failed) == TRIES and now - lane.failed[0] < WITHIN
        lane.failed = [*lane.failed, now][-TRIES:]
        if not slow or self._held >= HELD:
            return
        lane.told = min(max(lane.told, now) + PAUSE, now + HOLD)
        self._held += 1
        try:
            await self._sleep(lane.told - now)
        finally:
            self._held -= 1

    def _lane(self, address: str) -> _Lane:
        """The lane, which is then the last to be forgotten; one in which somebody waits is not forgotten."""
        lane = self._lanes.pop(address, None) or _Lane()
        self._lanes[address] = lane
        while len(self._lanes) > _LANES:
            oldest = next(iter(self._lanes))
            kept = self._lanes.pop(oldest)
            if not kept.idle:
                self._lanes[oldest] = kept
        return lane
