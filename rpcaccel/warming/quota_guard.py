"""Leaves the clients of a proxy their part of the nodes' quotas.

The proxy decides which node a call goes to, and decides it anew for each: by route and role, and by tier as nodes
refuse, fill up and come back within a second. So any call may be at the expense of any node, and the guard hands out as
many calls as the node with the least to spare can bear, and reads the use again when they are spent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from math import inf

from msgspec import Struct

EVERY = 5.0
"""Seconds between two looks at the use of quotas."""
SETTLE = 3.0
"""Seconds after which the use that the proxy tells has every call in it: workers tell theirs once a second."""
UNKNOWN = "the use of the nodes' quotas is not known yet"


class QuotaPart(Struct, frozen=True, kw_only=True):
    """The use of one quota of one node."""

    node: str
    window: str
    used: float
    limit: float
    renews: str
    """When the quota renews, as a text for the operator."""
    heavy: float = 1.0
    """The number of calls that a call of a heavy method counts as."""


class Spare(Struct, frozen=True):
    """What the job may spend."""

    calls: float = inf
    why: str = ""
    """The quota that allows no more."""


def spare(parts: Iterable[QuotaPart], leave: float) -> Spare:
    """The calls that may be made so that clients keep the share `leave` (0..1) of each quota; any number when they keep
    none, since the proxy itself stops at the quota."""
    if not leave:
        return Spare()
    return min((_of(part, leave) for part in parts), key=lambda found: found.calls, default=Spare())


def _of(part: QuotaPart, leave: float) -> Spare:
    free = part.limit * (1 - leave) - part.used
    left = max(0.0, 1 - part.used / part.limit) if part.limit else 0.0
    why = f"{part.node} has {left:.0%} of its {part.window}'s quota left, which renews at {part.renews}"
    return Spare(max(0.0, free) / max(1.0, part.heavy), why)


class QuotaGuard:
    """Hands out calls, and reads what there is to spare now and then."""

    def __init__(self, read: Callable[[], Awaitable[Spare | None]]) -> None:
        """`read` returns None when the use cannot be learnt; what was known before goes on holding then."""
        self._read = read
        self._left = 0.0
        self._spent = 0.0
        """The calls handed out since the last look."""
        self.why = UNKNOWN
        """Why there is nothing to spare; empty while there is."""
        self._empty = asyncio.Event()

    def __repr__(self) -> str:
        return f"<QuotaGuard {self._left:g} calls left>"

    @property
    def free(self) -> bool:
        """May a call be made now?"""
        return self._left >= 1

    def spend(self) -> None:
        """Note that a call is made."""
        self._left -= 1
        self._spent += 1
        if not self.free:
            self._empty.set()

    def give_back(self) -> None:
        """Note that a call cost no node anything."""
        self._left += 1
        self._spent -= 1

    async def look(self) -> None:
        """Read what there is to spare. The calls of the last seconds may not be in it yet, so they are taken off."""
        found = await self._read()
        if found is not None:
            self._left = found.calls - max(0.0, self._spent)
            self.why = "" if found.calls >= 1 else found.why
        self._spent = 0.0

    async def watch(self) -> None:
        """Look now and then, for ever, and soon when everything is spent."""
        while True:
            self._empty.clear()
            try:
                async with asyncio.timeout(EVERY if self.free or self.why else SETTLE):
                    await self._empty.wait()
                await asyncio.sleep(SETTLE)
                self._spent = 0.0  # no call was made meanwhile, so the use that is read now has them all
            except TimeoutError:
                pass
            await self.look()
