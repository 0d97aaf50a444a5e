"""CPU and memory of processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rpcaccel.bench.runs import process_usage

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked at by Linux' /proc")


def test_who_listens_on_a_port_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert process_usage.listeners(listener.getsockname()[1]) == [os.getpid()]
        port = listener.getsockname()[1]
    assert process_usage.listeners(port) == []


def test_what_is_used_is_counted() -> None:
    before = process_usage.use([os.getpid()])
    total = 0
    while (
        (after := process_usage.use([os.getpid()])) is not None and before is not None and after.cpu < before.cpu + 0.1
    ):
        total += sum(range(10000))
    spent = process_usage.spent(before, after)
    assert spent is not None
    assert 0 < spent.cores < 1.6
    assert 5e6 < spent.resident < 5e9


def test_a_process_that_is_gone_is_not_zero() -> None:
    child = subprocess.run([sys.executable, "-c", ""], check=True)
    assert child.returncode == 0
    assert process_usage.use([2**22 + 1]) is None
    assert process_usage.spent(None, None) is None


def test_children_belong_to_their_parents() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in process_usage.with_children([os.getpid()])
        child.communicate(b"\n")
