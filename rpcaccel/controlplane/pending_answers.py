"""The answers of a worker that somebody awaits, each under the number its order went out with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple, TypeVar

from rpcaccel.core.messages import Adopted, Explained, PurgeDone, Recorded, Started

Answer = Started | Adopted | PurgeDone | Explained | Recorded
A = TypeVar("A", Started, Adopted, PurgeDone, Explained, Recorded)


class _Waiting(NamedTuple):
    future: asyncio.Future[Any]
    otherwise: Answer


class PendingAnswers:
    """Nobody waits for ever: when the link ends, each gets the answer that was to be taken otherwise."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._open = False

    def __repr__(self) -> str:
        return f"<PendingAnswers {len(self._waiting) if self._open else 'none any more'}>"

    def begin(self) -> None:
        """From here on there is somebody who answers."""
        self._open = True

    async def answer(self, send: Callable[[int], None], otherwise: A) -> A:
        """Send an order under a number of its own and wait for the answer; `otherwise` when none can come any more."""
        if not self._open:
            return otherwise
        number = next(self._numbers)
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting[number] = _Waiting(future, otherwise)
        try:
            send(number)
            return await future
        finally:
            self._waiting.pop(number, None)

    def settle(self, answer: Answer) -> None:
        """An answer came; one that nobody awaits any more is dropped.

        Raises ValueError when it is not of the kind that was asked for.
        """
        waiting = self._waiting.get(answer.number)
        if waiting is None:
            return
        if type(answer) is not type(waiting.otherwise):
            raise ValueError(f"{type(answer).__name__} as the answer where {type(waiting.otherwise).__name__} was due")
        if not waiting.future.done():
            waiting.future.set_result(answer)

    def end(self) -> None:
        """No answer will come any more."""
        self._open = False
        for future, otherwise in self._waiting.values():
            if not future.done():
                future.set_result(otherwise)
