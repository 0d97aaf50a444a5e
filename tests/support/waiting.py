"""Waits for what is to come, without a guess of how long that takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event


async def until(holds: Callable[[], object], *, within: float = 60.0) -> None:
    """Let the loop run until it holds; TimeoutError where that takes more than `within` seconds."""
    async with asyncio.timeout(within):
        while not holds():
            await asyncio.sleep(0.001)


async def settle() -> None:
    """Let the loop, one of asyncio's, run until none of its tasks can go on: each waits for a clock, a socket, a thread
    or another task. What can go on in the next turn is no public member of the loop."""
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    while ready:
        await asyncio.sleep(0)


@contextmanager
def threads_held() -> Iterator[None]:
    """What the running loop gives to threads within the block begins after it. Without this, a short job may have ended
    before whoever gave it to a thread awaits it; since Python 3.14 the loop makes no turn in between then."""
    end = Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    loop.run_in_executor(None, end.wait)
    try:
        yield
    finally:
        end.set()
