"""Clients that come back: what they missed is sent whole and once, and costs a bounded amount of memory."""

from __future__ import annotations

import gc
import weakref

import pytest

from rpcaccel.core.live.block import LiveBlock, Log
from rpcaccel.core.live.branch import ROOT_BLOCKS, WINDOW_BLOCKS
from rpcaccel.core.live.log_filter import LogFilter
from rpcaccel.core.live.subscription import HEADS, LOGS, MAX_BLOCKS_ABOVE
from rpcaccel.dataplane.live.block_source import BlockSource
from rpcaccel.dataplane.live.held_logs import HeldLogs
from rpcaccel.dataplane.live.log_track import REMEMBERED_BYTES, TOO_MANY_TAKEN_BACK, LogTrack
from rpcaccel.dataplane.live.resumption import FIRST_RANGE_BLOCKS, MAX_RANGE_BLOCKS, WAIT_SECONDS
from tests.support.dataplane.fake_live import FakeSink
from tests.support.dataplane.live_observer import Judge, notifications, perfect, received, wanted
from tests.support.dataplane.live_world import LiveWorld


@pytest.fixture
def world(world: LiveWorld) -> LiveWorld:
    """A chain that is followed already."""
    world.come(HEADS)
    world.calm()
    return world


class SlowSink(FakeSink):
    """A client that reads only when it is told to."""

    most = 0
    """The most bytes that were ever unread."""

    def notify(self, *parts: bytes) -> bool:
        self.unread += sum(map(len, parts))
        self.most = max(self.most, self.unread)
        return super().notify(*parts)


def logs_asked_for(world: LiveWorld) -> list[tuple[int, int]]:
    """The first and the last block of each call for logs so far."""
    asked = [params[0] for node in world.nodes for method, params in node.calls if "getLogs" in method]
    return [(int(one["fromBlock"], 16), int(one["toBlock"], 16)) for one in asked if "fromBlock" in one]


def test_logs_of_the_newest_blocks_are_asked_for_one_by_one_also_where_blocks_are_final_at_once() -> None:
    with LiveWorld("harmony") as world:
        world.come(HEADS)
        world.calm()
        head = world.network.view.head
        client = world.come(LOGS, first=head - 2 * ROOT_BLOCKS)
        world.calm()
        assert received(client) == wanted(world, client)
        ranges = [(first, last) for first, last in logs_asked_for(world) if first != last]
        assert ranges
        assert max(last for _, last in ranges) < head - ROOT_BLOCKS


@pytest.mark.parametrize("kind", [HEADS, LOGS])
def test_a_client_that_is_ahead_is_waited_for_as_long_as_the_chain_takes(world: LiveWorld, kind: str) -> None:
    first = world.network.view.head + MAX_BLOCKS_ABOVE
    client = world.come(kind, first=first)
    for _ in range(MAX_BLOCKS_ABOVE // 16):
        world.wait(2 * WAIT_SECONDS)
        assert not client.sink.closed
        assert received(client) == []
        world.advance(16)
        world.calm()
    assert received(client) == notifications([(False, world.tree.blocks[world.served[-1]])], client)


def test_who_leaves_while_it_is_waited_for_is_forgotten_at_once(world: LiveWorld) -> None:
    client = world.come(HEADS, first=world.network.view.head + MAX_BLOCKS_ABOVE)
    left = weakref.ref(client.subscription.session.sink)
    world.go(client)
    del client
    gc.collect()
    assert left() is None


def test_nothing_is_kept_of_a_subscription_that_resumed_and_has_ended(world: LiveWorld) -> None:
    world.advance(10)
    world.calm()
    client = world.come(LOGS, first=world.network.view.head - 12)
    world.calm()
    assert received(client) == wanted(world, client)
    left = weakref.ref(client.subscription.session.sink)
    world.go(client)
    del client
    gc.collect()
    assert left() is None


@pytest.mark.parametrize("kind", [HEADS, LOGS])
def test_what_is_replayed_never_fills_the_queue_of_a_client_by_itself(world: LiveWorld, kind: str) -> None:
    world.advance(40)
    world.calm()
    client = world.come(kind, first=5, sink=SlowSink(queue=2048))
    while len(received(client)) < len(wanted(world, client)):
        before = len(client.sink.sent)
        world.calm()
        assert len(client.sink.sent) > before
        client.sink.unread = 0
    assert received(client) == wanted(world, client)
    assert isinstance(client.sink, SlowSink)
    assert 0 < client.sink.most <= 2048


def test_what_is_taken_back_never_fills_the_queue_of_a_client_by_itself(world: LiveWorld) -> None:
    head = world.network.view.head
    client = world.come(LOGS, first=head - 15, sink=SlowSink(queue=2048))
    low = world.hash_at(head - 16)
    for _ in range(4):  # some blocks have been sent, and others not
        world.calm()
        client.sink.unread = 0
    world.calm()
    world.serve(world.tree.grow(low, 18))
    for _ in range(60):
        world.calm()
        client.sink.unread = 0
    Judge(world.tree, world.served, client).look(at_rest=True)
    assert sum(log["removed"] for log in client.results) > 4
    assert isinstance(client.sink, SlowSink)
    assert 0 < client.sink.most <= 2048


def test_a_block_that_is_abandoned_while_its_logs_are_sent_is_taken_back_as_far_as_it_was_sent(
    world: LiveWorld,
) -> None:
    tip = world.served[-1]
    full = next(n for n in range(world.network.view.head, 0, -1) if len(world.tree.blocks[world.hash_at(n)].logs) == 3)
    sink = FakeSink(queue=0)
    sink.stalls_in = 2
    client = world.come(LOGS, first=full, sink=sink)
    world.calm()
    assert [log["logIndex"] for log in client.results] == ["0x0", "0x1"]
    world.serve(world.tree.grow(world.hash_at(full - 1), world.network.view.head - full + 2))
    world.calm()
    assert len(client.results) == 2
    sink.unread = 0
    world.calm()
    assert client.results[2:4] == [{**log, "removed": True} for log in client.results[:2]]
    new = [(False, world.tree.blocks[world.hash_at(n)]) for n in range(full, world.network.view.head + 1)]
    assert client.results[4:] == notifications(new, client)
    assert not world.tree.has(world.served[-1], tip)


def test_a_branch_that_was_left_and_come_back_to_while_a_client_did_not_read_is_sent_once(world: LiveWorld) -> None:
    head, tip = world.network.view.head, world.served[-1]
    sink = FakeSink(queue=0)
    client = world.come(LOGS, first=head - 8, sink=sink)
    sink.stalls_in = 6
    world.calm()
    low = world.hash_at(head - 8)
    world.serve(world.tree.grow(low, 9))
    world.calm()
    world.serve(world.tree.grow(tip, 3))
    world.calm()
    sink.unread = 0
    world.calm()
    Judge(world.tree, world.served, client).look(at_rest=True)


def test_logs_that_could_be_had_are_sent_though_those_of_a_later_block_could_not(world: LiveWorld) -> None:
    head = world.network.view.head
    client = world.come(LOGS, first=head - 3)
    lacked = world.hash_at(head - 1)
    for _ in range(20):
        for call in world.sent:
            call.lose() if lacked.encode() in call.params else call.deliver()
        world.settle()
    assert received(client) == wanted(world, client)[: len(received(client))]
    assert {int(log["blockNumber"], 16) for log in received(client)} == {
        number for number in (head - 3, head - 2) if world.tree.blocks[world.hash_at(number)].logs
    }
    world.calm()
    assert received(client) == wanted(world, client)


def resumed_past(world: LiveWorld, wanted: LogFilter | None = None) -> list[int]:
    """How many blocks each call for a range of logs had while a client resumed from block 1 on."""
    world.come(HEADS)
    world.calm()
    client = world.come(LOGS, wanted, first=1)
    world.calm()
    assert received(client) == notifications(perfect(world.tree, world.served, client.joined_at, 1), client)
    return [last + 1 - first for first, last in sorted(logs_asked_for(world)) if first != last]


def test_the_next_range_of_logs_is_as_long_as_the_last_one_lets_expect() -> None:
    with LiveWorld(head=1400) as world:
        lengths = resumed_past(world, LogFilter.of(["0x" + "c" * 40]))
        assert lengths[0] == FIRST_RANGE_BLOCKS
        assert FIRST_RANGE_BLOCKS < max(lengths) <= MAX_RANGE_BLOCKS
    with LiveWorld(head=200, held=HeldLogs(portion=2000)) as world:  # four blocks or so
        lengths = resumed_past(world)
        assert lengths[0] == FIRST_RANGE_BLOCKS
        assert max(lengths[1:]) <= 8
        assert sum(lengths) > 150


def test_clients_that_do_not_read_hold_no_more_than_there_is_room_for() -> None:
    with LiveWorld(head=200, queue=0, held=HeldLogs(most=40_000, portion=10_000)) as world:
        world.come(HEADS)
        world.calm()
        sinks = [FakeSink(queue=0) for _ in range(12)]
        for sink in sinks:
            sink.stalls_in = 1
        clients = [world.come(LOGS, first=10, sink=sink) for sink in sinks]
        world.calm()
        assert 4 <= sum(bool(sink.sent) for sink in sinks) < 12
        assert 0 < world.held.bytes <= 40_000
        while stalled := [sink for sink in sinks if sink.unread]:
            for sink in stalled:
                sink.unread = 0
            world.calm()
        assert all(received(client) == wanted(world, client) for client in clients)
        assert world.held.bytes == 0


@pytest.mark.parametrize("below", [0, 100])
def test_a_block_with_more_logs_than_there_is_room_for_gets_through(below: int) -> None:
    with LiveWorld(head=200, held=HeldLogs(most=100, portion=10)) as world:
        world.come(HEADS)
        world.calm()
        first = world.network.view.head - 4 - below
        clients = [world.come(LOGS, first=first) for _ in range(5)]
        for _ in range(40):
            world.calm()
        assert all(received(client) == wanted(world, client) for client in clients)
        assert world.held.bytes == 0


def test_what_is_held_for_a_client_that_leaves_is_held_no_longer() -> None:
    with LiveWorld(head=200, queue=0) as world:
        world.come(HEADS)
        world.calm()
        sinks = [FakeSink(queue=0) for _ in range(2)]
        for sink, first in zip(sinks, (10, 190), strict=True):
            sink.stalls_in = 6
            client = world.come(LOGS, first=first, sink=sink)
            world.calm()
            assert world.held.bytes > 0
            world.go(client)
            assert world.held.bytes == 0


@pytest.mark.parametrize("stalls", [True, False])
def test_who_is_sent_more_than_is_remembered_is_closed_when_it_is_abandoned(stalls: bool) -> None:
    with LiveWorld(queue=0, held=HeldLogs(own=1000)) as world:
        world.come(HEADS)
        world.calm()
        head = world.network.view.head
        client = world.come(LOGS, first=head - 10)
        client.sink.stalls_in = 8 if stalls else 0
        world.calm()
        assert len(client.results) >= 8
        world.serve(world.tree.grow(world.hash_at(head - 10), 12))
        client.sink.unread = 0
        world.calm()
        assert client.sink.closed == [(1012, TOO_MANY_TAKEN_BACK)]


def test_a_client_that_resumes_much_and_reads_nothing_keeps_no_other_waiting() -> None:
    with LiveWorld("harmony", held=HeldLogs(most=80_000, portion=20_000)) as world:
        world.come(HEADS)
        world.calm()
        for _ in range(12):
            slow = SlowSink()
            slow.queue = 400
            world.come(LOGS, first=5, sink=slow, holder="many")
        world.calm()
        client = world.come(LOGS, first=5, holder="one")
        world.calm()
        assert received(client) == wanted(world, client)


def block(number: int) -> LiveBlock:
    return LiveBlock(number, hex(number), hex(number - 1), b"{}")


def test_logs_that_were_too_many_to_remember_take_no_room_for_ever(world: LiveWorld) -> None:
    source = BlockSource(world.network, world.engine)
    track = LogTrack(source, world.topics, world.cell, world.clock.now, drained=lambda: None)
    log = Log("0x", (), b"x" * (REMEMBERED_BYTES // 4))
    for number in range(200, 200 + 3 * WINDOW_BLOCKS, WINDOW_BLOCKS):
        for _ in range(6):
            track.join(world.come(LOGS).subscription, [(block(number), [log])])
        track.append(block(number + WINDOW_BLOCKS), 0.0)
    last = world.come(LOGS)
    tip = block(300 + 3 * WINDOW_BLOCKS)
    track.join(last.subscription, [(tip, [log])])
    track.abandon(tip, 0.0)
    assert not last.sink.closed
