"""Clients that come back: what they missed is sent whole and once, and costs a bounded amount of memory."""

from __future__ import annotations

import gc
import weakref

import pytest

from rpcaccel.core.live.branch import ROOTS
from rpcaccel.core.live.subscription import HEADS, LOGS, MOST_AHEAD
from rpcaccel.dataplane.live.resumption import PATIENCE
from tests.support.dataplane.live_observer import notifications, perfect, received
from tests.support.dataplane.live_world import LiveClient, LiveWorld


def wanted(world: LiveWorld, client: LiveClient) -> list[object]:
    """What a perfect observer sends who begins when the client came."""
    return notifications(perfect(world.tree, world.served, client.joined_at, client.first), client)


def advance(world: LiveWorld, blocks: int = 1) -> str:
    """All nodes go on by some blocks, and the last one becomes the served head."""
    tip = world.tree.grow(world.nodes[0].tip, blocks)
    for node in world.nodes:
        node.tip = tip
    world.tell(tip)
    return tip


def logs_asked_for(world: LiveWorld) -> list[tuple[int, int]]:
    """The first and the last block of each call for logs so far."""
    asked = [params[0] for node in world.nodes for method, params in node.calls if "getLogs" in method]
    return [(int(one["fromBlock"], 16), int(one["toBlock"], 16)) for one in asked if "fromBlock" in one]


def test_logs_of_the_newest_blocks_are_asked_for_one_by_one_also_where_blocks_are_final_at_once() -> None:
    world = LiveWorld("harmony")
    world.come(HEADS)
    world.calm()
    head = world.network.view.head
    client = world.come(LOGS, first=head - 2 * ROOTS)
    world.calm()
    assert received(client) == wanted(world, client)
    ranges = [(first, last) for first, last in logs_asked_for(world) if first != last]
    assert ranges
    assert max(last for _, last in ranges) < head - ROOTS
    world.close()


@pytest.mark.parametrize("kind", [HEADS, LOGS])
def test_a_client_that_is_ahead_is_waited_for_as_long_as_the_chain_takes(world: LiveWorld, kind: str) -> None:
    world.come(HEADS)
    world.calm()
    first = world.network.view.head + MOST_AHEAD
    client = world.come(kind, first=first)
    for _ in range(MOST_AHEAD // 16):
        world.wait(2 * PATIENCE)
        assert not client.sink.closed
        assert received(client) == []
        advance(world, 16)
        world.calm()
    assert received(client) == notifications([(False, world.tree.blocks[world.served[-1]])], client)


def test_who_leaves_while_it_is_waited_for_is_forgotten_at_once(world: LiveWorld) -> None:
    world.come(HEADS)
    world.calm()
    client = world.come(HEADS, first=world.network.view.head + MOST_AHEAD)
    left = weakref.ref(client.subscription.session.sink)
    world.go(client)
    del client
    gc.collect()
    assert left() is None


def test_nothing_is_kept_of_a_subscription_that_resumed_and_has_ended(world: LiveWorld) -> None:
    world.come(LOGS)
    world.calm()
    advance(world, 10)
    world.calm()
    client = world.come(LOGS, first=world.network.view.head - 12)
    world.calm()
    assert received(client) == wanted(world, client)
    left = weakref.ref(client.subscription.session.sink)
    world.go(client)
    del client
    gc.collect()
    assert left() is None
