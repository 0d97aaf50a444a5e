"""What only a worker in a process of its own can do: not come up, and die. The rest is in test_link.py."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from rpcaccel.controlplane.link import GONE
from rpcaccel.controlplane.listening import bind
from rpcaccel.controlplane.process_link import ProcessLink, Spare, spawn
from rpcaccel.core.entry import Selection
from rpcaccel.testing.factories import harmony_nodes
from rpcaccel.testing.simnode import SimNode
from tests.proxy import settings_for

HINTS: list[Any] = []


@pytest.fixture
async def nodes() -> Any:
    async with harmony_nodes(1) as started:
        yield started


async def test_a_worker_that_does_not_come_up_is_an_error_not_a_wait(nodes: list[SimNode]) -> None:
    sock = bind("127.0.0.1:0", "listen")
    link = ProcessLink("w1", sock, HINTS.append)
    broken = settings_for(nodes).model_copy(update={"networks": {}})
    with pytest.raises(RuntimeError, match="w1 ended before it listened"):
        await link.start(broken, 1)


async def test_a_worker_that_is_killed_says_how_it_ended_and_keeps_nobody_waiting(nodes: list[SimNode]) -> None:
    link = ProcessLink("w1", bind("127.0.0.1:0", "listen"), HINTS.append)
    assert await link.ended() == "was never started"
    await link.start(settings_for(nodes), 1)
    assert link.pid not in (0, os.getpid())
    os.kill(link.pid, signal.SIGSTOP)
    adopting = asyncio.create_task(link.adopt(settings_for(nodes), 2))
    await asyncio.sleep(0)
    os.kill(link.pid, signal.SIGKILL)
    assert await link.ended() == "was killed by SIGKILL"
    assert await adopting == GONE
    assert await link.adopt(settings_for(nodes), 3) == GONE
    assert not (await link.purge(Selection())).complete
    await link.drain(0.1)


async def test_what_a_worker_cannot_adopt_it_refuses_with_the_reason(nodes: list[SimNode]) -> None:
    link = ProcessLink("w1", bind("127.0.0.1:0", "listen"), HINTS.append)
    await link.start(settings_for(nodes), 1)
    broken = settings_for(nodes).model_copy(update={"networks": {}})
    assert await link.adopt(broken, 2) != ""
    assert await link.adopt(settings_for(nodes), 3) == ""
    await link.drain(0.1)
    assert await link.ended() == "ended with exit code 0"


async def test_a_spare_takes_the_place_it_is_given(nodes: list[SimNode]) -> None:
    places = [bind("127.0.0.1:0", "listen") for _ in range(2)]
    born = await spawn("spare", places)
    link = ProcessLink("w2", places[1].dup(), HINTS.append, spare=Spare(born, 1))
    port = await link.start(settings_for(nodes), 1)
    assert port == places[1].getsockname()[1]
    async with asyncio.timeout(20):
        while (report := link.report()) is None:
            await asyncio.sleep(0.01)
    assert (report.worker, report.pid) == ("w2", born.process.pid)
    await link.drain(0.1)
    for place in places:
        place.close()


async def test_a_spare_that_is_not_needed_ends() -> None:
    with bind("127.0.0.1:0", "listen") as place:
        born = await spawn("spare", [place])
        await born.dismiss()
    assert born.process.returncode is not None
