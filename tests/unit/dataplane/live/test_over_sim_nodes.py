"""A follower over simulated nodes and the real prober."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rpcaccel.core.live.log_filter import LogFilter
from rpcaccel.core.live.subscription import HEADS, LOGS, Topic
from rpcaccel.core.stats.counters import NetworkCell
from rpcaccel.dataplane.live.follower import Follower
from rpcaccel.dataplane.live.live_session import LiveSession, LiveSubscription
from rpcaccel.dataplane.live.topics import Topics
from rpcaccel.simnode.methods.json_views import pushed_header
from tests.support.dataplane.fake_live import FakeSink
from tests.support.dataplane.world import HEAD, World


class Followed:
    """One network of a world, which is followed for clients of its first host."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        host = world.hosts[0]
        self.cell = NetworkCell(network=name)
        self.topics = Topics(self.cell, world.clock.now)
        network = host.state.networks[name]
        self.follower = Follower(network, host.engine, self.topics, self.cell, world.clock.now)
        self.look()

    def look(self) -> None:
        """The prober looks at every node, and the follower is told."""
        self.world.look(self.name)

        async def tell() -> None:
            self.follower.look(self.world.hosts[0].probers[self.name].heads().served)

        self.world.run(tell())
        self.arrive()

    def arrive(self) -> None:
        """All calls are answered."""
        for _ in range(8):
            self.world.settle()
            self.world.let_through()
            self.world.clock.advance(0.5)

    def come(self, kind: str, first: int | None = None) -> FakeSink:
        """A client subscribes."""
        sink = FakeSink()
        wanted = LogFilter() if kind == LOGS else None
        one = LiveSubscription("0x1", Topic(kind, "eth", wanted, from_block=first), LiveSession(sink, 1), self)

        async def begin() -> None:
            self.follower.begin(one)

        self.world.run(begin())
        self.arrive()
        return sink

    def begin(self, subscription: LiveSubscription) -> None:
        self.follower.begin(subscription)

    def joined(self, subscription: LiveSubscription) -> None:
        """Do nothing."""

    def ended(self, subscription: LiveSubscription) -> None:
        self.topics.remove(subscription)
        self.follower.ended(subscription)

    def truth(self, first: int) -> list[Any]:
        """The logs from this block on, as a truthful node tells them."""
        method, head = self.world.hosts[0].state.networks[self.name].chain.live.logs, self.world.chains[self.name].head
        asked = json.dumps([{"fromBlock": hex(first), "toBlock": hex(head)}]).encode()
        told: list[Any] = json.loads(self.world.truth(self.name, method, asked, -1, head).result or b"")
        return told

    def advance(self, blocks: int) -> None:
        self.world.chains[self.name].advance(blocks)
        self.look()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def numbers(sink: FakeSink, member: str) -> list[int]:
    """The numbers of the blocks in what was sent."""
    return [int(one[member], 16) for one in sink.results]


@pytest.mark.parametrize("name", ["one", "three"])
def test_heads_and_logs_come_as_the_nodes_have_them(world: World, name: str) -> None:
    followed = Followed(world, name)
    heads, logs = followed.come(HEADS), followed.come(LOGS)
    for blocks in (1, 3, 1):
        followed.advance(blocks)
    resumed = followed.come(HEADS, HEAD - 20), followed.come(LOGS, HEAD - 20)
    followed.advance(2)
    assert numbers(heads, "number") == [HEAD + number for number in range(1, 8)]
    assert numbers(resumed[0], "number") == list(range(HEAD - 20, HEAD + 8))
    for sink, first in ((logs, HEAD + 1), (resumed[1], HEAD - 20)):
        assert sink.results == followed.truth(first)
        assert sink.results
    world.run(followed.follower.close())


@pytest.mark.parametrize(("name", "version"), [("one", "eth"), ("three", "geth")])
def test_a_head_that_was_filled_in_is_what_the_nodes_push(world: World, name: str, version: str) -> None:
    followed = Followed(world, name)
    heads = followed.come(HEADS)
    followed.advance(1)
    (head,) = heads.results
    branch = world.chains[name].branch
    told = pushed_header(branch, branch.block(HEAD + 1), version)
    assert head == {member: value for member, value in told.items() if value is not None}
    world.run(followed.follower.close())
