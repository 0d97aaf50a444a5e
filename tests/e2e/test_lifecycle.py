"""Starting and ending: ports that are taken, several workers, and signals that let running calls finish."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest

from rpcaccel.testing.envelope import Parsed
from rpcaccel.testing.factories import harmony_chain, harmony_nodes
from rpcaccel.testing.simnode import SimNode
from tests.e2e.conftest import Serve
from tests.e2e.running import until
from tests.services import Program

pytestmark = pytest.mark.e2e

BLOCK = "hmyv2_getBlockByNumber"
STOPS = (signal.SIGINT, signal.SIGTERM)


class Held(SimNode):
    """A node that answers about a block when it is let go."""

    arrived: asyncio.Event
    let_go: asyncio.Event

    async def answer(self, parsed: Parsed) -> bytes:
        if any(call.method == BLOCK for call in parsed.calls):
            self.arrived.set()
            await self.let_go.wait()
        return await super().answer(parsed)


@pytest.fixture
async def held() -> AsyncIterator[Held]:
    async with Held(harmony_chain(200), name="held") as node:
        node.arrived, node.let_go = asyncio.Event(), asyncio.Event()
        yield node


async def one_call(url: str, method: str = "hmyv2_getBlockByNumber", params: bytes = b"[7,{}]") -> tuple[int, bytes]:
    """A call on a connection of its own."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":%b}' % (method.encode(), params)
    async with aiohttp.ClientSession() as own, own.post(url, data=body) as response:
        return response.status, await response.read()


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


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", STOPS, ids=lambda number: number.name)
async def test_a_signal_lets_running_calls_finish_and_takes_no_new_ones(
    serve: Serve, held: Held, number: signal.Signals, workers: int
) -> None:
    proxy = await serve([held], "--workers", str(workers))
    running = asyncio.create_task(one_call(proxy.url))
    await held.arrived.wait()
    for pid in (*reached(number, proxy.program.pid), proxy.program.pid):
        os.kill(pid, number)

    async def refused() -> bool:
        try:
            await one_call(proxy.url, "eth_chainId", b"[]")
        except aiohttp.ClientConnectionError:
            return True
        return False

    await until("new connections refused", refused)
    held.let_go.set()
    status, body = await running
    assert status == 200
    assert b'"number":7' in body
    assert await asyncio.to_thread(proxy.program.wait) == 0
    assert "Traceback" not in proxy.program.output
    assert "Warning" not in proxy.program.output


async def test_a_call_that_takes_longer_than_the_drain_does_not_keep_the_program(serve: Serve, held: Held) -> None:
    proxy = await serve([held], env={"RPCACCEL_DRAIN_TIMEOUT": "300ms"})
    running = asyncio.create_task(one_call(proxy.url))
    await held.arrived.wait()
    proxy.program.signal(signal.SIGTERM)
    assert await asyncio.to_thread(proxy.program.wait) == 0
    with pytest.raises(aiohttp.ClientConnectionError):
        await running
    assert "Traceback" not in proxy.program.output
    held.let_go.set()


async def test_two_workers_serve_one_port_and_are_counted_together(serve: Serve) -> None:
    async with harmony_nodes(2) as nodes:
        proxy = await serve(nodes, "--workers", "2")
        assert len(children(proxy.program.pid)) >= 2
        for _ in range(40):
            assert (await one_call(proxy.url))[0] == 200
        # Each has a memory of its own, and the kernel deals connections out to both.
        assert sum(node.counts.asked("hmyv2_getBlockByNumber") for node in nodes) == 2

        async def counted() -> bool:
            told = await proxy.metrics()
            return told.sum("rpcaccel_calls_total", method="hmyv2_getBlockByNumber", outcome="ok") == 40

        await until("both workers' counts", counted)
        told = await proxy.metrics()
        assert told.sum("rpcaccel_workers") == 2
        assert told.sum("rpcaccel_tier_entries", tier="memory") == 2
        assert told.sum("rpcaccel_node_calls_total") == 2

        async def shown() -> bool:
            return len((await proxy.api("overview"))["workers"]) == 2

        await until("both workers on the page", shown)
        nodes[0].chain.advance(5)

        async def moved() -> bool:
            return all([b":205" in (await one_call(proxy.url, "hmyv2_blockNumber", b"[]"))[1] for _ in range(8)])

        await until("both workers at the new head", moved)


async def test_workers_end_with_their_supervisor_even_when_it_is_killed(serve: Serve) -> None:
    async with harmony_nodes(1) as nodes:
        proxy = await serve(nodes, "--workers", "2")
        workers = children(proxy.program.pid)
        assert len(workers) >= 2
        await asyncio.to_thread(proxy.program.kill)

        async def gone() -> bool:
            return not any(alive(pid) for pid in workers)

        await until("the workers gone", gone)


@pytest.mark.parametrize(("key", "workers"), [("listen", "1"), ("listen", "2"), ("admin.listen", "1")])
async def test_a_taken_port_is_one_clear_line(
    serve: Serve, new_program: Callable[..., Program], key: str, workers: str
) -> None:
    async with harmony_nodes(1) as nodes:
        first = await serve(nodes, "--workers", workers)
        taken = (first.url if key == "listen" else first.admin).removeprefix("http://")
        addresses = {"listen": "127.0.0.1:0", "admin.listen": "127.0.0.1:0"} | {key: taken}
        flags = ("--listen", addresses["listen"], "--admin", addresses["admin.listen"], "--workers", workers)
        second = new_program("serve", nodes[0].url, *flags)
        assert await asyncio.to_thread(second.wait) == 1
        assert second.output == f"rpcaccel: {key}: cannot listen on {taken}: Address already in use\n"
        assert (await first.call("eth_chainId")).status == 200


async def test_a_worker_that_hangs_is_ended_and_replaced_and_it_is_said(serve: Serve) -> None:
    async with harmony_nodes(1) as nodes:
        env = {"RPCACCEL_WORKER_TIMEOUT": "3s"}
        running = await serve(nodes, "--workers", "2", env=env)
        hung, other = (await running.api("workers"))["workers"]
        os.kill(hung["pid"], signal.SIGSTOP)

        async def replaced() -> bool:
            workers = (await running.api("workers"))["workers"]
            return all(one["pid"] != hung["pid"] and one["state"] == "serving" for one in workers)

        await until("another worker has its place", replaced)
        assert not alive(hung["pid"])
        assert other["pid"] in {one["pid"] for one in (await running.api("workers"))["workers"]}
        running.program.wait_for("did not answer for 3 s")

        async def said() -> bool:  # the overview is a second old at the most
            return "did not answer for 3 s and was ended" in str(await running.api("overview"))

        await until("the hung worker in the overview", said)
        metrics = await running.metrics()
        assert metrics.sum("rpcaccel_workers_replaced_total", reason="unresponsive") == 1
        assert metrics.sum("rpcaccel_workers_replaced_total", reason="died") == 0
        for _ in range(20):  # connections are spread over both
            assert (await one_call(running.url))[0] == 200
        assert await running.end() == 0
