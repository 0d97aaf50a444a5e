"""What sharing costs the Redis of 2, 10 and 100 hosts that have nothing to tell but what they are like.

    python -m benchmarks.host_exchange [--seconds 30] [--hosts 2,10,100]

The hosts are tasks of one process with a connection each, as in the program; Redis is a real redis-server on loopback,
and its own counters tell the commands (those inside of a script too: an exchange is one EVAL of five), the bytes and
the time that it used. *Exchange* is what hosts tell of
themselves; *polling* is the look at the settings and purges five times a second.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import Struct

from rpcaccel.config.model import RedisSettings
from rpcaccel.controlplane.host_exchange import HostExchange
from rpcaccel.controlplane.settings.sharing import EVERY
from rpcaccel.controlplane.stats.host_report import HostReport, encoded
from rpcaccel.stores.redis.board import Board
from rpcaccel.stores.tasks import cancel_and_wait
from tests.support.services import RedisServer

NETWORKS = 4


class Used(Struct, frozen=True):
    """What Redis did in a while, each second."""

    commands: float
    received: float
    sent: float
    share: float
    """Of a core."""

    def line(self, what: str, hosts: int, here: float) -> str:
        """A line of the table; `here`: the share of a core that all hosts together used for it."""
        kilobytes = f"{self.received / 1e3:9.1f} {self.sent / 1e3:9.1f}"
        return (
            f"{what:9} {hosts:5} {self.commands:10.1f} {kilobytes} {100 * self.share:9.2f} {100 * here / hosts:11.3f}"
        )


HEAD = "what      hosts commands/s   kB/s in  kB/s out   Redis % % of a host"


def report(number: int) -> HostReport:
    """What a host of four networks tells, in about 350 bytes."""
    heads = {f"harmony-s{shard}": 61_204_811 + number for shard in range(NETWORKS)}
    return HostReport(
        name=f"rpcaccel-6c9f7d8b54-{number:05d}",
        version="0.2.0",
        uptime=86_400.5,
        page=f"http://10.0.0.{number}:8889/",
        workers=4,
        window=10.01,
        calls=182_400,
        accepted=182_000,
        hits=176_900,
        errors=4,
        miss_p99=0.1824,
        heads=heads,
        networks=NETWORKS,
        revision=17,
        purges_late=0.1834,
    )


def counted(redis: RedisServer) -> tuple[float, float, float, float]:
    """Commands, bytes received, bytes sent and seconds of the processor since the start."""
    told = redis.reply("INFO", "all").decode()
    names = ("total_commands_processed", "total_net_input_bytes", "total_net_output_bytes")
    numbers = [float(found[1]) for name in names if (found := re.search(rf"{name}:(\d+)", told))]
    spent = sum(float(found) for found in re.findall(r"used_cpu_(?:user|sys):([\d.]+)", told))
    return numbers[0], numbers[1], numbers[2], spent


async def measured(redis: RedisServer, seconds: float) -> tuple[Used, float]:
    """What Redis did over some seconds, and the share of a core that this process used."""
    before, spent, began = counted(redis), time.process_time(), time.monotonic()
    await asyncio.sleep(seconds)
    passed = time.monotonic() - began
    used = [(after - was) / passed for after, was in zip(counted(redis), before, strict=True)]
    return Used(*used), (time.process_time() - spent) / passed


async def polling(settings: RedisSettings, stack: AsyncExitStack) -> None:
    """Look at settings and purges as a host does while nothing changes."""
    board = Board(settings)
    await board.open()
    stack.push_async_callback(board.close)
    place = await board.last()

    async def look() -> None:
        while True:
            await board.mark()
            await board.heard(place)
            await asyncio.sleep(EVERY)

    stack.push_async_callback(cancel_and_wait, asyncio.create_task(look()))


async def exchanging(settings: RedisSettings, stack: AsyncExitStack, number: int) -> None:
    """Tell and hear as a host does."""
    exchange = HostExchange(lambda: report(number))
    await exchange.share(settings)
    stack.push_async_callback(exchange.leave)


async def run(
    what: str, hosts: int, seconds: float, join: Callable[[AsyncExitStack, int], Awaitable[None]], redis: RedisServer
) -> str:
    """Measure so many hosts, once all know each other."""
    async with AsyncExitStack() as stack:
        for number in range(hosts):
            await join(stack, number)
        await asyncio.sleep(12)
        used, here = await measured(redis, seconds)
    return used.line(what, hosts, here)


async def main(arguments: Sequence[str]) -> None:
    """Measure, and print a line for each number of hosts."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--hosts", default="2,10,100")
    options = parser.parse_args(arguments)
    print(f"a document: {len(encoded(report(7)))} bytes\n{HEAD}")
    with tempfile.TemporaryDirectory() as folder, RedisServer(Path(folder)) as redis:
        settings = RedisSettings.model_validate({"url": redis.url, "write_timeout": "5s"})
        for hosts in map(int, options.hosts.split(",")):
            print(
                await run(
                    "exchange", hosts, options.seconds, lambda stack, number: exchanging(settings, stack, number), redis
                )
            )
            print(await run("polling", hosts, options.seconds, lambda stack, _: polling(settings, stack), redis))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
