"""The event stream: numbered events, which a reader can resume where it left off."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import Struct

MAX_KEPT_EVENTS = 500
"""Events that can be replayed."""
QUIET = 15.0
"""Seconds after which a comment line says that the stream is alive."""
MAX_UNREAD_EVENTS = 200
"""Events that a reader may be behind; a slower reader is cut off, and resumes with what it missed."""


class Event(Struct, frozen=True):
    """One event. Number 0 is for events of the moment, which are not kept."""

    number: int
    kind: str
    data: dict[str, Any]


class Subscription:
    """One reader of the stream. `missed` holds the events to be replayed, `complete` tells whether none is lost."""

    def __init__(self, missed: tuple[Event, ...], complete: bool) -> None:
        self.missed = missed
        self.complete = complete
        self.queue: asyncio.Queue[Event | None] = asyncio.Queue()


class Events:
    """The event stream of this run of the program."""

    def __init__(self, run: str = "", quiet: float = QUIET) -> None:
        self.run = run or secrets.token_hex(4)
        self.last = 0
        self._quiet = quiet
        self._kept: deque[Event] = deque(maxlen=MAX_KEPT_EVENTS)
        self._readers: set[Subscription] = set()

    def __repr__(self) -> str:
        return f"<Events {self.run}-{self.last}, {len(self._readers)} readers>"

    @property
    def readers(self) -> int:
        """The number of open streams."""
        return len(self._readers)

    def tell(self, kind: str, data: dict[str, Any], *, keep: bool = True) -> None:
        """Send an event to every reader, and with `keep` also to readers that resume later."""
        if keep:
            self.last += 1
        event = Event(self.last if keep else 0, kind, data)
        if keep:
            self._kept.append(event)
        for reader in list(self._readers):
            if reader.queue.qsize() >= MAX_UNREAD_EVENTS:
                self._readers.discard(reader)
                reader.queue.put_nowait(None)
            else:
                reader.queue.put_nowait(event)

    def subscribe(self, last: str = "") -> Subscription:
        """Subscribe behind the event with this id (`RUN-N`); without one, at the end of the stream."""
        run, _, number = last.rpartition("-")
        if not last:
            missed: tuple[Event, ...] = ()
            complete = True
        elif run != self.run or not number.isascii() or not number.isdigit() or int(number) > self.last:
            missed, complete = (), False
        else:
            missed = tuple(event for event in self._kept if event.number > int(number))
            complete = len(missed) == self.last - int(number)
        subscription = Subscription(missed, complete)
        self._readers.add(subscription)
        return subscription

    def leave(self, subscription: Subscription) -> None:
        self._readers.discard(subscription)

    def close(self) -> None:
        for reader in self._readers:
            reader.queue.put_nowait(None)
        self._readers.clear()

    async def frames(self, subscription: Subscription, hello: dict[str, Any]) -> AsyncIterator[bytes]:
        """The stream as bytes (HTML Living Standard, section 9.2), from `hello` to its end."""
        greeting = {"run": self.run, "last": self.last, "complete": subscription.complete, **hello}
        yield self._frame(Event(0, "hello", greeting))
        for event in subscription.missed:
            yield self._frame(event)
        while True:
            try:
                async with asyncio.timeout(self._quiet):
                    event_or_end = await subscription.queue.get()
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if event_or_end is None:
                return
            yield self._frame(event_or_end)

    def _frame(self, event: Event) -> bytes:
        number = f"id: {self.run}-{event.number}\n" if event.number else ""
        return f"{number}event: {event.kind}\ndata: ".encode() + msgspec.json.encode(event.data) + b"\n\n"
