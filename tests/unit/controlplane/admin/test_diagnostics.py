import asyncio
import socket
from collections.abc import AsyncIterator
from itertools import count

import aiohttp
import pytest

from tests.support.running_admin import running_admin
from tests.support.sample_view import NETWORK, SampleView


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    view = SampleView()
    view.listen = "127.0.0.1:1"
    now, at = count(1000.0), count(1_000_000.0)
    clocks = {"clock": lambda: next(now), "wall": lambda: next(at)}
    async with running_admin(view=view, interval=3600, **clocks) as (admin, session):
        for _ in range(8):
            view.advance(1.0, load=0.2)
            admin.sample()
        yield session


@pytest.mark.parametrize("over", ["5m", "1h", "24h"])
async def test_the_past_is_told_by_ranges(client: aiohttp.ClientSession, over: str) -> None:
    async with client.get("/api/v1/history", params={"range": over}) as reply:
        assert reply.status == 200
        document = await reply.json()
    assert document["range"] == "5m", "of a young program, the seconds reach as far back"
    assert document["sums"][over]["calls"] > 0
    assert document["columns"]["calls_per_second"][-1] > 0


async def test_another_range_is_told_which_there_are(client: aiohttp.ClientSession) -> None:
    async with client.get("/api/v1/history", params={"range": "1y"}) as reply:
        assert reply.status == 404
        assert "24h" in (await reply.json())["detail"]


async def test_one_method_is_told(client: aiohttp.ClientSession) -> None:
    async with client.get("/api/v1/methods/history", params={"network": NETWORK, "method": "hmyv2_call"}) as reply:
        document = await reply.json()
    assert document["method"] == "hmyv2_call"
    assert document["calls_per_second"][0] > 0


async def test_a_call_that_the_front_does_not_answer_is_a_problem(client: aiohttp.ClientSession) -> None:
    body = {"call": {"jsonrpc": "2.0", "id": 1, "method": "x"}}
    async with client.post("/api/v1/run", json=body) as reply:
        assert (reply.status, (await reply.json())["code"]) == (502, "no-answer")
    async with client.post("/api/v1/run", json={}) as reply:
        assert (reply.status, (await reply.json())["code"]) == (400, "not-json")


async def test_calls_that_nobody_answers_keep_nobody_else_waiting() -> None:
    view, body = SampleView(), {"call": {"jsonrpc": "2.0", "id": 1, "method": "x"}}
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        view.listen = f"127.0.0.1:{silent.getsockname()[1]}"
        async with running_admin(view=view, interval=3600) as (admin, session), asyncio.timeout(10):
            assert repr(admin.query_routes).startswith("<QueryRoutes over <History")
            runs = [asyncio.create_task(session.post("/api/v1/run", json=body)) for _ in range(40)]
            silent.setblocking(False)
            loop = asyncio.get_running_loop()
            waiting = [(await loop.sock_accept(silent))[0] for _ in runs]
            async with session.get("/metrics") as reply:
                assert reply.status == 200
            assert not any(run.done() for run in runs)
            for connection in waiting:
                connection.close()
            assert {(await run).status for run in runs} == {502}
