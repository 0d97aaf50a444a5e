"""The event loop."""

from __future__ import annotations

import asyncio
import gc
import platform
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from rpcaccel.dataplane import event_loop
from tests.support.services import ROOT


def test_the_program_runs_on_uvloop() -> None:
    async def name() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert event_loop.run(name()).startswith("uvloop")


def test_what_is_imported_is_not_walked_by_collections_while_calls_wait() -> None:
    async def frozen() -> int:
        return gc.get_freeze_count()

    gc.unfreeze()  # tests set aside what is loaded as well
    assert event_loop.run(frozen()) > 10_000


TAKEN = 400_000_000
"""Bytes."""


async def _burst(size: int) -> int:
    """MB held for nothing once TAKEN were taken in blocks, with small ones between, and given back."""
    before, between = _resident(), []
    blocks = [bytes(size)]
    blocks.clear()  # by this glibc learns to take such blocks from the heap
    for number in range(TAKEN // size):
        blocks.append(b"x" * size)
        between.append(b"%d" % number * 600)
    blocks.clear()
    return _resident() - before - sum(map(len, between)) // 1_000_000


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1_000_000


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="what is tested is a setting of glibc")
@pytest.mark.parametrize("size", [4_000_000, 256 << 10])
def test_blocks_of_long_answers_and_of_their_pieces_go_back_to_the_system(size: int) -> None:
    text = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    text += "from tests.integration.dataplane.test_event_loop import _burst\n"
    text += f"from rpcaccel.dataplane import event_loop\nprint(event_loop.run(_burst({size})))"
    told = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True, timeout=60)
    assert int(told.stdout) < 100
