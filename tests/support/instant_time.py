"""An event loop in which time passes only while nobody has anything to do.

    @instantly
    async def test_the_deadline_holds() -> None: ...

A sleep of an hour takes no time, what is due first comes first, and a busy machine delays nothing. For tests whose
fakes need no socket, thread or process; an async fixture would have another loop.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

_START = 1000.0

P = ParamSpec("P")


class _Skipping(selectors.DefaultSelector):
    """A selector that does not wait for a timer, and notes how long it would have."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready. Without a timer to wait for it does wait: for another thread, say."""
        ready = super().select(None if timeout is None else 0)
        if not ready and timeout:
            self.skipped += timeout
        return ready


class InstantLoop(asyncio.SelectorEventLoop):
    """A loop whose clock (seconds) moves on by as much as its timers ask for, at once."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return _START + self._skipping.skipped


def instantly(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run the test in such a loop."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=InstantLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
