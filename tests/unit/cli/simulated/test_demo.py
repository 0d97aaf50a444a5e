"""`rpcaccel demo`, with a stand-in for the proxy: a node of its own, since a node answers what a proxy does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence

import pytest

from rpcaccel.cli.simulated.demo import look_around
from rpcaccel.config.model import Settings
from rpcaccel.controlplane.supervisor import RunningInfo
from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode


def settings_for(nodes: Sequence[SimNode]) -> Settings:
    return Settings.model_validate(
        {"networks": {"harmony-s0": {"nodes": [f"{node.url},id={node.name}" for node in nodes]}}}
    )


class Proxy:
    """Serves through a simulated node until it was asked often enough."""

    def __init__(self, node: SimNode, enough: int) -> None:
        self.node = node
        self.enough = enough
        self.served: list[str] = []

    async def __call__(self, settings: Settings, *, banner: Callable[[RunningInfo], None], stop: asyncio.Event) -> int:
        self.served = [node.id for node in settings.networks["harmony-s0"].nodes]
        banner(RunningInfo(settings, f"127.0.0.1:{self.node.port}", "127.0.0.1:2"))
        async with asyncio.timeout(10):
            while self.node.counts.requests < self.enough:
                await asyncio.sleep(0.01)
        stop.set()
        return 0


async def test_three_nodes_the_proxy_and_traffic_run_and_end_together() -> None:
    said: list[str] = []
    async with harmony_nodes(1) as (node,):
        proxy = Proxy(node, enough=20)
        assert await look_around(settings_for, proxy, seed=1, rate=500, say=said.append) == 0
        assert node.counts.requests >= 20
    assert len(proxy.served) == len(set(proxy.served)) == 3
    text = "\n".join(said)
    for part in (
        f"http://127.0.0.1:{node.port}/",
        "http://127.0.0.1:2/",
        "curl -s ",
        "500 calls a second",
        *proxy.served,
    ):
        assert part in text


async def test_with_json_logs_the_demo_begins_with_a_line_of_json() -> None:
    said: list[str] = []

    def told_in_json(nodes: Sequence[SimNode]) -> Settings:
        settings = settings_for(nodes)
        return settings.model_copy(update={"log": settings.log.model_copy(update={"format": "json"})})

    async with harmony_nodes(1) as (node,):
        assert await look_around(told_in_json, Proxy(node, enough=0), seed=1, rate=0, say=said.append) == 0
    (line,) = said
    assert len(json.loads(line)["networks"]["harmony-s0"]["nodes"]) == 3


async def test_without_traffic_nothing_is_called() -> None:
    said: list[str] = []
    async with harmony_nodes(1) as (node,):
        assert await look_around(settings_for, Proxy(node, enough=0), seed=1, rate=0, say=said.append) == 0
        assert node.counts.requests == 0
    assert any("none" in line for line in said)


async def test_a_proxy_that_does_not_start_ends_the_demo_with_its_error() -> None:
    async def broken(settings: Settings, *, banner: Callable[[RunningInfo], None], stop: asyncio.Event) -> int:  # noqa: ARG001
        raise RuntimeError("taken")

    with pytest.raises(RuntimeError, match="taken"):
        await look_around(settings_for, broken, seed=1, rate=1)
