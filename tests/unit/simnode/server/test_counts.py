from __future__ import annotations

import asyncio

from rpcaccel.simnode.server.counts import Counts


async def test_one_can_wait_for_a_count() -> None:
    counts = Counts()
    waiting = asyncio.ensure_future(counts.until(lambda seen: seen.asked("a") == 2))
    gone = asyncio.ensure_future(counts.until(lambda seen: seen.asked("a") == 2))
    for _ in range(2):
        await asyncio.sleep(0)
        assert not waiting.done()
        counts.methods["a"] += 1
        gone.cancel()
        counts.settle()
    await waiting
    await counts.until(lambda seen: seen.calls == 2)


def test_counts_start_anew_after_a_reset() -> None:
    counts = Counts()
    counts.methods["a"] += 2
    counts.faults["reset"] += 1
    assert (counts.asked("a"), counts.asked("b"), counts.calls) == (2, 0, 2)
    assert counts.view()["faults"] == {"reset": 1}
    counts.reset()
    assert counts.view() == Counts().view()
