"""A little traffic for the demo: the calls a wallet, an explorer and a staking page make."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import msgspec

from rpcaccel.controlplane.nodes.probes import Asker
from rpcaccel.core.replies.failure import Failure

CALLS_PER_SECOND = 20.0
_AT_ONCE = 32
_TIMEOUT = 10.0

_WEIGHTS = {
    "hmyv2_blockNumber": 3,
    "hmyv2_getBlockSigners": 2,
    "hmyv2_getBlocks": 2,
    "hmyv2_getBalanceByBlockNumber": 4,
    "hmyv2_getValidatorInformation": 3,
    "hmyv2_call": 4,
    "net_peerCount": 1,
    "hmyv2_getNodeMetadata": 1,
    "hmyv2_getCurrentTransactionErrorSink": 1,
    "hmyv2_getCurrentUtilityMetrics": 1,
    "eth_chainId": 1,
    "eth_getBalance": 2,
    "eth_getBlockByNumber": 2,
    "eth_call": 2,
}
METHODS = tuple(_WEIGHTS)


class DemoWorld(NamedTuple):
    """What calls can be about."""

    validators: Sequence[str]
    """one1… addresses."""
    contract: str
    """0x… address."""


class DemoCall(NamedTuple):
    """One call to make."""

    method: str
    params: list[Any]


def draw(rng: Random, world: DemoWorld, head: int) -> DemoCall:
    """A call by its share; recent blocks and a few addresses are asked for more often, as in life."""
    method = rng.choices(METHODS, weights=tuple(_WEIGHTS.values()))[0]
    number = max(1, head - 2 - min(int(rng.expovariate(0.2)), 100))
    address = world.validators[min(int(rng.expovariate(1.0)), len(world.validators) - 1)] if world.validators else ""
    query = {"to": world.contract, "data": f"0x06fdde{rng.randrange(3):02x}"}
    params: dict[str, list[Any]] = {
        "hmyv2_getBlockSigners": [number],
        "hmyv2_getBlocks": [max(0, number - 5), number, {"withSigners": False, "fullTx": False, "inclStaking": True}],
        "hmyv2_getBalanceByBlockNumber": [address, number],
        "hmyv2_getValidatorInformation": [address],
        "hmyv2_call": [query, number],
        "eth_getBalance": [world.contract, "latest"],
        "eth_getBlockByNumber": [hex(number), False],
        "eth_call": [query, "latest"],
    }
    return DemoCall(method, params.get(method, []))


async def run(
    proxy: Asker, world: DemoWorld, *, rng: Random, stop: asyncio.Event, rate: float = CALLS_PER_SECOND
) -> int:
    """Call the proxy at this rate until `stop`, never with more than a few calls open; how many were answered."""
    answered = head = 0
    open_calls: set[asyncio.Task[None]] = set()

    async def make(call: DemoCall) -> None:
        nonlocal answered, head
        answer = await proxy.send(call.method, msgspec.json.encode(call.params), timeout=_TIMEOUT)
        if isinstance(answer, Failure) or answer.result is None:
            return
        answered += 1
        if call.method == "hmyv2_blockNumber":
            head = max(head, int(bytes(answer.result)))

    await make(DemoCall("hmyv2_blockNumber", []))
    while not await stopped(stop, rng.expovariate(rate)):
        if len(open_calls) < _AT_ONCE:
            task = asyncio.create_task(make(draw(rng, world, head)))
            open_calls.add(task)
            task.add_done_callback(open_calls.discard)
    for task in open_calls:
        task.cancel()
    await asyncio.gather(*open_calls, return_exceptions=True)
    return answered


async def stopped(stop: asyncio.Event, seconds: float) -> bool:
    """Whether it was stopped within this time."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return False
    return True
