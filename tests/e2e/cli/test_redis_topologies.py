"""The program on Redis with a replica, behind Sentinels and as a cluster: what one process kept another finds, and no
call is lost when a primary is killed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec import Struct, field

from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.proxy import Reply
from tests.support.running import PATIENT, Running, Serve, until
from tests.support.services import RedisServer, require
from tests.support.stores import topologies

COUNT = "hmyv2_getBlockTransactionCountByNumber"
KNOWN = range(1, 41)


class Topology(Struct, frozen=True):
    """Servers that belong together, and what the program is told of them."""

    url: str
    primary: RedisServer
    """The one that is killed."""
    replica: RedisServer
    takes_over: bool
    hurry: Callable[[], None]
    """Lets those that are left notice at once that the primary is gone."""
    more: dict[str, str] = field(default_factory=dict)
    """Further variables."""

    async def serve(self, serve: Serve, nodes: object) -> Running:
        environment = PATIENT | self.more
        return await serve(nodes, "--redis", self.url, env=environment)

    def replicated(self) -> bool:
        """Does the replica hold what its primary holds?"""
        return self.primary.command("DBSIZE") == self.replica.command("DBSIZE") != b":0"


@pytest.fixture(params=["replica", "sentinel", "cluster"])
def topology(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Topology]:
    require("redis-server")
    if request.param == "replica":
        with topologies.pair(tmp_path) as (primary, replica):
            more = {"RPCACCEL_REDIS__REPLICAS": replica.url}
            yield Topology(primary.url, primary, replica, takes_over=False, hurry=lambda: None, more=more)
    elif request.param == "sentinel":
        with topologies.watched(tmp_path) as ((primary, replica), sentinels):
            places = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in sentinels)
            hurry = partial(topologies.hurry_sentinels, sentinels)
            yield Topology(f"redis+sentinel://{places}/main", primary, replica, takes_over=True, hurry=hurry)
    else:
        with topologies.cluster(tmp_path) as servers:
            places = ",".join(f"127.0.0.1:{server.port}" for server in servers)
            hurry = partial(topologies.hurry_cluster, servers[1:])
            yield Topology(f"redis+cluster://{places}", servers[0], servers[3], takes_over=True, hurry=hurry)


def sources(replies: list[Reply]) -> dict[str, int]:
    assert [reply.body for reply in replies if "result" not in reply.json] == []
    return dict(Counter(reply.cache for reply in replies))


async def ask(proxy: Running, numbers: range) -> dict[str, int]:
    """Where the answers came from; none of them may be an error."""
    return sources(await proxy.load([(COUNT, [number]) for number in numbers], at_once=8))


async def test_hits_from_redis_and_no_call_lost_when_a_primary_dies(topology: Topology, serve: Serve) -> None:
    async with harmony_nodes(1, head=50_000) as nodes:
        proxy = await topology.serve(serve, nodes)
        assert await ask(proxy, KNOWN) == {"miss": len(KNOWN)}

        async def replicated() -> bool:
            stored = (await proxy.metrics()).sum("rpcaccel_tier_stored_total", tier="redis")
            return stored >= len(KNOWN) and topology.replicated()

        await until("all of it on the replica", replicated)
        size = (await proxy.api("settings"))["document"]["memory"]["size"]
        await proxy.changed({"memory": {"size": 0}})  # forgets what is there
        await proxy.changed({"memory": {"size": size}})
        assert await ask(proxy, KNOWN) == {"redis": len(KNOWN)}
        assert nodes[0].counts.asked(COUNT) == len(KNOWN)

        topology.primary.kill()
        topology.hurry()
        fresh = 1_000

        async def settled() -> bool:
            """Calls go on, all answered, until another is primary (or, with nobody to take over, a while)."""
            nonlocal fresh
            fresh += 20
            assert sum((await ask(proxy, range(fresh, fresh + 20))).values()) == 20
            assert await ask(proxy, KNOWN) == {"memory": len(KNOWN)}
            await asyncio.sleep(0.1)  # the servers need the processor as well
            if topology.takes_over:
                return topology.replica.command("ROLE") == b"master"
            return fresh >= 1_200

        await until("a primary again", settled)
        await warm_from_what_is_left(topology, serve, nodes)


async def warm_from_what_is_left(topology: Topology, serve: Serve, nodes: object) -> None:
    """A proxy started now reads what was kept, the dead server's part too: from its replica."""
    another = await topology.serve(serve, nodes)
    assert await ask(another, KNOWN) == {"redis": len(KNOWN)}
    if topology.takes_over:
        fresh = 40_000

        async def written() -> bool:
            """What is written before the others have told of the new primary is lost, and no call with it."""
            nonlocal fresh
            fresh += 40
            await ask(another, range(fresh, fresh + 40))
            return (await another.metrics()).sum("rpcaccel_tier_stored_total", tier="redis") >= len(KNOWN)

        await until("new answers in Redis", written)
    assert await another.end() == 0
