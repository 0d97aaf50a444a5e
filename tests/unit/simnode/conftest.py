"""A simulated Harmony node whose head stands at 178, asked without sockets; and one really served."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any

import aiohttp
import pytest
import uvloop

from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.server.factories import ethereum_chain, harmony_chain
from rpcaccel.simnode.server.sim_server import SimNode

Ask = Callable[..., Awaitable[Any]]


@pytest.fixture
def chain() -> SimChain:
    return harmony_chain(178)


@pytest.fixture
def node(chain: SimChain) -> SimNode:
    return SimNode(chain, name="alone")


@pytest.fixture
def geth() -> SimNode:
    return SimNode(ethereum_chain(178), name="alone")


@pytest.fixture
def refusal() -> Ask:
    """The (code, message) with which a node refuses a call."""

    async def refused(node: SimNode, method: str, *params: Any) -> tuple[int, str]:
        with pytest.raises(RpcError) as caught:
            await node.ask(method, *params)
        return caught.value.code, caught.value.message

    return refused


@pytest.fixture
async def served(node: SimNode) -> AsyncIterator[SimNode]:
    async with node:
        yield node


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def on_each_loop(request: pytest.FixtureRequest) -> Iterator[Callable[[Coroutine[Any, Any, None]], None]]:
    """Runs a story on a loop of asyncio and on one of uvloop, neither of which may have anything to complain of."""
    troubles: list[dict[str, Any]] = []

    def run(story: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.get_loop().set_exception_handler(lambda _loop, told: troubles.append(told))
            runner.run(story)

    yield run
    assert troubles == []


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


@pytest.fixture
def post(session: aiohttp.ClientSession) -> Callable[..., Awaitable[tuple[int, bytes]]]:
    """POST a body (bytes as they are, anything else as JSON) and return status and body."""

    async def sent(node: SimNode, body: Any, **headers: str) -> tuple[int, bytes]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        wanted = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        async with session.post(node.url, data=data, headers=wanted) as response:
            return response.status, await response.read()

    return sent
