"""Tasks end when they are told to, also those that overheard it once."""

from __future__ import annotations

import asyncio
import contextlib

from rpcaccel.stores.tasks import cancel_and_wait


async def test_a_task_that_overheard_its_cancellation_ends_all_the_same() -> None:
    overheard = 0

    async def follow() -> None:
        nonlocal overheard
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        overheard += 1
        await asyncio.Event().wait()

    task = asyncio.create_task(follow())
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await cancel_and_wait(task)
    assert task.cancelled()
    assert overheard == 1


async def test_tasks_that_fail_or_are_over_are_ended_as_well() -> None:
    async def fails() -> None:
        raise ValueError("no")

    async def ends() -> None:
        """At once."""

    tasks = [asyncio.create_task(fails()), asyncio.create_task(ends()), asyncio.create_task(asyncio.sleep(60))]
    await asyncio.sleep(0)
    await cancel_and_wait(*tasks)
    assert all(task.done() for task in tasks)
    await cancel_and_wait()
