"""Waits for what is to come, without a guess of how long that takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], object], *, within: float = 60.0) -> None:
    """Let the loop run until it holds; TimeoutError where that takes more than `within` seconds."""
    async with asyncio.timeout(within):
        while not holds():
            await asyncio.sleep(0.001)
