"""Connections that cost round trips to open, and TLS: what a client of a far node waits for."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rpcaccel.simnode.server.factories import knobs
from rpcaccel.simnode.server.sim_connections import server_context
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.manual_clock import ManualClock

HEAD = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_chainId", "params": []}
OnLoop = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    return tmp_path / "node.pem"


def trusting(pem: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=pem)
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python 3.13 does by default
    return context


def test_a_node_serves_https_to_whoever_trusts_its_certificate_and_nobody_else(on_each_loop: OnLoop, pem: Path) -> None:
    async def story() -> None:
        async with SimNode(tls=server_context(pem)) as node, aiohttp.ClientSession() as session:
            assert node.url.startswith("https://127.0.0.1:")
            trust = trusting(pem)
            for _ in range(2):
                async with session.post(node.url, json=HEAD, ssl=trust) as response:
                    assert (await response.json())["result"] == 2
            assert node.counts.connections == 1
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await session.post(node.url, json=HEAD, ssl=ssl.create_default_context())

    on_each_loop(story())


def test_a_certificate_is_made_once_for_all_who_name_its_file_and_is_kept_from_others(pem: Path) -> None:
    server_context(pem)
    written = pem.read_text()
    server_context(pem)
    server_context(other := pem.with_name("other.pem"))
    assert pem.read_text() == written != other.read_text()
    other.unlink()
    assert pem.stat().st_mode & 0o077 == 0
    assert [file.name for file in pem.parent.iterdir()] == ["node.pem"]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_opening_a_connection_costs_its_round_trips_once(tls: bool, pem: Path) -> None:
    clock = ManualClock()
    context = server_context(pem)
    trust = trusting(pem) if tls else True
    async with (
        SimNode(clock=clock, knobs=knobs(connect="990ms"), tls=context if tls else None) as node,
        aiohttp.ClientSession() as session,
    ):

        async def call() -> bytes:
            async with session.post(node.url, json=HEAD, ssl=trust) as response:
                return await response.read()

        first = asyncio.ensure_future(call())
        while clock.waiting == 0:
            await asyncio.sleep(0)
        assert node.counts.requests == 0
        clock.advance(0.99)
        assert b'"result":2' in await first
        assert b'"result":2' in await call()  # on the same connection, by a clock that stands still
        assert node.counts.connections == 1


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_killed_node_cuts_connections_that_are_being_opened(on_each_loop: OnLoop, tls: bool, pem: Path) -> None:
    async def story() -> None:
        clock = ManualClock()
        node = SimNode(clock=clock, knobs=knobs(connect="1s"), tls=server_context(pem) if tls else None)
        await node.start()
        with contextlib.ExitStack() as clients:
            opened = [clients.enter_context(socket.create_connection(("127.0.0.1", node.port))) for _ in range(2)]
            while clock.waiting < 2:
                await asyncio.sleep(0)
            clock.advance(1.0)  # these two wait for a handshake, or a request, that does not come
            opened.append(clients.enter_context(socket.create_connection(("127.0.0.1", node.port))))
            while clock.waiting < 1:
                await asyncio.sleep(0)
            await node.kill()
            for client in opened:
                client.setblocking(False)
                with contextlib.suppress(ConnectionError):
                    assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), 10) == b""

    on_each_loop(story())
