"""From body to body, below HTTP."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from typing import Any

import pytest

from rpcaccel.config.model import HttpSettings
from rpcaccel.dataplane.calls import TURN, Calls
from rpcaccel.testing.factories import harmony_nodes
from tests.proxy import Proxy, proxying


def calls(proxy: Proxy, **http: int) -> tuple[Calls, dict[str, object]]:
    return Calls(proxy.worker.engine, time.monotonic, HttpSettings.model_validate(http)), dict(
        proxy.worker._front.routes
    )


async def test_a_batch_has_only_so_many_items_at_the_nodes_at_once() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        answering, routes = calls(proxy, batch_at_once=20)
        most = 0

        class Watched:
            """Counts how many calls are at the node at once."""

            def __init__(self, inner: object) -> None:
                self.inner = inner
                self.now = 0

            async def send(self, method: str, params: bytes, *, timeout: float) -> object:
                nonlocal most
                self.now += 1
                most = max(most, self.now)
                try:
                    return await self.inner.send(method, params, timeout=timeout)  # type: ignore[attr-defined]
                finally:
                    self.now -= 1

        pool = proxy.worker.state.networks["harmony-s0"].pool
        pool.upstreams = {name: Watched(inner) for name, inner in pool.upstreams.items()}  # type: ignore[misc]
        items = [{"id": n, "method": "hmyv2_getBlockByNumber", "params": [n % 200, {}]} for n in range(150)]
        answered = await answering.answer(json.dumps(items).encode(), routes["/"], b"")  # type: ignore[arg-type]
        assert len(json.loads(answered.body)) == 150
        assert 1 < most <= 20


async def test_what_failed_towards_the_nodes_sets_the_http_status_of_a_single_call_only() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        answering, routes = calls(proxy)
        await nodes[0].kill()
        one = b'{"id":1,"method":"hmyv2_getBlockByNumber","params":[5,{}]}'
        assert (await answering.answer(one, routes["/"], b"")).http == 502  # type: ignore[arg-type]
        batch = await answering.answer(b"[" + one + b"]", routes["/"], b"")  # type: ignore[arg-type]
        assert batch.http == 200
        assert json.loads(batch.body)[0]["error"]["code"] == -32603


async def test_a_long_batch_lets_others_have_their_turn() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        await proxy.call("hmyv2_getBlockByNumber", 26, {})
        ticks = itertools.count()
        answering = Calls(proxy.worker.engine, lambda: next(ticks) * TURN / 10, HttpSettings())
        routes = proxy.worker._front.routes
        item = b'{"id":1,"method":"hmyv2_getBlockByNumber","params":[26,{}]}'
        batch = asyncio.create_task(answering.answer(b"[" + b",".join([item] * 1000) + b"]", routes["/"], b""))
        turns = 0
        while not batch.done():
            await asyncio.sleep(0)
            turns += 1
        assert len(json.loads(batch.result().body)) == 1000
        assert turns > 50


async def test_the_steps_of_a_call_are_counted_for_its_method_and_a_hit_has_none() -> None:
    async with harmony_nodes(1, latency="5ms") as nodes, proxying(nodes) as proxy:
        answering, routes = calls(proxy)
        body = b'{"jsonrpc":"2.0","id":1,"method":"hmyv2_getBlockByNumber","params":[7,{}]}'

        async def spent() -> dict[str, int]:
            await answering.answer(body, routes["/"], b"")  # type: ignore[arg-type]
            cells = proxy.worker.engine.tally.snapshot().cells
            return next(cell.spent for cell in cells if cell.method == "hmyv2_getBlockByNumber")

        missed = await spent()
        assert missed["forward"] >= 5000
        assert await spent() == missed


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("path", ["/", "/api/v1/hmy/v2"])
@pytest.mark.parametrize(
    ("name", "settings", "code"),
    [
        ("x" * 257, {}, -32600),
        ("x" * 256, {"http": {"deny": ["*x"]}}, -32601),
        ("admin_" + "x" * 250, {}, -32601),
        ("x" * 256, {"clients": {"anonymous": {"allow": ["eth_*"]}}}, -32601),
        ("x" * 256, {"clients": {"anonymous": {"rate": 0.001, "burst": 1}}}, -32005),
    ],
)
async def test_of_a_refused_call_nothing_is_remembered(
    name: str, settings: dict[str, Any], code: int, path: str, batch: bool
) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, **settings) as proxy:
        await proxy.call("eth_chainId")  # all that the rate allows
        network = proxy.worker.state.networks["harmony-s0"]
        for number in range(3):
            call = {"id": 1, "method": name, "params": [number]}
            reply = (await proxy.post(json.dumps([call] if batch else call).encode(), path)).json
            reply = reply[0] if batch else reply
            assert (reply["id"], reply["error"]["code"]) == (1, code)
            assert len(reply["error"]["message"]) < 400
            for asked in (name, "hmyv2_" + name):
                assert network.planner.remembered(asked, b"[%d]" % number) is None
        assert sum(node.counts.asked(name) + node.counts.asked("hmyv2_" + name) for node in nodes) == 0
