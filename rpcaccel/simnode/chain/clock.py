"""The time of simulated nodes: their clock, and the two ways in which a chain's head moves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Monotonic seconds, and a way to wait for them."""

    def now(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return once `seconds` have passed on this clock."""
        ...


class WallClock:
    """The machine's own monotonic clock."""

    __slots__ = ()

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the event loop."""
        await asyncio.sleep(seconds)


class HeadSchedule(Protocol):
    """The movement of the head of a simulated chain."""

    def head(self, skew: float = 0.0) -> int:
        """The newest block that a node `skew` seconds behind has seen."""
        ...

    def due(self, skew: float = 0.0) -> float | None:
        """Seconds until such a node sees the next block; None when the head does not move by itself."""
        ...


class ByHand:
    """A head that a test moves by hand; skew does not matter."""

    __slots__ = ("number",)

    def __init__(self, start: int = 200) -> None:
        self.number = start

    def head(self, skew: float = 0.0) -> int:  # noqa: ARG002 - the port's signature
        """The block to which a test moved the head."""
        return self.number

    def due(self, skew: float = 0.0) -> None:
        """No time: a test moves the head."""


class ByClock:
    """One block every `block_time` seconds since `genesis` (unix seconds).

    The head is a function of the date alone, so that simulated nodes in different processes agree without a word.
    """

    __slots__ = ("_block_time", "_genesis", "_offset", "_seconds")

    def __init__(self, *, genesis: float, block_time: float, seconds: Callable[[], float] | None = None) -> None:
        self._genesis = genesis
        self._block_time = block_time
        # The date is read once: a clock that is set back while we run must not take blocks away.
        self._seconds = seconds or time.monotonic
        self._offset = 0.0 if seconds else time.time() - time.monotonic()

    def head(self, skew: float = 0.0) -> int:
        """The newest block whose time came `skew` seconds ago."""
        return max(0, int(self._age(skew) // self._block_time))

    def due(self, skew: float = 0.0) -> float:
        """Seconds until the block above `head(skew)`."""
        return (self.head(skew) + 1) * self._block_time - self._age(skew)

    def _age(self, skew: float) -> float:
        """Seconds since `genesis` for a node `skew` seconds behind."""
        return self._seconds() + self._offset - self._genesis - skew
