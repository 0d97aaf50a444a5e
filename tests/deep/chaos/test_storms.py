"""One of three nodes goes bad under load: no call that may be repeated fails, and the others soon carry it alone.

Each prints its figures: healthy, while it goes wrong, and once the bad node is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from rpcaccel.core.messages import NodeReport
from rpcaccel.simnode.chain.blocks import ChainSpec
from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.services import Program, RedisServer
from tests.support.storm import CALLS, PATIENCE, PATIENCE_A_CALL, Storm, Wave, storm
from tests.support.waiting import until

Hurt = Callable[[SimNode], Awaitable[None]]
Show = Callable[[str], None]


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> Show:
    """Prints past pytest's capture: the figures are what a storm is for."""

    def printed(text: str) -> None:
        with capsys.disabled():
            print(f"\n  {request.node.name}: {text}", end="")

    return printed


def addresses(nodes: Sequence[SimNode]) -> list[tuple[str, str]]:
    return [(node.name, node.url) for node in nodes]


def turn(**positions: Any) -> Hurt:
    async def hurt(node: SimNode) -> None:
        node.knobs.turn(positions)

    return hurt


def put_away(node: NodeReport) -> bool:
    """Is its breaker open, and did its last probe go unanswered?"""
    return "until a probe is answered" in node.refusal


async def spared(run: Storm, node_id: str, show: Show) -> Wave:
    """A wave once the bad node is found out: no client's call goes there, not even as a trial."""
    await run.until(put_away, node_id)
    asked = run.calls_to(node_id)
    after = await run.wave(CALLS // 3)
    show(f"after {after}")
    assert run.calls_to(node_id) == asked
    return after


async def avoided(run: Storm, node_id: str, show: Show) -> Wave:
    """The first wave that brings a bad node no call; those before it bring it some."""
    before = -1
    async with asyncio.timeout(PATIENCE + CALLS * PATIENCE_A_CALL):
        while run.calls_to(node_id) != before:
            await run.until(lambda _: True, node_id)
            before = run.calls_to(node_id)
            after = await run.wave(CALLS // 3)
            assert not after.wrong
    show(f"after {after}")
    return after


async def weather(
    run: Storm, hurt: Callable[[], Awaitable[None]], show: Show, met: Callable[[], bool] = lambda: True
) -> tuple[Wave, Wave]:
    """Healthy, and going wrong until the calls have `met` it."""
    calm = await run.wave(CALLS // 3)
    await hurt()
    bad = await run.wave(CALLS, enough=met)
    show(f"calm {calm} | bad {bad} | {run.failures()}")
    return calm, bad


PROBED = {"killed", "answering garbage", "half bodies", "empty bodies", "HTML 502s", "wrong ids"}
"""What the prober meets as well."""
SLOW = "2 s latency"
"""What is no failure."""
CASES: dict[str, Hurt] = {
    "killed": lambda node: node.kill(),
    "answering garbage": turn(faults={"garbage": 1.0}),
    "half bodies": turn(faults={"half_body": 1.0}),
    "empty bodies": turn(faults={"empty": 1.0}),
    "HTML 502s": turn(faults={"html": 1.0}),
    "wrong ids": turn(faults={"wrong_id": 1.0}),
    "30 % errors": turn(faults={"unavailable": 0.1, "html": 0.1, "reset": 0.1}),
    SLOW: turn(latency="2s"),
    "rate limited": turn(faults={"rate_limit": 0.7, "too_many": 0.3}),
}


@pytest.mark.parametrize("case", CASES)
async def test_one_of_three_goes_bad_and_no_call_fails(case: str, show: Show) -> None:
    async with harmony_nodes(3, latency="2ms") as nodes, storm(addresses(nodes)) as run:
        bad_node = nodes[0].name
        calm, bad = await weather(
            run, lambda: CASES[case](nodes[0]), show, lambda: case == SLOW or run.failed_at(bad_node) > 0
        )
        after = await (spared(run, bad_node, show) if case in PROBED else run.wave(CALLS // 3))
        assert not calm.wrong + bad.wrong + after.wrong


async def test_a_node_that_lags_is_not_asked_about_the_newest_blocks(show: Show) -> None:
    async with harmony_nodes(3) as nodes, storm(addresses(nodes)) as run:
        head = nodes[0].head
        nodes[0].knobs.turn({"lag": 50})
        await run.until(lambda node: node.head <= head - 25, nodes[0].name)
        asked = run.calls_to(nodes[0].name)
        wave = await run.wave(CALLS, newest=lambda: head)
        show(f"{wave} | {run.calls_to(nodes[0].name) - asked} calls to the lagging node")
        assert not wave.wrong
        assert run.calls_to(nodes[0].name) == asked


async def test_a_node_of_another_chain_gets_no_call(show: Show) -> None:
    async with harmony_nodes(3) as nodes:
        nodes[0].knobs.turn({"chain_id": 1, "network_id": 1})
        async with storm(addresses(nodes)) as run:
            wave = await run.wave(CALLS)
            show(f"{wave} | {run.calls_to(nodes[0].name)} calls to it")
            assert not wave.wrong
            assert run.calls_to(nodes[0].name) == 0


async def test_a_node_that_comes_and_goes_costs_no_call(show: Show) -> None:
    async with harmony_nodes(3, latency="2ms") as nodes, storm(addresses(nodes)) as run:

        async def flap() -> int:
            comings = 0
            while comings < 4 or not run.failed_at(nodes[0].name):
                await nodes[0].kill()
                await run.more(CALLS // 5)
                await nodes[0].start()
                comings += 1
                await run.more(CALLS // 5)
            return comings

        flapping = asyncio.create_task(flap())
        wave = await run.wave(CALLS * 2, enough=flapping.done)
        show(f"{wave} | it came {await flapping} times | {run.failures()}")
        assert not wave.wrong


async def test_with_all_nodes_down_errors_wait_for_no_deadline_and_recovery_needs_nobody(show: Show) -> None:
    async with harmony_nodes(3) as nodes, storm(addresses(nodes), net={"deadline": "1h"}) as run:
        assert not (await run.wave(60)).wrong
        for node in nodes:
            await node.kill()
        down = await run.wave(60)  # which ends long before an hour is over
        for node in nodes:
            await node.start()
        back = asyncio.get_running_loop().time()
        async with asyncio.timeout(PATIENCE):
            while await run.ask(5, 5):
                await asyncio.sleep(0.02)  # between two calls: how long nodes stay unasked is what is shown
        took = asyncio.get_running_loop().time() - back
        well = await run.wave(60)
        show(f"down {down} | recovered after {took:.2f} s | {well}")
        assert sum(down.wrong.values()) == 60
        assert not well.wrong


async def test_a_node_that_freezes_fails_no_call_and_holds_none_up_once_it_is_found_out(
    show: Show, new_program: Callable[..., Program], free_port: Callable[[], int]
) -> None:
    port, spec = free_port(), ChainSpec()
    frozen = new_program("simnode", "--port", str(port))
    await asyncio.to_thread(frozen.wait_for, "knobs at")
    twins = [SimNode(SimChain(spec), name=f"node-{number}") for number in (1, 2)]
    async with twins[0], twins[1]:
        nodes = [("frozen", f"http://127.0.0.1:{port}"), *addresses(twins)]
        async with storm(nodes) as run:

            async def freeze() -> None:
                frozen.pause()

            try:
                calm, bad = await weather(run, freeze, show)
                after = await avoided(run, "frozen", show)
            finally:
                frozen.resume()
            assert not calm.wrong + bad.wrong + after.wrong


async def test_a_frozen_redis_fails_no_call_and_holds_none_up_once_it_is_found_out(
    show: Show, new_redis: Callable[..., RedisServer]
) -> None:
    redis = new_redis()
    async with harmony_nodes(3, latency="2ms") as nodes, storm(addresses(nodes), redis={"url": redis.url}) as run:

        async def freeze() -> None:
            redis.freeze()

        try:
            calm, bad = await weather(run, freeze, show, lambda: not run.redis.up)
            waited = run.redis.timeouts
            after = await run.wave(CALLS // 3)
            show(f"after {after} | {waited} reads of Redis were given up")
            assert run.redis.timeouts == waited
        finally:
            redis.thaw()
        assert not calm.wrong + bad.wrong + after.wrong


async def test_thirty_calls_that_hang_hold_up_no_light_read(show: Show) -> None:
    endless = {"method_work": {"hmyv2_getTransactionsHistory": "1000s"}}
    async with harmony_nodes(2, latency="2ms") as nodes:
        patient = [{"id": node.name, "url": node.url, "timeout": "900s"} for node in nodes]
        async with storm(addresses(nodes), connections=0, net={"nodes": patient, "deadline": "1000s"}) as run:
            calm = await run.wave(CALLS // 3)
            for node in nodes:
                node.knobs.turn(endless)
            hanging = [asyncio.create_task(run.history(number)) for number in range(30)]
            await until(lambda: sum(node.in_flight for node in run.nodes()) >= 30, within=PATIENCE)
            bad = await run.wave(CALLS)
            show(f"calm {calm} | thirty calls hanging {bad}")
            assert not any(call.done() for call in hanging), "or nothing hung"
            assert not calm.wrong + bad.wrong
            assert [node.breaker for node in run.nodes()] == ["closed", "closed"]
            for call in hanging:
                call.cancel()
            await asyncio.gather(*hanging, return_exceptions=True)
