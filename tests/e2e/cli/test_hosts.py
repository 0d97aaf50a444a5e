"""Hosts on one Redis: a change or a purge on one is one on the other, each shows all of them and says who is behind,
and Redis is in nobody's way."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from rpcaccel.simnode.server.factories import harmony_chain
from tests.e2e.cli.test_control import served_by, weights
from tests.support.fixtures import shared
from tests.support.fleet import Fleet, GatedNode, fleet_of
from tests.support.running import HARMONY, LOCAL, Running, until
from tests.support.services import Program, RedisServer


async def weight_of(proxy: Running, node: str) -> int:
    told = await proxy.api("settings")
    weight: int = told["document"]["networks"]["harmony-s0"]["nodes"][node]["weight"]
    return weight


async def sharing(proxy: Running, up: bool) -> None:
    async def holds() -> bool:
        return bool((await proxy.api("settings"))["shared"]["up"] == up)

    await until("sharing up" if up else "sharing down", holds)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def _hosts(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hosts]:
    chain = harmony_chain(4000)
    nodes = [GatedNode(chain, name=name) for name in ("node-0", "node-1")]
    with RedisServer(tmp_path_factory.mktemp("redis")) as redis:
        flags = ("--redis", redis.url)
        async with fleet_of(nodes, *flags) as one, fleet_of(nodes, *flags, "--workers", "2") as other:
            yield Hosts(one, other, redis)


class Hosts(NamedTuple):
    """A host with one worker and one with two, and the Redis they share."""

    one: Fleet
    other: Fleet
    redis: RedisServer


@shared
async def hosts(_hosts: Hosts) -> Hosts:
    """Both as they started, with nothing to tell each other."""
    if not _hosts.redis.process.running:
        _hosts.redis.restart()
    for host in _hosts[:2]:
        await sharing(host.proxy, True)
    await _hosts.one.proxy.changed(weights(**{"node-0": 1, "node-1": 1}))
    await agreed(_hosts, (1, 1))
    return _hosts


async def agreed(hosts: Hosts, wanted: tuple[int, int]) -> None:
    async def holds() -> bool:
        told = [[await weight_of(host.proxy, f"node-{number}") for number in (0, 1)] for host in hosts[:2]]
        return told == [list(wanted)] * 2

    await until(f"weights {wanted} on both hosts", holds)


BLOCK = b'{"jsonrpc":"2.0","id":1,"method":"hmyv2_getBlockByNumber","params":[7,{}]}'


async def in_memory(proxy: Running) -> bool:
    """Is the block in the memory of every worker? They are asked on connections of their own."""
    return {(await proxy.post(BLOCK, Connection="close")).cache for _ in range(24)} == {"memory"}


async def forgotten(proxy: Running) -> bool:
    return not await in_memory(proxy)


async def test_a_change_on_one_host_is_adopted_by_the_other(hosts: Hosts) -> None:
    one, other = hosts.one.proxy, hosts.other.proxy
    begun = time.monotonic()
    await one.changed(weights(**{"node-0": 0}))
    await agreed(hosts, (0, 1))
    print(f"adopted by the other host in {time.monotonic() - begun:.2f} s")
    assert await served_by(other) == {"node-1": 60}
    newest = (await other.api("changes"))["changes"][0]
    assert (newest["action"], newest["text"]) == ("shared", "networks.harmony-s0.nodes.node-0.weight: 1 -> 0")

    hosts.redis.kill()
    await sharing(one, False)
    begun = time.monotonic()
    await one.changed(weights(**{"node-0": 3}))
    print(f"changed without Redis in {time.monotonic() - begun:.2f} s")
    await other.changed(weights(**{"node-1": 4}))
    told = [await weight_of(one, "node-0"), await weight_of(one, "node-1"), await weight_of(other, "node-0")]
    assert told == [3, 1, 0]
    hosts.redis.restart()
    await agreed(hosts, (3, 4))


async def test_a_purge_on_one_host_empties_the_memory_of_the_other(hosts: Hosts) -> None:
    one, other = hosts.one.proxy, hosts.other.proxy
    await until("the block in memory", lambda: in_memory(other))
    assert (await one.change({"all": True}, "purge", "POST"))[0] == 200
    await until("the other host's memory empty", lambda: forgotten(other))

    hosts.redis.kill()
    for proxy in (one, other):
        await sharing(proxy, False)
    await until("the block in memory", lambda: in_memory(other))
    assert (await one.change({"all": True}, "purge", "POST"))[0] == 200
    assert await in_memory(other)
    hosts.redis.restart()
    await until("the other host's memory empty once it is back", lambda: forgotten(other))


# ---- what hosts tell each other -------------------------------------------------------------------------------------


async def known(proxy: Running, what: str, **wanted: int) -> list[dict[str, Any]]:
    """The hosts that a proxy knows, once it knows as many in each of these states and no others."""
    found: list[dict[str, Any]] = []

    async def holds() -> bool:
        found[:] = (await proxy.api("hosts"))["hosts"]
        states = [host["state"] for host in found]
        return {state: states.count(state) for state in states} == wanted

    try:
        await until(what, holds)
    except TimeoutError as error:
        raise TimeoutError(f"{error}; they are {found}") from error
    return found


async def test_each_host_tells_of_all_of_one_that_does_not_follow_and_of_one_that_was_killed(hosts: Hosts) -> None:
    one, other = hosts.one.proxy, hosts.other.proxy
    mine, theirs = await known(one, "both hosts well", well=2)
    assert (mine["here"], theirs["here"], mine["name"] == theirs["name"]) == (True, False, True)
    assert (mine["workers"], theirs["workers"]) == (1, 2)
    assert {host["run"] for host in await known(other, "both hosts well", well=2)} == {mine["run"], theirs["run"]}
    assert [head["network"] for head in theirs["heads"]] == ["harmony-s0"]

    # A host whose only node is removed by another host cannot adopt that.
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(GatedNode(hosts.one.nodes[0].chain, name="node-0"))
        third = stack.enter_context(
            Program("serve", f"{node.url},id=node-0", *HARMONY, *LOCAL, "--redis", hosts.redis.url)
        )
        await known(one, "three hosts well", well=3)
        await one.changed({"networks": {"harmony-s0": {"nodes": {"node-0": None}}}})
        found = await known(one, "the third host behind", well=2, behind=1)
        (behind,) = [host for host in found if host["state"] == "behind"]
        assert behind["why"].startswith("what other hosts changed is not in force on it: networks.harmony-s0.nodes")
        assert (await one.change({}, "settings/undo", "POST"))[0] == 200
        third.kill()
        found = await known(one, "the killed one not heard", well=2, silent=1)
    (silent,) = [host for host in found if host["state"] == "silent"]
    assert silent["run"] == behind["run"]
    assert silent["heard"] > 10
    assert silent["why"].endswith("it was killed, or is cut off from Redis")
    assert (await one.api("hosts"))["together"]["hosts"] == 2

    hosts.redis.kill()
    await known(one, "no other host known", well=1, unknown=2)
    assert (await one.api("hosts"))["note"].startswith("Redis is away")
    hosts.redis.restart()
    await known(one, "both hosts well again", well=2)
