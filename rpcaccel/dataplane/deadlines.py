"""Many deadlines under one timer: most of what is waited for comes long before, so that a timer each would be made and
cancelled in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from math import inf
from typing import Generic, TypeVar

T = TypeVar("T")
_EARLY = 0.001
"""Seconds: loops count in milliseconds, and a timer may come this much before its time."""


class Deadlines(Generic[T]):
    """Things, each with the time by which it is to be over; what is not gets `expired`. A thing has one deadline.

    There is a timer for the earliest time known when it was set, and none for the others: when it runs out, those
    that are left are looked through. With some hundred calls under way that is nothing beside a timer for each.
    """

    __slots__ = ("_armed", "_expired", "_timer", "_until")

    def __init__(self, expired: Callable[[T], None]) -> None:
        self._expired = expired
        self._until: dict[T, float] = {}
        self._armed = inf
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._until)

    def __iter__(self) -> Iterator[T]:
        return iter(self._until)

    def __repr__(self) -> str:
        return f"<deadlines of {len(self)}>"

    def add(self, thing: T, seconds: float) -> None:
        """It is to be over in so many seconds."""
        loop = asyncio.get_running_loop()
        until = self._until[thing] = loop.time() + seconds
        if until < self._armed:
            self._arm(loop, until)

    def drop(self, thing: T) -> None:
        """It is over; also when it never had a deadline."""
        self._until.pop(thing, None)

    def _arm(self, loop: asyncio.AbstractEventLoop, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed = until
        self._timer = loop.call_at(until, self._look)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._armed, self._timer = inf, None
        now = loop.time() + _EARLY
        due = [thing for thing, until in self._until.items() if until <= now]
        for thing in due:
            if self._until.pop(thing, None) is not None:  # those expired before it may have dropped it
                self._expired(thing)
        earliest = min(self._until.values(), default=inf)
        if earliest < self._armed:
            self._arm(loop, earliest)
