"""A little traffic for the demo: the calls a wallet, an explorer and a staking page make, and one subscriber."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from random import Random

import aiohttp

from rpcaccel.bench.load.client import ConnectionPool, parse
from rpcaccel.bench.load.generator import LoadGenerator, constant
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import HARMONY, LoadCall, World, about

_AT_ONCE = 32
_TIMEOUT = 10.0
_ROUND = 60.0
"""Seconds after which the load generator begins anew: it keeps the latency of every call that it made."""
_PAUSE = 2.0
"""Seconds until the subscriber comes back after its WebSocket ended."""
_WEIGHTS = {
    **dict.fromkeys(HARMONY, 1),
    "hmyv2_blockNumber": 3,
    "hmyv2_getBlockSigners": 2,
    "hmyv2_getBlocks": 2,
    "hmyv2_getBalanceByBlockNumber": 4,
    "hmyv2_getValidatorInformation": 3,
    "hmyv2_call": 4,
    "eth_chainId": 1,
    "eth_getBalance": 2,
    "eth_getBlockByNumber": 2,
    "eth_call": 2,
}
METHODS = tuple(_WEIGHTS)


def draw(rng: Random, world: World) -> LoadCall:
    """A call by its share; recent blocks and a few addresses are asked for more often, as in life."""
    method = rng.choices(METHODS, weights=tuple(_WEIGHTS.values()))[0]
    number = max(1, world.head - 2 - min(int(rng.expovariate(0.2)), 100))
    place = min(int(rng.expovariate(1.0)), len(world.validators) - 1)
    return about(
        method,
        block=hex(number) if method == "eth_getBlockByNumber" else "latest",
        span=(max(0, number - 5), number),
        address=world.contract,
        contract=world.contract,
        holder=f"{rng.randrange(3):x}",
        validator=world.validators[place],
    )


async def run(url: str, world: Callable[[], World], *, rng: Random, stop: asyncio.Event, rate: float) -> None:
    """Call the proxy at this rate (calls a second) until `stop`. `world` returns what calls can be about now."""

    def calls() -> Iterator[LoadCall]:
        while True:
            yield draw(rng, world())

    async with ConnectionPool(parse(url), _AT_ONCE) as pool:
        while not stop.is_set():
            plan = constant(calls(), rate=rate, seconds=max(_ROUND, 2 / rate))
            await LoadGenerator(pool, timeout=_TIMEOUT, spin=False).run(plan, Watch(stop=stop))


async def subscribe(url: str, stop: asyncio.Event, *, pause: float = _PAUSE) -> None:
    """Subscribe to headers and logs until `stop`; whatever ended the WebSocket, come back after `pause` seconds and
    resume at the newest block, of which logs may have been on their way."""
    newest = ""

    async def listen() -> None:
        """One WebSocket until its end. Raises what its client and its server raise."""
        nonlocal newest
        start = [{"fromBlock": newest}] if newest else []
        async with http.ws_connect(url, heartbeat=30) as socket:
            for kind, params in (("newHeads", start), ("logs", start or [{}])):
                sent = {"jsonrpc": "2.0", "id": kind, "method": "eth_subscribe", "params": [kind, *params]}
                await socket.send_json(sent)
            async for message in socket:
                told = message.json().get("params", {}).get("result", {})  # an answer has no params, a log no number
                newest = told.get("number", newest)

    ending = asyncio.create_task(stop.wait())
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT)) as http:
        while not stop.is_set():
            listening = asyncio.create_task(listen())
            await asyncio.wait({listening, ending}, return_when=asyncio.FIRST_COMPLETED)
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            await asyncio.wait({ending}, timeout=pause)
