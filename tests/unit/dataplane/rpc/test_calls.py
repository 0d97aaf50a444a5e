"""From body to body, below HTTP."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
import tracemalloc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from rpcaccel.config.sections import HttpSettings
from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.client_limits import Client
from rpcaccel.core.plan import filter_id
from rpcaccel.dataplane.event_loop import TURN_SECONDS
from rpcaccel.dataplane.rpc.admission import Caller, PathRoute
from rpcaccel.dataplane.rpc.calls import Calls
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.fleet import gated_nodes
from tests.support.proxy import Proxy, proxying, settings_for


@asynccontextmanager
async def answering(*, gated: bool = False, **http: int) -> AsyncIterator[tuple[Proxy, Calls, PathRoute]]:
    """A worker over one node, what answers bodies there by these settings, and the path of the main network."""
    async with gated_nodes() if gated else harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        settings = HttpSettings.model_validate(http)
        calls = Calls(proxy.worker.engine, proxy.worker.live, time.monotonic, settings)
        yield proxy, calls, proxy.worker._front.routes["/"]


async def test_a_batch_has_only_so_many_items_at_the_nodes_at_once() -> None:
    async with answering(gated=True, batch_at_once=20) as (proxy, calls, route):
        proxy.nodes[0].hold("hmyv2_getBlockByNumber")
        items = [{"id": n, "method": "hmyv2_getBlockByNumber", "params": [n, {}]} for n in range(150)]
        answer = asyncio.create_task(calls.answer(json.dumps(items).encode(), route))
        await proxy.nodes[0].arrived.wait()
        assert len(proxy.worker.engine.flights) == 20
        proxy.nodes[0].release()
        assert len(json.loads((await answer).body)) == 150


async def test_what_failed_towards_the_nodes_sets_the_http_status_of_a_single_call_only() -> None:
    async with answering() as (proxy, calls, route):
        await proxy.nodes[0].kill()
        one = b'{"id":1,"method":"hmyv2_getBlockByNumber","params":[5,{}]}'
        assert (await calls.answer(one, route)).http == 502  # type: ignore[arg-type]
        batch = await calls.answer(b"[" + one + b"]", route)
        assert batch.http == 200
        assert json.loads(batch.body)[0]["error"]["code"] == -32603


async def test_a_bug_that_a_later_turn_of_a_batch_meets_keeps_nobody_waiting() -> None:
    class Stumbling:
        """A guest over whose second call the proxy stumbles."""

        calls, cell = 0, SimpleNamespace(answered=lambda *_: None)

        def batch(self, _calls: int) -> None: ...

        def call(self, _method: str, _heavy: bool, _now: float) -> None:
            self.calls += 1
            if self.calls > 1:
                raise KeyError("a bug")

    async with answering() as (_, calls, route):
        ticks = count(1.0)  # so that each item is a turn of its own
        calls.clock = lambda: next(ticks)
        guest: Client = Stumbling()  # type: ignore[assignment]
        with pytest.raises(KeyError):
            async with asyncio.timeout(20):
                await calls.answer(batch_of([26, 27]), route, Caller(guest=guest))


async def test_a_long_batch_lets_others_have_their_turn() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        await proxy.call("hmyv2_getBlockByNumber", 26, {})
        ticks = itertools.count()
        answering = Calls(
            proxy.worker.engine, proxy.worker.live, lambda: next(ticks) * TURN_SECONDS / 10, HttpSettings()
        )
        routes = proxy.worker._front.routes
        item = b'{"id":1,"method":"hmyv2_getBlockByNumber","params":[26,{}]}'
        batch = asyncio.create_task(answering.answer(b"[" + b",".join([item] * 1000) + b"]", routes["/"]))
        turns = 0
        while not batch.done():
            await asyncio.sleep(0)
            turns += 1
        assert len(json.loads(batch.result().body)) == 1000
        assert turns > 50


async def test_the_steps_of_a_call_are_counted_for_its_method_and_a_hit_has_none() -> None:
    async with answering() as (proxy, calls, route):
        proxy.nodes[0].knobs.turn({"latency": "5ms"})
        body = b'{"jsonrpc":"2.0","id":1,"method":"hmyv2_getBlockByNumber","params":[7,{}]}'

        async def spent() -> dict[str, int]:
            await calls.answer(body, route)
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
                assert network.planner.uses(asked, b"[%d]" % number) is None
        assert sum(node.counts.asked(name) + node.counts.asked("hmyv2_" + name) for node in nodes) == 0


@pytest.mark.parametrize(("path", "method"), [("/", "hmyv2_getBlockByNumber"), ("/api/v1/hmy/v2", "getBlockByNumber")])
async def test_a_method_is_refused_and_accepted_as_the_settings_change(path: str, method: str) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        for revision, denied in enumerate((False, True, False, True), 2):
            http = {"deny": ["hmyv2_get*"]} if denied else {}
            proxy.worker.adopt(settings_for(proxy.nodes, http=http), revision)
            proxy.see()
            for _ in range(3):
                reply = (
                    await proxy.post(json.dumps({"id": 1, "method": method, "params": [revision, {}]}).encode(), path)
                ).json
                assert ("error" in reply) == denied


BLOCK = b'{"id":%d,"method":"hmyv2_getBlockByNumber","params":[%d,{"fullTx":true}]}'


def batch_of(numbers: Sequence[int], first: int = 0) -> bytes:
    return b"[%b]" % b",".join(BLOCK % (first + at, number) for at, number in enumerate(numbers))


async def sizes(calls: Calls, route: PathRoute) -> int:
    """Bytes of one block, as a node has just said it."""
    answered = await calls.answer(BLOCK % (1, 26), route)
    return len(answered.outcomes[0].result or b"")


def ends(body: bytes) -> list[tuple[int, int]]:
    """Of each answer of a batch the id, and the code of its error, 0 for none."""
    return [(reply["id"], reply["error"]["code"] if "error" in reply else 0) for reply in json.loads(body)]


async def test_what_a_batch_has_no_room_for_is_answered_with_an_error_each_in_order() -> None:
    async with answering() as (proxy, calls, route):
        size = await sizes(calls, route)
        calls.settings = HttpSettings(max_batch_answer=3 * size + 10)
        for _ in range(3):  # the long way, and by what is known since
            answered = await calls.answer(batch_of([26] * 10), route)
            assert ends(answered.body) == [(n, 0) for n in range(3)] + [(n, -32003) for n in range(3, 10)]
        assert "response too large" in json.loads(answered.body)[-1]["error"]["message"]
        assert proxy.worker.report().tally.refusals == {"batch-answer-too-large": 3}


async def test_nothing_more_is_fetched_for_a_batch_that_has_no_room() -> None:
    async with answering() as (proxy, calls, route):
        size = await sizes(calls, route)
        calls.settings = HttpSettings(max_batch_answer=size * 2, batch_at_once=2)
        before = proxy.asked("hmyv2_getBlockByNumber")
        answered = await calls.answer(batch_of(range(100, 150)), route)
        told = ends(answered.body)
        assert [call_id for call_id, _ in told] == list(range(50))
        assert 0 < sum(not code for _, code in told) <= 3
        assert {code for _, code in told} == {0, -32003}
        assert proxy.asked("hmyv2_getBlockByNumber") - before <= 5
        cells = {cell.method: cell for cell in proxy.worker.report().tally.cells}
        misses = sum(cells["hmyv2_getBlockByNumber"].misses.values())
        assert misses == proxy.asked("hmyv2_getBlockByNumber"), "what is not fetched is no miss"


async def test_what_was_done_is_told_though_the_batch_has_no_room_left() -> None:
    async with answering(max_batch_answer=1) as (_, calls, route):
        ask = b'[{"id":1,"method":"net_peerCount"},{"id":2,"method":"net_peerCount"}]'
        answered = await calls.answer(ask, route)
        assert ends(answered.body) == [(1, 0), (2, 0)]


async def test_answers_that_nobody_is_shown_are_not_held_and_take_no_room() -> None:
    async with answering() as (_, calls, route):
        size = await sizes(calls, route)
        calls.settings = HttpSettings(max_batch_answer=size + 10)
        silent = [(BLOCK % (1, number)).replace(b'"id":1,', b"") for number in (26, 27, 28)]
        answered = await calls.answer(b"[%b]" % b",".join([*silent, BLOCK % (9, 26)]), route)
        assert ends(answered.body) == [(9, 0)]
        assert [outcome.result for outcome in answered.outcomes[:3]] == [b""] * 3


async def test_a_batch_of_kept_answers_is_put_together_in_one_copy() -> None:
    async with answering(max_batch_answer=10_000_000) as (proxy, calls, route):
        plan = route.network.plan("hmyv2_getBlockByNumber", b'[26,{"fullTx":true}]')
        entry = Entry(result=b'"%b"' % (b"x" * 1_000_000), cache=plan.cache, network="n", method="m", stored_at=0.0)
        assert plan.key is not None
        proxy.worker.engine.memory.put(plan.key, entry, 0.0)
        body = batch_of([26] * 300)
        tracemalloc.start()
        answered = await calls.answer(body, route)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert 9_000_000 < len(answered.body) < 10_100_000
        assert peak < 12_000_000


async def test_items_that_are_answered_at_once_while_others_wait_are_as_many_as_a_batch_may_have() -> None:
    async with answering() as (_, calls, route):
        gone = "0x1" + filter_id.tag("harmony-s0", "gone").decode()
        items: list[dict[str, object]] = [
            {"id": n, "method": "hmyv2_getBlockByNumber", "params": [n, {}]} for n in range(64)
        ]
        items += [{"id": n, "method": "eth_getFilterChanges", "params": [gone]} for n in range(64, 964)]
        answered = await calls.answer(json.dumps(items).encode(), route)
        assert sorted(reply["id"] for reply in json.loads(answered.body)) == list(range(964))


async def test_an_item_that_waited_for_others_over_a_reorganisation_is_planned_again() -> None:
    async with answering(gated=True, batch_at_once=1) as (proxy, calls, route):
        proxy.nodes[0].hold("eth_gasPrice")
        body = b'[{"id":1,"method":"eth_gasPrice"},{"id":2,"method":"hmyv2_gasPrice"}]'
        answer = asyncio.create_task(calls.answer(body, route))  # type: ignore[arg-type]
        await proxy.nodes[0].arrived.wait()
        proxy.nodes[0].chain.advance()
        proxy.see(fork_epoch=1)
        proxy.nodes[0].release()
        assert [outcome.block for outcome in (await answer).outcomes][1] == proxy.nodes[0].head
