"""Starting and ending: ports that are taken, several workers, and signals that let running calls finish."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator

import aiohttp
import pytest

from rpcaccel.simnode.server.factories import harmony_chain
from tests.support.fixtures import shared
from tests.support.fleet import Fleet, GatedNode
from tests.support.running import Metrics, Serve, until

BLOCK = "hmyv2_getBlockByNumber"


@shared
async def held() -> AsyncIterator[GatedNode]:
    async with GatedNode(harmony_chain(200), name="held") as node:
        node.hold(BLOCK)
        yield node


async def one_call(url: str, method: str = "hmyv2_getBlockByNumber", params: bytes = b"[7,{}]") -> tuple[int, bytes]:
    """A call on a connection of its own."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":%b}' % (method.encode(), params)
    async with aiohttp.ClientSession() as own, own.post(url, data=body) as response:
        return response.status, await response.read()


async def refuses(url: str) -> bool:
    """Whether no new connection is taken there."""
    try:
        await one_call(url, "eth_chainId", b"[]")
    except aiohttp.ClientConnectionError:
        return True
    return False


def children(pid: int) -> list[int]:
    """Processes that a process started."""
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]


def alive(pid: int) -> bool:
    """Does a process run? One that ended and was not waited for does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return state.stdout.strip()[:1] not in ("", "Z")


def reached(number: signal.Signals, program: int) -> list[int]:
    """The program's processes beside it that a signal comes to as well: systemd sends SIGTERM to all of a service,
    a terminal Ctrl-C to its process group."""
    pids = children(program)
    return pids if number == signal.SIGTERM else [pid for pid in pids if os.getpgid(pid) == os.getpgid(program)]


@pytest.mark.parametrize(
    ("number", "workers"),
    [
        pytest.param(signal.SIGTERM, 1, id="SIGTERM-1", marks=pytest.mark.smoke),
        pytest.param(signal.SIGINT, 2, id="SIGINT-2"),
    ],
)
async def test_a_signal_lets_running_calls_finish_and_takes_no_new_ones(
    serve: Serve, held: GatedNode, number: signal.Signals, workers: int
) -> None:
    proxy = await serve([held], "--workers", str(workers))
    running = asyncio.create_task(one_call(proxy.url))
    await held.arrived.wait()
    for pid in (*reached(number, proxy.program.pid), proxy.program.pid):
        os.kill(pid, number)
    await until("new connections refused", lambda: refuses(proxy.url))
    held.release()
    status, body = await running
    assert status == 200
    assert b'"number":7' in body
    assert await asyncio.to_thread(proxy.program.wait) == 0
    assert "Traceback" not in proxy.program.output
    assert "Warning" not in proxy.program.output


async def test_a_call_that_takes_longer_than_the_drain_does_not_keep_the_program(serve: Serve, held: GatedNode) -> None:
    proxy = await serve([held], env={"RPCACCEL_DRAIN_TIMEOUT": "300ms"})
    running = asyncio.create_task(one_call(proxy.url))
    await held.arrived.wait()
    proxy.program.signal(signal.SIGTERM)
    assert await asyncio.to_thread(proxy.program.wait) == 0
    with pytest.raises(aiohttp.ClientConnectionError):
        await running
    assert "Traceback" not in proxy.program.output
    held.release()


async def test_while_it_lingers_a_call_on_an_open_connection_is_answered_with_word_to_close_it(
    serve: Serve, held: GatedNode
) -> None:
    proxy = await serve([held], "--workers", "2", env={"RPCACCEL_DRAIN_LINGER": "600s"})
    host, port = proxy.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    call = b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}'

    async def answer() -> bytes:
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(call), call))
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readuntil(b"}")
        return head.lower()

    assert b"connection: close" not in await answer()
    proxy.program.signal(signal.SIGTERM)

    await until("new connections refused", lambda: refuses(proxy.url))
    assert b"connection: close" in await answer()
    assert await reader.read() == b""
    writer.close()
    # It waits for open connections alone: with the last one it ends.
    assert await asyncio.to_thread(proxy.program.wait) == 0


async def test_two_workers_serve_one_port_and_are_counted_together(pair: Fleet) -> None:
    proxy, method = pair.proxy, "hmyv2_getHeaderByNumber"  # of which the counts are this test's alone
    assert len(children(proxy.program.pid)) >= 2
    for _ in range(40):
        assert (await one_call(proxy.url, method, b"[7]"))[0] == 200
    # Each has a memory of its own, and the kernel deals connections out to both.
    assert pair.asked(method) == 2

    async def counted() -> bool:
        return (await proxy.metrics()).sum("rpcaccel_calls_total", method=method, outcome="ok") == 40

    await until("both workers' counts", counted)
    told = await proxy.metrics()
    assert told.sum("rpcaccel_workers") == 2
    assert told.sum("rpcaccel_tier_entries", tier="memory") == 2
    assert told.sum("rpcaccel_call_seconds_count", method=method, source="node") == 2
    assert told.sum("rpcaccel_call_seconds_count", method=method, source="memory") == 38

    async def shown() -> bool:
        return len((await proxy.api("overview"))["workers"]) == 2

    await until("both workers on the page", shown)
    head = b":%d" % pair.nodes[0].chain.advance(5)

    async def moved() -> bool:
        return all([head in (await one_call(proxy.url, "hmyv2_blockNumber", b"[]"))[1] for _ in range(8)])

    await until("both workers at the new head", moved)


def grown(name: str, before: Metrics, after: Metrics, **labels: str) -> float:
    """By how much a counter has grown from one scrape to another."""
    return after.sum(name, **labels) - before.sum(name, **labels)


async def test_a_worker_that_hangs_is_ended_and_replaced_and_it_is_said(pair: Fleet) -> None:
    running = pair.proxy
    await running.changed({"worker_timeout": 3})
    before = await running.metrics()
    hung, other = (await running.api("workers"))["workers"]
    os.kill(hung["pid"], signal.SIGSTOP)

    async def replaced() -> bool:
        workers = (await running.api("workers"))["workers"]
        return all(one["pid"] != hung["pid"] and one["state"] == "serving" for one in workers)

    await until("another worker has its place", replaced)
    assert not alive(hung["pid"])
    assert other["pid"] in {one["pid"] for one in (await running.api("workers"))["workers"]}
    await asyncio.to_thread(running.program.wait_for, "did not answer for 3 s")

    async def said() -> bool:  # the overview is a second old at the most
        return "did not answer for 3 s and was ended" in str(await running.api("overview"))

    await until("the hung worker in the overview", said)
    after = await running.metrics()
    assert grown("rpcaccel_workers_replaced_total", before, after, reason="unresponsive") == 1
    assert grown("rpcaccel_workers_replaced_total", before, after, reason="died") == 0
    for _ in range(20):  # connections are spread over both
        assert (await one_call(running.url))[0] == 200
