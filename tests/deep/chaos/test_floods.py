"""One of three nodes dies while a client floods the proxy with mistakes: they take no retry from any read."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import orjson
import pytest

from rpcaccel.simnode.chain.accounts import REVERT
from rpcaccel.simnode.chain.blocks import ChainSpec
from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.services import Program
from tests.support.storm import CALLS, Storm, storm

FLOODERS = 8
"""Connections of the client that makes mistakes, each with one call at a time."""
BETWEEN = 60
"""Reads between a death and the start after it, and between that and the next death."""
LIVES = 3
"""How often the node is born at the least, where it restarts."""


AWAY = {"connect", "reset-before-reply", "broken-reply", "timeout", "overtaken"}
"""Failures of a node that is gone or hangs: no mistake of a client is told so."""


def missed(run: Storm) -> bool:
    """Has a call met the node while it was away?"""
    return not AWAY.isdisjoint(run.failures()["mortal"])


def mistake(number: int, contract: str) -> tuple[str, list[Any]]:
    """A call that no node answers well: a method nobody has, params that are wrong, a revert, a block nobody has."""
    return (
        (f"invented_{number}", []),
        ("eth_getBalance", [f"too many requests {number}", "latest"]),
        ("hmyv2_getBlockByNumber", [f"already known {number}", {}]),
        ("eth_call", [{"to": contract, "data": f"0x{REVERT.hex()}{number:064x}"}, "latest"]),
        ("eth_getBlockTransactionCountByHash", [f"0x{number:064x}"]),
    )[number % 5]


@contextlib.asynccontextmanager
async def flood(run: Storm, contract: str) -> AsyncIterator[Counter[int]]:
    """Mistakes all the while, and the codes of the errors that came of them; 0: no error came."""
    codes: Counter[int] = Counter()
    numbers = itertools.count()

    async def caller(http: aiohttp.ClientSession) -> None:
        while True:
            number = next(numbers)
            method, params = mistake(number, contract)
            call = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            async with http.post(run.url, data=orjson.dumps(call)) as response:
                said = orjson.loads(await response.read())
            codes[said.get("error", {}).get("code", 0)] += 1

    async with aiohttp.ClientSession() as http, asyncio.TaskGroup() as callers:
        tasks = [callers.create_task(caller(http)) for _ in range(FLOODERS)]
        try:
            yield codes
        finally:
            for task in tasks:
                task.cancel()


class Mortal:
    """A simulated node in a process of its own, at one port over all its lives."""

    def __init__(self, start: Callable[..., Program], port: int) -> None:
        self.lives = 0
        self._start = start
        self._port = port
        self.url = f"http://127.0.0.1:{port}"

    async def live(self) -> None:
        """Be born, again perhaps."""
        self.process = self._start("simnode", "--port", str(self._port), "--latency", "2ms")
        await asyncio.to_thread(self.process.wait_for, "knobs at")
        self.lives += 1

    async def killed(self, _run: Storm) -> None:
        await asyncio.to_thread(self.process.kill)

    async def frozen(self, _run: Storm) -> None:
        self.process.pause()

    async def restarting(self, run: Storm) -> None:
        """Die and come back for as long as nobody ends it."""
        while True:
            await self.killed(run)
            await run.more(BETWEEN)
            await self.live()
            await run.more(BETWEEN)


@pytest.mark.parametrize("how", ["killed", "frozen", "restarting"])
async def test_no_read_fails_while_a_client_floods_mistakes_and_one_of_three_nodes_is(
    how: str,
    new_program: Callable[..., Program],
    free_port: Callable[[], int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    mortal = Mortal(new_program, free_port())
    await mortal.live()
    twins = [SimNode(SimChain(ChainSpec()), name=f"node-{number}") for number in (1, 2)]
    contract = f"0x{twins[0].chain.generator.contract.hex()}"
    async with twins[0], twins[1]:
        nodes = [("mortal", mortal.url), *((twin.name, twin.url) for twin in twins)]
        async with storm(nodes) as run, flood(run, contract) as codes:
            calm = await run.wave(CALLS // 3)
            dying = asyncio.create_task(getattr(mortal, how)(run))
            lives = LIVES if how == "restarting" else 1
            try:
                bad = await run.wave(CALLS, enough=lambda: missed(run) and mortal.lives >= lives)
                spoiled = Counter(codes)
            finally:
                dying.cancel()
                await asyncio.gather(dying, return_exceptions=True)
                mortal.process.resume()
            with capsys.disabled():
                print(f"\n  {how}: calm {calm} | bad {bad} | mistakes {dict(spoiled)} | {run.failures()}")
    assert not calm.wrong + bad.wrong
    assert spoiled[-32601], "the flood flowed"
    assert spoiled[3]
