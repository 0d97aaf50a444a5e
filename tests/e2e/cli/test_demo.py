"""`rpcaccel demo`, as somebody who has just cloned it starts it."""

from __future__ import annotations

import asyncio
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable

import aiohttp
import pytest

from tests.support.running import LOCAL, found, until
from tests.support.services import Program


@pytest.mark.smoke
async def test_it_is_up_at_once_shows_the_page_and_ends_without_a_word(
    new_program: Callable[..., Program], http: aiohttp.ClientSession
) -> None:
    began = time.monotonic()
    program = new_program("demo", *LOCAL, measured=False)
    proxy = await found(program, http)
    await proxy.ready()
    print(f"up in {time.monotonic() - began:.2f} s")

    page = await proxy.get(f"{proxy.admin}/")
    assert page.status == 200
    assert b"<title>rpcaccel</title>" in page.body
    for asset in re.findall(rb'(?:src|href)="(/[^"]+\.(?:js|css|svg))"', page.body):
        assert (await proxy.get(proxy.admin + asset.decode())).status == 200, asset

    shown = re.search(r"try +(curl .*)", program.output)
    assert shown is not None
    said = await asyncio.to_thread(subprocess.run, shlex.split(shown[1]), capture_output=True, text=True, check=True)
    assert re.fullmatch(r'\{"jsonrpc":"2\.0","id":1,"result":\d+\}\s*', said.stdout)

    async def busy() -> bool:
        told = await proxy.metrics()
        return told.sum("rpcaccel_calls_total") > 30 and told.sum("rpcaccel_node_calls_total", node="sim-2") > 0

    await until("the built-in traffic", busy)
    told = await proxy.metrics()
    assert told.sum("rpcaccel_calls_total", outcome="error") == 0
    program.signal(signal.SIGINT)
    assert await asyncio.to_thread(program.wait) == 0
    # A machine that stands still at the start may make the nodes late, which the log says, and also when that is over.
    late = re.compile("no node tells its head|the head is followed again")
    written = [line for line in program.output.splitlines() if not late.search(line)]
    assert written[0] == "rpcaccel serves"
    assert written[-1] == "Ctrl-C ends it."
    assert len(written) == 8
