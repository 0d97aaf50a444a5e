"""The event loop."""

from __future__ import annotations

import asyncio
import gc

from rpcaccel.dataplane import loop


def test_the_program_runs_on_uvloop() -> None:
    async def name() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert loop.run(name()).startswith("uvloop")


def test_what_is_imported_is_not_walked_by_collections_while_calls_wait() -> None:
    async def frozen() -> int:
        return gc.get_freeze_count()

    assert loop.run(frozen()) > 10_000
    assert gc.get_freeze_count() == 0
