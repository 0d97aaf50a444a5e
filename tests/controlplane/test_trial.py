import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec import Raw

from rpcaccel.controlplane import trial
from rpcaccel.controlplane.refusal import Refusal, read

ANSWER = {
    "X-Rpcaccel-Cache": "miss",
    "X-Rpcaccel-Attempts": "2",
    "Server-Timing": "forward;dur=12.5",
    "Set-Cookie": "not=ours",
}


async def front(request: web.Request) -> web.Response:
    return web.Response(body=request.path.encode() + b" " + await request.read(), headers=ANSWER)


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    app = web.Application()
    app.router.add_post("/{network}", front)
    server = TestServer(app)
    await server.start_server()
    yield server
    await server.close()


async def test_a_call_goes_through_the_front_as_it_was_written(server: TestServer) -> None:
    asked = trial.Trial(Raw(b'{"id":1.50, "method":"x"}'), "s0")
    ran = await asyncio.to_thread(trial.run, asked, ("0.0.0.0", int(server.port or 0)))
    assert (ran["status"], ran["body"]) == (200, '/s0 {"id":1.50, "method":"x"}')
    assert ran["size"] == len(ran["body"])
    assert ran["seconds"] > 0
    assert ran["headers"]["x-rpcaccel-attempts"] == "2"
    assert ran["headers"]["server-timing"] == "forward;dur=12.5"
    assert "set-cookie" not in ran["headers"]


def test_a_front_that_is_not_there_is_said() -> None:
    with pytest.raises(OSError, match=r"refused|Errno"):
        trial.run(trial.Trial(Raw(b"{}")), ("127.0.0.1", 1))


@pytest.mark.parametrize("body", [b"", b"{}", b'{"call": 1, "more": 2}', b"not json"])
def test_another_body_is_no_question(body: bytes) -> None:
    with pytest.raises(Refusal):
        read(body, trial.Trial)


async def test_a_network_is_named_whatever_its_letters(server: TestServer) -> None:
    ran = await asyncio.to_thread(trial.run, trial.Trial(Raw(b"{}"), "é x"), ("127.0.0.1", int(server.port or 0)))
    assert ran["body"] == "/é x {}"
