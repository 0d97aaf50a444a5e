"""A worker process is started with its sockets, waits for its first order, and ends when it is not needed."""

from __future__ import annotations

import gc
import socket

import pytest

from rpcaccel.controlplane.workers.sockets import bind
from rpcaccel.controlplane.workers.spawn import spawn


async def test_a_process_that_is_not_needed_ends() -> None:
    with bind("127.0.0.1:0", "listen") as place:
        born = await spawn("spare", [place])
        await born.dismiss()
        await born.dismiss()
    assert born.process.returncode is not None


async def test_one_that_cannot_be_started_leaves_nothing_open() -> None:
    # A socket that is left open is a warning, and a warning is a fault.
    closed = socket.socket()
    closed.close()
    with pytest.raises((OSError, ValueError)):
        await spawn("w1", [closed])
    gc.collect()
