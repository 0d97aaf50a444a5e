"""Ending tasks that talk to Redis."""

from __future__ import annotations

import asyncio
from typing import Any

AGAIN = 0.1
"""Seconds after which a task that goes on is cancelled again."""


async def cancel_and_wait(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks until all have ended, whatever they end with.

    Once is not enough: up to Python 3.11 `asyncio.wait_for`, through which Redis' client sends, keeps a cancellation to
    itself when what it waits for is done in the same moment.
    """
    going = set(tasks)
    while going:
        for task in going:
            task.cancel()
        done, going = await asyncio.wait(going, timeout=AGAIN)
        for task in done:
            if not task.cancelled():
                task.exception()  # looked at, so that asyncio does not complain that nobody did
