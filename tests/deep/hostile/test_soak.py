"""Steady, mixed and partly hostile traffic leaves nothing behind: no memory, tasks, sockets or series.

What is remembered on purpose (plans, clients' addresses) is bounded in number, each in its own tests; here its variety
is small, so that after a while whatever still grows is a leak.
Some seconds in the suite; `make soak` goes on for minutes.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import orjson

from rpcaccel.controlplane.stats.prometheus import render, usage
from rpcaccel.controlplane.stats.snapshot import Frame
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.dataplane.conversation import HEAD, Conversation, Left, call
from tests.support.proxy import Proxy, proxying
from tests.support.waiting import until

SECONDS = int(os.environ.get("SOAK_SECONDS", "5"))
RATE = 150
"""Requests a second."""
WARM = 2
"""Samples, the first, that are of a program which is not warm yet, however short the run is."""
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
            await asyncio.sleep(
                self._chance.random() * 0.01
            )  # leaving before, while and after the node answers is what is tried

    async def _anonymous(self) -> None:
        address = f"10.0.0.{self._chance.randrange(256)}"
        await self._proxy.post(call(1).partition(b"\r\n\r\n")[2], X_Forwarded_For=address)


async def soak(proxy: Proxy, seconds: int) -> list[Sample]:
    """A sample after each second's requests, when all of them are answered: a busy machine makes a second longer, and
    the number of requests and samples no other."""
    traffic, samples = Traffic(proxy), []
    loop = asyncio.get_running_loop()
    failures: list[object] = []
    loop.set_exception_handler(lambda _loop, context: failures.append(context))
    started = loop.time()
    head = proxy.nodes[0].head
    for second in range(seconds):
        async with asyncio.timeout(60), asyncio.TaskGroup() as running:
            for _ in range(RATE):
                running.create_task(traffic.one())
                await asyncio.sleep(max(0.0, started + traffic.sent / RATE - loop.time()))  # a steady rate is meant
        proxy.see(head - second % 3)
        samples.append(sample(proxy))
    assert failures == []
    return samples


async def test_nothing_grows_under_steady_traffic() -> None:
    clients = {"anonymous": {"rate": 10_000}, "trusted_proxies": "127.0.0.1"}
    more = {"clients": clients, "memory": {"size": "100kB", "max_entry": "50kB"}}
    async with harmony_nodes(2) as nodes, proxying(nodes, **more) as proxy:
        samples = await soak(proxy, SECONDS)
        began = max(WARM, len(samples) // 3)
        early, late = (
            {name: median(getattr(one, name) for one in part) for name in Sample.__annotations__}
            for part in (samples[began - 1 : max(began, len(samples) // 2)], samples[-max(1, len(samples) // 6) :])
        )
        print(f"soak {SECONDS} s: early {early}, late {late}")
        assert late["series"] <= early["series"] + 60  # a method may meet a source for the first time
        assert late["resident"] <= early["resident"] + (10 << 20)
        # What clients began that left goes on for a moment.
        await until(lambda: proxy.worker.report().flights == 0, within=60)
        await until(lambda: sample(proxy).tasks <= early["tasks"] + 10, within=60)
        await until(lambda: sample(proxy).files <= early["files"] + 4, within=60)
        assert proxy.worker.report().tally.in_flight == 0
