"""The event loop of every process of the program: uvloop."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end on a new uvloop.

    What is imported by now stays for good, and a full collection that walked it would hold up every call for 50 ms and
    more: it is set aside.
    """
    gc.collect()
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)
    finally:
        gc.unfreeze()
