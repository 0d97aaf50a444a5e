"""Ends tasks that use the client of Redis."""

from __future__ import annotations

import asyncio
from typing import Any

CANCEL_AGAIN_SECONDS = 0.1
"""Seconds after which a task that still runs is cancelled again."""


async def cancel_and_wait(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks until all of them have ended, with whatever result.

    One cancellation is not enough: up to Python 3.11, `asyncio.wait_for`, which the client of Redis uses, swallows a
    cancellation when its awaitable completes at the same moment.
    """
    going = set(tasks)
    while going:
        for task in going:
            task.cancel()
        done, going = await asyncio.wait(going, timeout=CANCEL_AGAIN_SECONDS)
        for task in done:
            if not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not warn about it
