"""`rpcaccel demo`: three simulated nodes, the proxy and a little traffic, to look around in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from random import Random
from typing import TYPE_CHECKING, Annotated

import typer

from rpcaccel.cli import options, serve
from rpcaccel.config.load import UrlNetwork

if TYPE_CHECKING:
    from rpcaccel.config.model import Settings
    from rpcaccel.controlplane.supervisor import RunningInfo
    from rpcaccel.simnode.server.sim_server import SimNode

TRY = (
    "curl -s http://{}/ -H 'Content-Type: application/json'"
    """ -d '{{"jsonrpc":"2.0","id":1,"method":"hmyv2_blockNumber","params":[]}}'"""
)


Serve = Callable[..., Awaitable[int]]
"""`controlplane.run.serve`: calls `banner` when it takes calls, drains on a signal or when `stop` is set, and returns
the exit code."""


def demo(  # noqa: PLR0913, PLR0917 -- an argument for each flag
    listen: options.ListenAddress = None,
    admin: options.AdminListen = None,
    redis: options.Redis = None,
    balancer: options.BalancerName = None,
    memory: options.Memory = None,
    disk: options.Disk = None,
    disk_size: options.DiskSize = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the simulated chain and of the traffic.")] = 1,
    traffic: Annotated[
        float, typer.Option(min=0.0, max=1000.0, metavar="N", help="Built-in calls a second; 0 for none.")
    ] = 20.0,
) -> int:
    """Look around: three simulated Harmony nodes, the proxy with its page, and a little traffic. Ctrl-C ends it.

    Examples:
    rpcaccel demo
    rpcaccel demo --listen 127.0.0.1:9000 --redis redis://127.0.0.1
    """

    def settings_for(nodes: Sequence[SimNode]) -> Settings:
        # The nodes get names, since three ports of one address would tell the reader of the page nothing.
        named = tuple(f"{node.url},id={node.name}" for node in nodes)
        source = options.NodeSource([UrlNetwork("harmony-s0", "harmony", 0, named)])
        given = {
            "listen": listen,
            "admin": admin,
            "redis": redis,
            "balancer": balancer,
            "memory": memory,
            "disk": disk,
            "disk_size": disk_size,
        }
        return options.settings_from(source, **given)

    from rpcaccel.controlplane import run
    from rpcaccel.dataplane import event_loop, output

    output.shield("stdout")
    return event_loop.run(look_around(settings_for, run.serve, seed=seed, rate=traffic))


async def look_around(
    settings_for: Callable[[Sequence[SimNode]], Settings],
    serving: Serve,
    *,
    seed: int,
    rate: float,
    say: Callable[[str], None] = typer.echo,
) -> int:
    """Run nodes, proxy and traffic until a signal; returns the proxy's exit code. Raises what `serving` raises."""
    from rpcaccel.simnode.chain.blocks import ChainSpec
    from rpcaccel.simnode.server.factories import demo_nodes

    stop = asyncio.Event()
    async with AsyncExitStack() as running:
        nodes = demo_nodes(ChainSpec(seed=seed))
        for node in nodes:
            await running.enter_async_context(node)

        def up(info: RunningInfo) -> None:
            if info.settings.log.format == "json":
                say(serve.as_log(serve.SERVES, "info", serve.document(info)))
            else:
                for line in lines(info, nodes, rate):
                    say(line)
            if rate > 0:
                busy = asyncio.create_task(_traffic(info.listen, nodes[0], Random(seed), stop, rate))
                listening = asyncio.create_task(_subscriber(info.listen, stop))
                running.push_async_callback(asyncio.wait, {busy, listening})
                running.callback(stop.set)

        return await serving(settings_for(nodes), banner=up, stop=stop)


def lines(info: RunningInfo, nodes: Sequence[SimNode], rate: float) -> list[str]:
    """The lines of the demo's banner: addresses, nodes, traffic, and a call to try."""
    simulated = ", ".join(f"{node.name} {node.url} ({node.knobs.latency.mean * 1000:.0f} ms)" for node in nodes)
    return [
        *serve.lines(info.settings, info.listen, info.admin),
        f"  simulated      {simulated}",
        f"  traffic        {f'{rate:g} calls a second, one subscriber' if rate > 0 else 'none'}",
        f"  try            {TRY.format(serve.reachable(info.listen))}",
        "Ctrl-C ends it.",
    ]


async def _traffic(listen: str, node: SimNode, rng: Random, stop: asyncio.Event, rate: float) -> None:
    from rpcaccel.bench.load.workload import World
    from rpcaccel.cli.simulated import traffic
    from rpcaccel.simnode.chain import addresses

    made = node.chain.generator
    contract, validators = addresses.to_hex(made.contract), tuple(map(addresses.to_one, made.validators))

    def world() -> World:
        return World("harmony", node.head, contract, (contract,), validators)

    await traffic.run(f"http://{serve.reachable(listen)}/", world, rng=rng, stop=stop, rate=rate)


async def _subscriber(listen: str, stop: asyncio.Event) -> None:
    from rpcaccel.cli.simulated import traffic

    await traffic.subscribe(f"ws://{serve.reachable(listen)}/", stop)
