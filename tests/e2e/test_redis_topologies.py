"""The program on Redis with a replica, behind Sentinels and as a cluster: warm after a restart, and no call lost when
a primary is killed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct, field

from rpcaccel.testing.factories import harmony_nodes
from tests.e2e.conftest import Serve
from tests.e2e.running import Running, until
from tests.proxy import Reply
from tests.services import require
from tests.stores import topologies
from tests.stores.redisserver import RedisServer

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

COUNT = "hmyv2_getBlockTransactionCountByNumber"
KNOWN = range(1, 41)


class Topology(Struct, frozen=True):
    """Servers that belong together, and what the program is told of them."""

    url: str
    primary: RedisServer
    """The one that is killed."""
    replica: RedisServer
    takes_over: bool
    more: dict[str, str] = field(default_factory=dict)
    """Further variables."""

    async def serve(self, serve: Serve, nodes: object) -> Running:
        # A read's deadline is no matter here, and the machine may be busy.
        environment = {"RPCACCEL_REDIS__READ_TIMEOUT": "2s", **self.more}
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
            yield Topology(primary.url, primary, replica, takes_over=False, more=more)
    elif request.param == "sentinel":
        with topologies.watched(tmp_path) as ((primary, replica), sentinels):
            places = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in sentinels)
            yield Topology(f"redis+sentinel://{places}/main", primary, replica, takes_over=True)
    else:
        with topologies.cluster(tmp_path) as servers:
            places = ",".join(f"127.0.0.1:{server.port}" for server in servers)
            yield Topology(f"redis+cluster://{places}", servers[0], servers[3], takes_over=True)


def sources(replies: list[Reply]) -> dict[str, int]:
    assert [reply.body for reply in replies if "result" not in reply.json] == []
    return dict(Counter(reply.cache for reply in replies))


async def ask(proxy: Running, numbers: range) -> dict[str, int]:
    """Where the answers came from; none of them may be an error."""
    return sources(await proxy.load([(COUNT, [number]) for number in numbers], at_once=8))


async def test_hits_after_a_restart_and_no_call_lost_when_a_primary_dies(topology: Topology, serve: Serve) -> None:
    async with harmony_nodes(1, head=50_000) as nodes:
        proxy = await topology.serve(serve, nodes)
        assert await ask(proxy, KNOWN) == {"miss": len(KNOWN)}
        assert await proxy.end() == 0  # what was not yet written is written before it ends

        async def replicated() -> bool:
            return topology.replicated()

        await until("all of it on the replica", replicated)
        proxy = await topology.serve(serve, nodes)
        assert await ask(proxy, KNOWN) == {"redis": len(KNOWN)}
        assert nodes[0].counts.asked(COUNT) == len(KNOWN)

        topology.primary.kill()
        fresh = 1_000

        async def settled() -> bool:
            """Calls go on, all answered, until another is primary (or, with nobody to take over, a while)."""
            nonlocal fresh
            fresh += 20
            assert sum((await ask(proxy, range(fresh, fresh + 20))).values()) == 20
            assert await ask(proxy, KNOWN) == {"memory": len(KNOWN)}
            if topology.takes_over:
                return topology.replica.command("ROLE") == b"*3" and b"role:master" in topology.replica.reply("INFO")
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
    assert await asyncio.wait_for(another.end(), 20) == 0
