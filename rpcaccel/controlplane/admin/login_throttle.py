"""Logins that fail: passwords are compared one at a time, answers to wrong ones are delayed, and what is said of them
is bounded.

Behind a reverse proxy that is not trusted every client has the proxy's address, so wrong passwords of others must not
delay a right one. A right password cannot be told from a wrong one before it is compared, so comparing fewer passwords
of one address would keep right ones out as well. Only the answer to a wrong password is delayed, which slows the next
guess of the same client; the answer to a right one never is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from math import ceil

import structlog

from rpcaccel.controlplane.admin.handling import ProblemError
from rpcaccel.controlplane.stats.events import Events
from rpcaccel.core.wire.forwarded_for import holder

FREE_TRIES = 5
"""Wrong passwords from one address within TRIES_SECONDS, before the answers to further ones are held."""
TRIES_SECONDS = 60.0
PAUSE_SECONDS = 1.0
"""Seconds between two answers to wrong passwords from one address, when they are held."""
MAX_HOLD_SECONDS = 45.0
"""Seconds that an answer is held at the most. Many reverse proxies give up after 60."""
MAX_HELD = 512
"""Answers held at one time; what is more is answered at once."""
MAX_WAITING_OF_ADDRESS = 256
"""Passwords from one address that may wait for their turn."""
MAX_WAITING = 1024
COMPARISON_SECONDS = 0.1
"""Seconds that a comparison takes, about. A comparison needs 32 MiB and a whole processor, so there is one at a time.
"""
_LANES = 2 * MAX_WAITING
"""Addresses that are remembered: more than passwords may wait."""

MAX_LOGIN_LINES = 20
"""Failed logins that are logged within LOGIN_LINES_SECONDS; further ones are counted in the next line."""
LOGIN_LINES_SECONDS = 60.0
MAX_ACCOUNT_NAME = 64
"""The longest name of an account, in characters."""

log = structlog.get_logger("rpcaccel.admin")

Sleep = Callable[[float], Awaitable[object]]


def never() -> bool:
    """Stands in for callers that cannot tell whether the client has closed its connection."""
    return False


class _Lane:
    """The queue of passwords from one address. The newest and the oldest are compared in turn: the newest, so that a
    right password passes a crowd that came before it, and the oldest, so that none waits for ever."""

    __slots__ = ("_busy", "_newest", "_queue", "failed", "told")

    def __init__(self) -> None:
        self.failed: list[float] = []
        """The times of the last wrong passwords (monotonic seconds), FREE_TRIES at the most."""
        self.told = 0.0
        """When the last of the held answers is sent (monotonic seconds)."""
        self._queue: deque[asyncio.Future[None]] = deque()
        self._busy = False
        self._newest = False

    @property
    def waiting(self) -> int:
        """The number of passwords that wait for their turn."""
        return len(self._queue)

    @property
    def idle(self) -> bool:
        """Whether no password is being compared or waits."""
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
                self._next()  # its turn had come when it was cancelled
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
    """Decides when a password is compared and when its answer is sent. Its memory is bounded."""

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
        """Compare a password from this address when its turn comes, and hold the answer to a wrong one. `compare`
        returns whether the password was right; None when the result was known by then. Clients that have `gone` are
        passed over. Raises ProblemError when too many passwords wait."""
        lane = self._lane(holder(remote))
        if lane.waiting >= MAX_WAITING_OF_ADDRESS or self._waiting >= MAX_WAITING:
            raise ProblemError(
                429, "too-many-logins", headers={"Retry-After": str(ceil(self._waiting * COMPARISON_SECONDS))}
            )
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
        """Wait until the answer to a wrong password may be sent."""
        now = self._clock()
        slow = len(lane.failed) == FREE_TRIES and now - lane.failed[0] < TRIES_SECONDS
        lane.failed = [*lane.failed, now][-FREE_TRIES:]
        if not slow or self._held >= MAX_HELD:
            return
        lane.told = min(max(lane.told, now) + PAUSE_SECONDS, now + MAX_HOLD_SECONDS)
        self._held += 1
        try:
            await self._sleep(lane.told - now)
        finally:
            self._held -= 1

    def _lane(self, address: str) -> _Lane:
        """The lane of an address. Idle lanes that were used least lately are dropped when there are too many."""
        lane = self._lanes.pop(address, None) or _Lane()
        self._lanes[address] = lane
        while len(self._lanes) > _LANES:
            oldest = next(iter(self._lanes))
            kept = self._lanes.pop(oldest)
            if not kept.idle:
                self._lanes[oldest] = kept
        return lane


class FailedLogins:
    """Tells the log and the event stream of each login that fails, within bounds."""

    def __init__(self, events: Events, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._events = events
        self._clock = clock
        self._wall = wall
        self._since = -LOGIN_LINES_SECONDS
        self._told = 0
        self._left_out = 0

    def __repr__(self) -> str:
        return f"<FailedLogins {self._told} told, {self._left_out} left out>"

    def tell(self, name: str, remote: str, why: str) -> None:
        """Log a failed login. The name may come from a stranger, so it is cut and escaped."""
        now = self._clock()
        if now - self._since >= LOGIN_LINES_SECONDS:
            self._since, self._told = now, 0
        if self._told >= MAX_LOGIN_LINES:
            self._left_out += 1
            return
        self._told += 1
        about: dict[str, str | int] = {"user": ascii(name[:MAX_ACCOUNT_NAME])[1:-1], "address": remote, "why": why}
        if self._left_out:
            about["left_out"], self._left_out = self._left_out, 0
        log.warning("a login failed", **about)
        self._events.tell("login", {**about, "at": self._wall()})
