"""It serves until a signal ends it."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from rpcaccel.controlplane import run
from rpcaccel.controlplane.supervisor import RunningInfo
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.proxy import settings_for

ANY = {"listen": "127.0.0.1:0", "admin": {"listen": "127.0.0.1:0"}, "drain_timeout": 1}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_with_exit_code_0(number: signal.Signals) -> None:
    told: list[RunningInfo] = []
    async with harmony_nodes(2) as nodes, asyncio.timeout(60):
        running = asyncio.create_task(run.serve(settings_for(nodes, **ANY), banner=told.append))
        while not told:
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), number)
        assert await running == 0
