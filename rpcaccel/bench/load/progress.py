"""The progress of a measurement, and the request to end it early."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
Progress = Callable[[str, float], None]
"""Takes what is being done, and the share of all that is done (0..1)."""


class StoppedError(Exception):
    """The measurement was stopped before there was anything to report."""


class Watch:
    """The progress of one measurement; `stop` is set to end it with what was measured so far."""

    def __init__(self, progress: Progress = lambda _text, _share: None, stop: asyncio.Event | None = None) -> None:
        self.stop = stop or asyncio.Event()
        self._progress = progress
        self._text = ""
        self._from = 0.0
        self._to = 1.0

    def __repr__(self) -> str:
        return f"<Watch {self._text!r}{' stopped' if self.stopped else ''}>"

    @property
    def stopped(self) -> bool:
        """Whether the measurement shall end."""
        return self.stop.is_set()

    def part(self, text: str, number: int, of: int) -> None:
        """Begin part `number` (from 0) of `of` parts."""
        self._text, self._from, self._to = text, number / of, (number + 1) / of
        self.at(0.0)

    def tell(self, text: str, share: float) -> None:
        """Show what is done now of a work without parts, and which share of all is done (0..1)."""
        self._text = text
        self.at(share)

    def at(self, share: float) -> None:
        """Show that this share of the current part is done (0..1)."""
        self._progress(self._text, self._from + (self._to - self._from) * min(1.0, share))

    @contextlib.contextmanager
    def interruptible(self, *signals: signal.Signals) -> Iterator[None]:
        """Ctrl-C, or these signals, end the measurement, not the program; a second one ends the program."""
        loop = asyncio.get_running_loop()
        numbers = signals or (signal.SIGINT,)

        def interrupt(number: signal.Signals) -> None:
            loop.remove_signal_handler(number)
            self.stop.set()

        for number in numbers:
            loop.add_signal_handler(number, interrupt, number)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    async def unless_stopped(self, first: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine that runs before the measurement. Raises StoppedError when stopped meanwhile."""
        task, stopped = asyncio.create_task(first), asyncio.create_task(self.stop.wait())
        try:
            await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise StoppedError
            return task.result()
        finally:
            for one in (task, stopped):
                one.cancel()
            await asyncio.gather(task, stopped, return_exceptions=True)

    async def pause(self, seconds: float) -> bool:
        """Wait; returns whether the measurement was stopped meanwhile."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.stop.wait()
        return self.stopped
