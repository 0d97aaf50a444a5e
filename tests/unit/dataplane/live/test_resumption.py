"""Clients that come back: what they missed is sent whole and once, and costs a bounded amount of memory."""

from __future__ import annotations

from rpcaccel.core.live.branch import ROOTS
from rpcaccel.core.live.subscription import HEADS, LOGS
from tests.support.dataplane.live_observer import notifications, perfect, received
from tests.support.dataplane.live_world import LiveClient, LiveWorld


def wanted(world: LiveWorld, client: LiveClient) -> list[object]:
    """What a perfect observer sends who begins when the client came."""
    return notifications(perfect(world.tree, world.served, client.joined_at, client.first), client)


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
