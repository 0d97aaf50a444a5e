"""The real program over simulated nodes, which run in the test's own loop so that what they were asked can be read.

All tests of this folder run on one event loop of their process, so that what is dear to start (a browser, a program, a
chain) can be kept for several of them. Asynchronous fixtures are therefore made by `tests.support.fixtures.shared`.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from rpcaccel.simnode.server.factories import harmony_chain
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.fixtures import shared
from tests.support.fleet import Fleet, Fleets, GatedNode
from tests.support.running import LOCAL, Evm, Running, Serve, found
from tests.support.services import Anvil, Program


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and inspect.iscoroutinefunction(getattr(item, "function", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@shared
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield session


@pytest.fixture
def serve(new_program: Callable[..., Program], http: aiohttp.ClientSession) -> Serve:
    """`await serve(nodes, "--flag", ...)`: the program over nodes (simulated, or URLs), ready unless `ready=False`."""

    async def start(nodes: Any, *flags: str | Path, ready: bool = True, **options: Any) -> Running:
        urls = [f"{node.url},id={node.name}" if isinstance(node, SimNode) else node for node in nodes]
        running = await found(new_program("serve", *urls, *LOCAL, *flags, **options), http)
        if ready:
            await running.ready()
        return running

    return start


FLEET_HEAD = 4000


def _three_nodes() -> list[GatedNode]:
    chain = harmony_chain(FLEET_HEAD)
    return [GatedNode(chain, name=f"node-{i}") for i in range(3)]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def _fleets(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleets]:
    fleets = Fleets(tmp_path_factory.mktemp("fleets"))
    yield fleets
    await fleets.close()


@shared
async def fleet(_fleets: Fleets) -> Fleet:
    """A running program over three nodes, shared by the run and put back to how it started before each test."""
    return await _fleets.fresh("one worker", _three_nodes)


@shared
async def pair(_fleets: Fleets) -> Fleet:
    """The same with two workers."""
    return await _fleets.fresh("two workers", _three_nodes, "--workers", "2")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def evm(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Evm]:
    """A real EVM node, and the program over it; blocks and balances go on from test to test."""
    # Anvil signs with keys of its own, which the proxy hands to nobody unless told to.
    env = {"RPCACCEL_HTTP__EXPOSE": "eth_sendTransaction", "RPCACCEL_NETWORKS__ETHEREUM__BLOCK_TIME": "400ms"}
    with ExitStack() as started:
        async with aiohttp.ClientSession() as http:
            chain = Anvil()
            started.callback(chain.stop)
            folder = tmp_path_factory.mktemp("evm")
            program = started.enter_context(Program("serve", f"{chain.url},id=anvil", *LOCAL, env=env, cwd=folder))
            proxy = await found(program, http)
            await proxy.ready()
            yield Evm(chain, proxy)
