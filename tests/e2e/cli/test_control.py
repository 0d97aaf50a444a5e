"""The running program is changed, its workers are killed and renewed, and callers notice nothing they should not."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support import waiting
from tests.support.fleet import Fleet
from tests.support.running import Running, found, until
from tests.support.services import START_SECONDS, Program

ADDRESSES = count()


def node_call() -> bytes:
    """A call that any of the nodes answers: nobody has asked for this address before."""
    params = [f"0x{next(ADDRESSES):040x}", 5]
    call = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_getBalanceByBlockNumber", "params": params}
    return json.dumps(call).encode()


def weights(**by_node: int) -> Any:
    return {"networks": {"harmony-s0": {"nodes": {node: {"weight": weight} for node, weight in by_node.items()}}}}


async def pids(proxy: Running) -> dict[str, int]:
    """The process of each worker that serves."""
    return {one["id"]: one["pid"] for one in (await proxy.api("workers"))["workers"] if one["state"] == "serving"}


class Callers:
    """Clients that call without pause on connections they keep, and note what became of each call."""

    def __init__(self, proxy: Running, count: int = 16, fresh: bool = False) -> None:
        self.answered = 0
        self.failed: list[str] = []
        self.slowest = 0.0
        self._proxy = proxy
        self._count = count
        self._fresh = fresh
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Callers:
        self._tasks = [asyncio.create_task(self._call()) for _ in range(self._count)]
        await waiting.until(lambda: self.answered >= 5 * self._count)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await asyncio.gather(*self._tasks)

    async def _call(self) -> None:
        connector = aiohttp.TCPConnector(limit=1, force_close=self._fresh)
        patience = aiohttp.ClientTimeout(total=START_SECONDS)
        async with aiohttp.ClientSession(connector=connector, timeout=patience) as own:
            while not self._stop.is_set():
                begun = time.monotonic()
                try:
                    async with own.post(self._proxy.url, data=node_call()) as reply:
                        body = await reply.read()
                    if b'"result"' in body:
                        self.answered += 1
                    else:
                        self.failed.append(body.decode())
                except aiohttp.ClientError as error:
                    self.failed.append(repr(error))
                self.slowest = max(self.slowest, time.monotonic() - begun)
                await asyncio.sleep(0.01)  # the workers that start need the processor as well


async def served_by(proxy: Running, calls: int = 60) -> dict[str, int]:
    """Which nodes answered, of so many calls on connections of their own, so that every worker is asked."""
    shares: dict[str, int] = {}
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as own:
        for _ in range(calls):
            async with own.post(proxy.url, data=node_call()) as reply:
                node = reply.headers["X-Rpcaccel-Node"]
                shares[node] = shares.get(node, 0) + 1
    return shares


@pytest.mark.smoke
async def test_a_weight_moves_the_next_calls_of_every_worker(pair: Fleet) -> None:
    proxy = pair.proxy
    begun = time.monotonic()
    told = await proxy.changed(weights(**{"node-0": 0, "node-1": 1, "node-2": 0}))
    took = time.monotonic() - begun
    assert [one["revision"] for one in told["workers"]] == [told["revision"]] * 2
    assert await served_by(proxy) == {"node-1": 60}
    print(f"adopted by two workers in {took * 1000:.1f} ms")
    await proxy.changed(weights(**{"node-0": 3}))
    await proxy.node_in("serving", "node-0")
    shares = await served_by(proxy, 80)
    # Of those 80, 60 and 20, but for what each worker's balancer has begun before.
    assert shares == pytest.approx({"node-0": 60, "node-1": 20}, abs=4)
    await proxy.change({}, "settings/undo", "POST")
    assert await served_by(proxy) == {"node-1": 60}


async def test_nodes_are_drained_added_and_removed_while_it_serves(pair: Fleet) -> None:
    proxy, (a, b, c) = pair.proxy, (node.name for node in pair.nodes)
    await pair.set(nodes={c: None})
    async with Callers(proxy) as callers:
        await pair.set(nodes={a: {"drain": True}})
        assert await served_by(proxy) == {b: 60}
        await pair.set(nodes={c: {"url": pair.nodes[2].url}, a: None})
        await proxy.node_in("serving", c)
        await pair.set(nodes={b: None}, balancer="peak_ewma")
        assert await served_by(proxy) == {c: 60}
    assert callers.failed == []
    assert set(await proxy.nodes()) == {c}


async def test_a_worker_that_does_not_adopt_a_change_takes_it_back_everywhere(pair: Fleet) -> None:
    proxy = pair.proxy
    before = (await proxy.changed(weights(**{"node-0": 0, "node-2": 0})))["revision"]
    stuck = (await pids(proxy))["w2"]
    os.kill(stuck, signal.SIGSTOP)
    status, told = await proxy.change(weights(**{"node-0": 5, "node-1": 0}))
    os.kill(stuck, signal.SIGCONT)
    assert (status, told["code"]) == (409, "refused")
    assert "worker w2: did not adopt it within 5 s" in told["detail"]

    async def taken_back() -> bool:  # the one that was stopped wakes to the change, and then to its withdrawal
        return await served_by(proxy) == {"node-1": 60}

    await until("the change taken back everywhere", taken_back)
    newest = (await proxy.api("changes"))["changes"][0]
    assert (newest["outcome"], newest["revision"]) == ("refused", before)
    await proxy.changed(weights(**{"node-0": 5, "node-1": 0}))
    assert await served_by(proxy) == {"node-0": 60}


async def test_a_killed_worker_is_replaced_and_only_its_own_calls_fail(pair: Fleet) -> None:
    proxy = pair.proxy
    revision = (await proxy.changed(weights(**{"node-0": 2})))["revision"]
    replaced_before = (await proxy.api("workers"))["replaced"]
    count = 16
    async with Callers(proxy, count) as kept, Callers(proxy, 4, fresh=True) as fresh:
        before = await pids(proxy)
        counted = (await proxy.metrics()).sum("rpcaccel_calls_total")
        os.kill(before["w1"], signal.SIGKILL)
        begun = time.monotonic()

        async def replaced() -> bool:
            return (await pids(proxy)).get("w1", before["w1"]) != before["w1"]

        await until("a new worker", replaced)
        took = time.monotonic() - begun
        answered = kept.answered
        await waiting.until(lambda: kept.answered >= answered + 100)
    print(f"replaced in {took:.2f} s; {kept.answered + fresh.answered} calls, failed {kept.failed + fresh.failed}")
    print(f"the slowest call took {max(kept.slowest, fresh.slowest):.2f} s")
    # Each client has one call under way at the most.
    assert len(kept.failed) <= count
    assert len(fresh.failed) <= 4
    told = await proxy.api("workers")
    assert (told["replaced"] - replaced_before, {one["revision"] for one in told["workers"]}) == (1, {revision})

    async def said() -> bool:  # the overview is a second old at the most
        attention = [one["text"] for one in (await proxy.api("overview"))["attention"]]
        return any("worker w1 was killed by SIGKILL" in text for text in attention)

    await until("the killed worker in the overview", said)
    assert (await proxy.metrics()).sum("rpcaccel_calls_total") >= counted
    assert "Traceback" not in proxy.program.output


async def events_of(reply: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, Any]]:
    """The events of a stream: kind and data."""
    kind = ""
    while line := (await reply.content.readline()).decode():
        name, _, value = line.rstrip().partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)


async def replayed(proxy: Running) -> list[Any]:
    """Every event since the start."""
    url, found = f"{proxy.admin}/api/v1/events", []
    async with aiohttp.ClientSession() as own:
        async with own.get(url) as reply:
            _, hello = await anext(events_of(reply))
        async with own.get(f"{url}?last={hello['run']}-0") as reply:
            async for kind, data in events_of(reply):
                if kind == "stats":
                    break
                found.append(data)
    return found


async def seen_off(proxy: Running) -> int:
    """Workers that left after their work was done."""
    return sum(one.get("what") == "ended" for one in await replayed(proxy))


def write_config(path: Path, nodes: Sequence[SimNode], **more: Any) -> None:
    listed = ", ".join(f'"{node.url},id={node.name},weight={more.get(node.name, 1)}"' for node in nodes)
    path.write_text(
        f'listen = "127.0.0.1:0"\nworkers = {more.get("workers", 2)}\ndrain_timeout = 10\n'
        f'[admin]\nlisten = "127.0.0.1:0"\n[networks.harmony-s0]\nnodes = [{listed}]\n'
    )


Start = Callable[..., Coroutine[Any, Any, Running]]


@pytest.fixture
def start(new_program: Callable[..., Program], http: aiohttp.ClientSession) -> Start:
    """`await start("--config", file)`: the program, ready."""

    async def started(*arguments: str | Path) -> Running:
        running = await found(new_program("serve", *arguments), http)
        await running.ready()
        return running

    return started


@pytest.mark.parametrize(("workers", "rounds"), [(1, 2), (2, 1)])
async def test_sighup_reads_the_file_again_and_renews_the_workers_without_a_failed_call(
    start: Start, tmp_path: Path, workers: int, rounds: int
) -> None:
    file = tmp_path / "rpcaccel.toml"
    async with harmony_nodes(2) as nodes:
        a, b = (node.name for node in nodes)
        write_config(file, nodes, workers=workers)
        proxy = await start("--config", file)
        await proxy.change(weights(**{b: 7}))
        before = await pids(proxy)
        async with Callers(proxy) as kept, Callers(proxy, 4, fresh=True) as fresh:
            left = 0
            for round_number in range(1, rounds + 1):
                write_config(file, nodes, workers=workers, **{a: round_number + 1})
                proxy.program.signal(signal.SIGHUP)

                left += workers

                async def renewed(expected: tuple[int, int] = (round_number + 1, left)) -> bool:
                    there = (await proxy.api("settings"))["document"]["networks"]["harmony-s0"]["nodes"][a]["weight"]
                    return (there, await seen_off(proxy)) == expected

                await until("workers renewed", renewed)
        print(f"{kept.answered + fresh.answered} calls, slowest {max(kept.slowest, fresh.slowest):.2f} s")
        assert (kept.failed, fresh.failed) == ([], [])
        if workers > 1:
            assert not set(before.values()) & set((await pids(proxy)).values())
        told = (await proxy.api("settings"))["document"]["networks"]["harmony-s0"]["nodes"]
        assert (told[a]["weight"], told[b]["weight"]) == (rounds + 1, 7), "what was changed at run time stays on top"
        await asyncio.to_thread(proxy.program.wait_for, "changed at run time, in force over")
        file.write_text("workers = ]")
        proxy.program.signal(signal.SIGHUP)
        await asyncio.to_thread(proxy.program.wait_for, "the config file is not adopted")

        async def told() -> bool:
            said = (await proxy.api("overview"))["attention"]
            return any(one["text"].startswith("the config file was not taken over") for one in said)

        await until("the page says so", told)
        assert (await served_by(proxy)).keys() == {a, b}
        assert await proxy.end() == 0
        assert "Traceback" not in proxy.program.output


async def test_changes_survive_a_restart_and_the_start_says_whether_they_or_a_flag_hold(
    start: Start, tmp_path: Path
) -> None:
    file = tmp_path / "rpcaccel.toml"
    async with harmony_nodes(2) as nodes:
        a, b = (node.name for node in nodes)
        write_config(file, nodes, workers=1)
        flags = ("--config", file, "--memory")
        first = await start(*flags, "1MB")
        assert (await first.api("settings"))["document"]["memory"]["size"] == 1_000_000
        assert not any(words in first.program.output for words in OVERLAID)
        await first.change({**weights(**{a: 0}), "memory": {"size": "64MB"}})
        assert await first.end() == 0
        again = await start(*flags, "1MB")
        told = await again.api("settings")
        assert (told["revision"], told["document"]["memory"]["size"]) == (2, 64_000_000)
        assert [words for words in OVERLAID if words in again.program.output] == ["overruled by"]
        assert await served_by(again) == {b: 60}
        difference = (await again.api("settings/difference"))["difference"]
        assert {edit["path"] for edit in difference} == {f"networks.harmony-s0.nodes.{a}.weight", "memory.size"}
        status, told = await again.change({}, "settings/undo", "POST")
        assert (status, told["revision"]) == (200, 3)
        assert (await served_by(again)).keys() == {a, b}
        await again.change({"memory": {"size": "64MB"}})
        await again.end()
        third = await start(*flags, "2MB")
        assert (await third.api("settings"))["document"]["memory"]["size"] == 2_000_000
        assert [words for words in OVERLAID if words in third.program.output] == ["and holds"]
    assert (tmp_path / "rpcaccel.state.json").stat().st_mode & 0o777 == 0o600


OVERLAID = ("overruled by", "and holds")
"""What the start says of a flag and of an earlier change of the same setting."""
