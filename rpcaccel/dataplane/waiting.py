"""What will be made of an outcome that is on its way: a caller's own wait for a flight, without a task.

Each room adds what it does with the outcome (`then`); who holds the result at last either awaits it, or adds a callback
to `future` and calls `finish` there. Cancelling `future` ends this caller's wait and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from rpcaccel.core.outcome import Outcome

T = TypeVar("T")
U = TypeVar("U")


class Waiting(Generic[T]):
    """A T to come, made from an Outcome to come."""

    __slots__ = ("finish", "future")

    def __init__(self, future: asyncio.Future[Outcome], finish: Callable[[Outcome], T]) -> None:
        self.future = future
        self.finish = finish

    def __repr__(self) -> str:
        return f"<waiting, {'landed' if self.future.done() else 'under way'}>"

    def __await__(self) -> Generator[Any, None, T]:
        outcome = yield from self.future.__await__()
        return self.finish(outcome)

    def then(self, make: Callable[[T], U]) -> Waiting[U]:
        """The same wait, with more made of what comes."""
        finish = self.finish
        return Waiting(self.future, lambda outcome: make(finish(outcome)))
