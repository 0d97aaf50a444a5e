"""What differs by node: one caller is answered by one node, as long as that serves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.dataplane.world import Sent, World

PEERS = b'{"jsonrpc":"2.0","id":1,"method":"net_peerCount","params":[]}'


@pytest.fixture
def world() -> Iterator[World]:
    made = World(kinds={"one": "harmony"})
    yield made
    made.close()


def asked(world: World, client: bytes, which: int = 0) -> str:
    """Who is asked for a caller; the answer comes back."""
    call = world.start(world.hosts[which].ask("one", PEERS, client))
    (sent,) = world.sent
    sent.deliver()
    world.settle()
    assert b"result" in call.result().body
    return sent.node.name


@pytest.mark.parametrize("balancer", ["smooth_weighted", "peak_ewma", "consistent_hash"])
@pytest.mark.parametrize("hash_key", ["method", "client"])
def test_a_caller_has_one_node_in_every_worker_whatever_the_balancer(
    world: World, balancer: str, hash_key: str
) -> None:
    world.run(world.adopt(world.settings_with(balancer=balancer, hash_key=hash_key)))
    clients = [b"192.0.2.%d" % number for number in range(30)]
    nodes = {client: asked(world, client) for client in clients}
    assert set(nodes.values()) == set(world.by_id), "and every node has callers"
    for client in clients:
        assert asked(world, client) == asked(world, client, which=1) == nodes[client]


def test_a_node_that_serves_no_more_leaves_its_callers_to_another_until_it_is_back(world: World) -> None:
    first = asked(world, b"caller")
    world.run(world.adopt(world.settings_with(weights={first: 0})))
    second = asked(world, b"caller")
    assert second != first
    assert {asked(world, b"caller") for _ in range(3)} == {second}
    world.run(world.adopt(world.settings_with()))
    assert asked(world, b"caller") == first


def test_a_slow_node_is_waited_for_as_another_would_answer_something_else(world: World) -> None:
    for number in range(200):
        asked(world, b"%d" % number)  # now it is known how quick they are
    call = world.start(world.hosts[0].ask("one", PEERS, b"caller"))
    for _ in range(8):
        world.clock.advance(1.0)
        world.settle()
    sent: list[Sent] = world.sent
    assert len(sent) == 1
    sent[0].deliver()
    world.settle()
    assert call.done()
