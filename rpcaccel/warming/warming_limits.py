"""What bounds a job: how fast it calls, what it leaves of the nodes' quotas, and how far up the chain it may go.

Times are seconds on the caller's clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from math import ceil, inf
from typing import Any, NamedTuple

MAX_PAUSE_SECONDS = 60.0
"""The longest pause that the job makes of its own accord."""
QUOTA_LOOK_SECONDS = 5.0
"""Seconds between two looks at the use of quotas. The use that the proxy tells has the calls of the time before that in
it: workers tell theirs once a second."""
UNKNOWN = "the use of the nodes' quotas is not known yet"


def backoff(times: int) -> float:
    """Seconds to wait after a call has failed so many times (from 1) in a row."""
    return min(2.0 ** min(times - 1, 16), MAX_PAUSE_SECONDS)


class Pace:
    """The times at which calls may be made: at a rate, and not during pauses."""

    __slots__ = ("_every", "_held", "_next")

    def __init__(self, rate: float = 0.0) -> None:
        """`rate`: calls a second; 0: as many as there may be."""
        self._every = 1 / rate if rate else 0.0
        self._next = self._held = -inf

    def wait(self, now: float) -> float:
        """Seconds until the next call may be made; 0 or less: it may be made now."""
        return max(self._next, self._held) - now

    def take(self, now: float) -> None:
        """Note that a call is made. A timer that was a little late is made up for, a pause is not."""
        late = now - self._next
        self._next = (now if late > self._every else self._next) + self._every

    def hold(self, seconds: float, now: float) -> None:
        """Have no call made for so long."""
        self._held = max(self._held, now + seconds)


class Spare(NamedTuple):
    """What the job may spend."""

    calls: float = inf
    why: str = ""
    """The quota that allows no more."""


def spare(nodes: Iterable[Mapping[str, Any]], heavy: Mapping[str, float], leave: float) -> Spare:
    """The calls that may be made so that clients keep the share `leave` (0..1) of each quota; any number when they keep
    none, since the proxy itself stops at the quota.

    `nodes` are as the admin API tells them; `heavy` is the most units that a call counts as, by node.
    """
    found = [Spare()]
    for node in nodes if leave else ():
        for use in node["quota"]:
            free = use["limit"] * (1 - leave) - use["used"]
            left = max(0.0, 1 - use["used"] / use["limit"]) if use["limit"] else 0.0
            why = f"{node['id']} has {left:.0%} of its {use['window']}'s quota left, which renews at {use['renews']}"
            found.append(Spare(max(0.0, free) / max(1.0, heavy.get(node["id"], 1.0)), why))
    return min(found, key=lambda one: one.calls)


class QuotaGuard:
    """Hands out as many calls as the node with the least to spare can bear, and reads the use again now and then.

    The proxy decides which node a call goes to, and decides it anew for each, so any call may be at the expense of any
    node.
    """

    def __init__(self, read: Callable[[], Awaitable[Spare | None]]) -> None:
        """`read` returns None when the use cannot be learnt; what was known before goes on holding then."""
        self._read = read
        self._spent = 0.0
        """The calls handed out since the last look."""
        self.left = 0.0
        """The calls that may still be made."""
        self.why = UNKNOWN
        """Why there is nothing to spare; empty while there is."""

    @property
    def free(self) -> bool:
        """Whether a call may be made now."""
        return self.left >= 1

    def spend(self, calls: float = 1.0) -> None:
        """Note that a call is made; -1: that one cost no node anything."""
        self.left -= calls
        self._spent += calls

    async def look(self) -> None:
        """Read what there is to spare. The calls since the last look may not be in it yet, so they are taken off."""
        found = await self._read()
        if found is not None:
            self.left = found.calls - max(0.0, self._spent)
            self.why = "" if found.calls >= 1 else found.why
        self._spent = 0.0

    async def watch(self) -> None:
        """Look now and then, for ever."""
        while True:
            await asyncio.sleep(QUOTA_LOOK_SECONDS)
            await self.look()


async def newest_kept(kept: Callable[[int], Awaitable[bool]], head: int) -> int:
    """The newest block up to `head` for which `kept` says that the proxy keeps answers about it for good; -1 when there
    is none. Blocks below one that is kept are kept as well."""
    step, low = 1, head
    high = head + 1
    while low >= 0 and not await kept(low):
        high, low, step = low, low - step, 2 * step
    low = max(low, -1)
    while high - low > 1:
        middle = (low + high) // 2
        if await kept(middle):
            low = middle
        else:
            high = middle
    return low


def blocks_in_doubt(hidden_lag: float, block_time: float) -> int:
    """The blocks under the head about which an empty answer is not kept for good (architecture section 5), and one for
    methods that need the block after theirs."""
    return ceil(hidden_lag / block_time) + 1 if hidden_lag else 1
