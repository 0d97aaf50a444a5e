"""Some minutes of steady, mixed and partly hostile traffic leave nothing behind: no memory, tasks, sockets or series.

What is remembered on purpose (plans, clients' addresses) is bounded in number, each in its own tests; here its variety
is small, so that after a while whatever still grows is a leak.
A minute in the suite; SOAK_SECONDS says otherwise.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import random
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import orjson
import pytest

from rpcaccel.controlplane.metrics import render
from rpcaccel.controlplane.process import usage
from rpcaccel.controlplane.view import Frame
from rpcaccel.testing.factories import harmony_nodes
from tests.hostile.raw import HEAD, Conversation, Left, call
from tests.proxy import Proxy, proxying
from tests.stores.settings import until

SECONDS = float(os.environ.get("SOAK_SECONDS", "60"))
RATE = 150
"""Requests a second."""
BLOCK = "hmyv2_getBlockByNumber"


@dataclass(frozen=True)
class Sample:
    resident: int
    tasks: int
    files: int
    series: int
    objects: int


def sample(proxy: Proxy) -> Sample:
    gc.collect()
    used = usage(os.getpid())
    assert used is not None
    tally = proxy.worker.report().tally
    text = render(Frame(snapshot=tally, nodes=(), heads=(), workers=()))
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    files = len(list(Path("/proc/self/fd").iterdir()))
    # Pooled connections come and go with the load; both ends of each, and the simulated node's task for it, are here.
    pooled = sum(node.connections_open for node in tally.nodes)
    tasks = len(asyncio.all_tasks()) - pooled
    return Sample(used.resident, tasks, files - 2 * (pooled + tally.connections), series, len(gc.get_objects()))


class Traffic:
    """One kind of request after another, chosen by chance."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._chance = random.Random(1)
        self.sent = 0

    async def one(self) -> None:
        self.sent += 1
        kind = self._chance.choices(
            [self._hit, self._miss, self._batch, self._stranger, self._garbage, self._leaver, self._anonymous],
            [50, 20, 5, 5, 5, 5, 10],
        )[0]
        await kind()

    def _number(self) -> int:
        return self._chance.randrange(150)

    def _account(self) -> str:
        return f"0x{self._chance.randrange(400):040x}"

    async def _hit(self) -> None:
        await self._proxy.call(BLOCK, 26, {})

    async def _miss(self) -> None:
        # More addresses than there is room for: what is kept makes others go.
        await self._proxy.call("hmyv2_getBalance", self._account())

    async def _batch(self) -> None:
        items = [{"id": n, "method": BLOCK, "params": [self._number(), {}]} for n in range(40)]
        await self._proxy.post(orjson.dumps(items))

    async def _stranger(self) -> None:
        await self._proxy.call(f"made_up_{self._chance.randrange(100)}")

    async def _garbage(self) -> None:
        async with Conversation.open(self._proxy.worker.port) as conversation:
            conversation.send(HEAD + self._chance.randbytes(30) + b"\r\n\r\n")
            try:
                await conversation.answer()
            except Left:
                return

    async def _leaver(self) -> None:
        async with Conversation.open(self._proxy.worker.port) as conversation:
            conversation.send(call(1, "hmyv2_getBalance", params=[self._account()]))
            await asyncio.sleep(self._chance.random() * 0.01)

    async def _anonymous(self) -> None:
        address = f"10.0.0.{self._chance.randrange(256)}"
        await self._proxy.post(call(1).partition(b"\r\n\r\n")[2], X_Forwarded_For=address)


async def soak(proxy: Proxy, seconds: float) -> list[Sample]:
    traffic, samples = Traffic(proxy), []
    loop = asyncio.get_running_loop()
    failures: list[object] = []
    loop.set_exception_handler(lambda _loop, context: failures.append(context))
    started = loop.time()
    running: set[asyncio.Task[None]] = set()
    head = proxy.nodes[0].head
    for second in itertools.count(1):
        for _ in range(RATE):
            task = asyncio.create_task(traffic.one())
            running.add(task)
            task.add_done_callback(running.discard)
            await asyncio.sleep(max(0.0, started + traffic.sent / RATE - loop.time()))
        async with asyncio.timeout(30):
            await asyncio.gather(*running)
        proxy.see(head - second % 3)
        samples.append(sample(proxy))
        if loop.time() - started > seconds:
            assert failures == []
            return samples
    raise AssertionError


@pytest.mark.slow
async def test_nothing_grows_under_steady_traffic() -> None:
    clients = {"anonymous": {"rate": 10_000}, "trusted_proxies": "127.0.0.1"}
    more = {"clients": clients, "memory": {"size": "100kB", "max_entry": "50kB"}}
    async with harmony_nodes(2) as nodes, proxying(nodes, **more) as proxy:
        samples = await soak(proxy, SECONDS)
        early, late = samples[len(samples) // 3 : len(samples) // 2], samples[-len(samples) // 6 :]
        told = {
            name: (median(getattr(one, name) for one in early), median(getattr(one, name) for one in late))
            for name in Sample.__annotations__
        }
        print(f"soak {SECONDS:g} s: {told}")
        assert told["series"][1] <= told["series"][0] + 60  # a method may meet a source for the first time
        assert told["tasks"][1] <= told["tasks"][0] + 10
        assert told["files"][1] <= told["files"][0] + 4
        assert told["resident"][1] - told["resident"][0] < 10 << 20
        # What clients began that left goes on for a moment.
        await until(lambda: proxy.worker.report().flights == 0)
        assert proxy.worker.report().tally.in_flight == 0
