from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.live.log_filter import LogFilter
from rpcaccel.core.live.subscription import HEADS, LOGS
from rpcaccel.dataplane.live.log_track import LOGS_LATE, LOGS_SECONDS
from tests.support.dataplane.fake_live import FakeSink
from tests.support.dataplane.live_observer import notifications, perfect, received, wanted
from tests.support.dataplane.live_tree import ADDRESSES, TOPICS
from tests.support.dataplane.live_world import LiveClient, LiveWorld

FILTERS = (LogFilter(), LogFilter.of(ADDRESSES[:1]), LogFilter.of(ADDRESSES[1:], [TOPICS[:1]]))
BLOCK_CALLS = {"eth_getBlockByHash", "eth_getBlockByNumber"}


def calls(world: LiveWorld) -> list[str]:
    """The methods that the nodes were asked for since the last time."""
    made = [method for node in world.nodes for method, _ in node.calls]
    for node in world.nodes:
        node.calls.clear()
    return made


def blocks_arrive(world: LiveWorld) -> None:
    """All calls about blocks are answered, and no others."""
    while any(call.method in BLOCK_CALLS for call in world.sent):
        for call in world.sent:
            if call.method in BLOCK_CALLS:
                call.deliver()
        world.settle()


def lose_logs(world: LiveWorld) -> None:
    """For twice as long as logs are waited for, blocks arrive, and no logs do."""
    for _ in range(int(LOGS_SECONDS * 4)):
        for call in world.sent:
            if call.method == "eth_getLogs":
                call.lose()
            else:
                call.deliver()
        world.wait(0.5)


def step(world: LiveWorld, what: str, how: Any, *, hashed: bool) -> None:
    """Let one thing happen."""
    head = world.tree.blocks[world.served[-1]].number
    if what == "advance":
        world.advance(how, hashed=hashed)
    elif what == "heads":
        world.come(HEADS, first=None if how is None else head - how)
    elif what == "logs":
        which, missed = how
        world.come(LOGS, FILTERS[which], None if missed is None else head - missed)
    elif what == "back":
        world.tell(world.tree.below(world.served[-1], head - how).hash, hashed=hashed)
    elif what == "empty":
        world.advance(len(how), hashed=hashed, gaps=how)
    elif what == "reorganise" and not world.harmony:
        depth, blocks, *gaps = how
        if not hashed:  # only a new number shows that there is another head
            node = world.nodes[0]
            gaps = [node.head - world.tree.below(node.tip, node.head - depth).number]
        world.reorganise(depth, blocks, hashed=hashed, gaps=gaps)
    elif what == "flip" and not world.harmony and hashed:
        tip = world.served[how % len(world.served)]
        if not world.tree.has(world.nodes[0].tip, tip):
            world.serve(tip)


STEP = st.one_of(
    st.tuples(st.just("advance"), st.integers(1, 20)),
    st.tuples(st.just("empty"), st.lists(st.integers(0, 3) | st.just(40), min_size=1, max_size=9)),
    st.tuples(st.just("reorganise"), st.tuples(st.integers(1, 8), st.integers(1, 9), *[st.integers(0, 3)] * 3)),
    st.tuples(st.just("back"), st.integers(1, 4)),
    st.tuples(st.just("flip"), st.integers(0, 9)),
    st.tuples(st.just("heads"), st.none() | st.integers(0, 40)),
    st.tuples(st.just("logs"), st.tuples(st.integers(0, 2), st.none() | st.integers(0, 40))),
)


REFUSALS = [
    b"",
    b'{"code":12,"message":"requested epoch was a null round (17)"}',
    b'{"code":-32000,"message":"no tipset at this height"}',
    b'{"code":-32602,"message":"slot was skipped"}',
]
"""What nodes say of a height without a block."""


@given(
    kind=st.sampled_from(["ethereum", "harmony"]),
    steps=st.lists(STEP, min_size=2, max_size=12),
    hashed=st.booleans(),
    refuses=st.sampled_from(REFUSALS),
)
def test_every_client_gets_exactly_what_a_perfect_observer_sends(
    kind: str, steps: list[tuple[str, Any]], hashed: bool, refuses: bytes
) -> None:
    world = LiveWorld(kind)
    for node in world.nodes:
        node.refuses = refuses
    try:
        world.come(HEADS)
        world.come(LOGS)
        world.calm()
        for what, how in steps:
            step(world, what, how, hashed=hashed)
            world.calm()
        for client in world.clients:
            assert received(client) == wanted(world, client)
            assert not client.sink.closed
        assert not world.errors
    finally:
        world.close()


def test_a_block_is_fetched_once_and_its_logs_are_however_many_subscribe(world: LiveWorld) -> None:
    for _ in range(20):
        world.come(HEADS)
        world.come(LOGS, FILTERS[1])
        world.come(LOGS, FILTERS[2])
    world.calm()
    calls(world)
    for _ in range(3):
        world.advance()
        world.calm()
    assert sorted(calls(world)) == ["eth_getBlockByHash"] * 3 + ["eth_getLogs"] * 3
    assert all(received(client) == wanted(world, client) for client in world.clients)


def test_nothing_is_asked_while_nobody_subscribes(world: LiveWorld) -> None:
    world.advance()
    world.calm()
    assert calls(world) == []
    clients = [world.come(HEADS), world.come(LOGS)]
    world.calm()
    assert calls(world)
    for client in clients:
        world.go(client)
    world.advance()
    world.calm()
    assert calls(world) == []


def test_who_comes_after_the_last_one_left_begins_anew(world: LiveWorld) -> None:
    world.go(world.come(HEADS))
    world.advance(5)
    late = world.come(HEADS)
    world.calm()
    world.advance()
    world.calm()
    assert received(late) == wanted(world, late) == [world.served[-1]]


def test_a_block_that_is_filled_in_has_the_members_of_the_pushed_headers(world: LiveWorld) -> None:
    client = world.come(HEADS)
    world.calm()
    for told in (True, False, True):
        tip = world.tree.grow(world.nodes[0].tip)
        if told:
            world.push(tip)
        world.serve(tip)
        world.calm()
    assert received(client) == wanted(world, client)
    assert [set(head) - {"pushed"} for head in client.results] == [{"number", "hash", "parentHash"}] * 3


def test_heads_come_without_the_further_members_that_no_node_tells() -> None:
    with LiveWorld("harmony") as world:
        client = world.come(HEADS)
        for node in world.nodes:
            node.lacks = "hmyv2_getFullHeader"
        world.calm()
        world.advance(3)
        world.calm()
        assert received(client) == wanted(world, client)
        assert all("viewID" not in head for head in client.results)


def test_a_pushed_header_is_sent_as_it_came_and_no_block_is_fetched(world: LiveWorld) -> None:
    client = world.come(HEADS)
    world.calm()
    calls(world)
    tip = world.tree.grow(world.served[-1])
    world.push(tip)
    world.serve(tip)
    world.calm()
    assert client.results[0]["pushed"] is True
    assert calls(world) == [], "neither the block nor its logs are asked for"


def test_heads_do_not_wait_for_logs(world: LiveWorld) -> None:
    heads, logs = world.come(HEADS), world.come(LOGS)
    world.calm()
    world.advance()
    blocks_arrive(world)
    assert received(heads) == [world.served[-1]]
    assert received(logs) == []


def test_a_block_that_is_abandoned_before_its_logs_went_out_sends_nothing(world: LiveWorld) -> None:
    logs = world.come(LOGS)
    world.calm()
    left = world.advance(3)
    blocks_arrive(world)
    world.reorganise(3, 4)
    blocks_arrive(world)
    world.calm()
    assert logs.results
    assert not any(log["removed"] for log in logs.results)
    assert left not in {log["blockHash"] for log in logs.results}


def test_logs_of_another_block_are_asked_for_again(world: LiveWorld) -> None:
    client = world.come(LOGS)
    world.calm()
    tip = world.advance(4)
    while not any(call.method == "eth_getLogs" for call in world.sent):
        for call in world.sent:
            call.deliver()
        world.settle()
    for call in world.sent:
        if call.method == "eth_getLogs":
            other = json.dumps([{"blockHash": world.tree.at(tip, 40).hash}]).encode()  # type: ignore[union-attr]
            call.end(call.node.answer("eth_getLogs", b"[" + other[1:-1] + b"]"))
    world.calm()
    assert received(client) == wanted(world, client)


def test_subscribers_of_logs_that_cannot_be_had_are_closed_and_those_of_heads_are_not(world: LiveWorld) -> None:
    heads, logs = world.come(HEADS), world.come(LOGS)
    world.calm()
    world.advance()
    lose_logs(world)
    assert logs.sink.closed == [(1012, LOGS_LATE)]
    assert world.cell.cut == {"late": 1}
    assert not heads.sink.closed
    again = world.come(LOGS, first=world.network.view.head)
    world.calm()
    assert received(again) == wanted(world, again)


@pytest.mark.parametrize("kind", ["ethereum", "harmony"])
def test_a_head_that_jumps_far_cuts_nobody(kind: str) -> None:
    with LiveWorld(kind) as world:
        clients = [world.come(HEADS), *(world.come(LOGS, one) for one in FILTERS)]
        world.calm()
        world.advance(300)
        while world.sent:  # the logs of one block arrive for every sixteen blocks
            slow = [call for call in world.sent if call.method not in BLOCK_CALLS]
            for call in [*(one for one in world.sent if one not in slow), *slow[:1]]:
                call.deliver()
            world.settle()
        world.calm()
        for client in clients:
            assert received(client) == wanted(world, client)
            assert not client.sink.closed
        assert len(received(clients[0])) == 300


def test_a_branch_that_waited_for_logs_goes_on_when_they_cannot_be_had(world: LiveWorld) -> None:
    heads, logs = world.come(HEADS), world.come(LOGS)
    world.calm()
    world.advance(300)
    lose_logs(world)
    assert logs.sink.closed == [(1012, LOGS_LATE)]
    world.calm()
    assert received(heads) == wanted(world, heads)
    assert not heads.sink.closed


def test_every_connection_that_is_closed_is_counted_once(world: LiveWorld) -> None:
    clients = [world.come(HEADS), world.come(LOGS)]
    world.calm()
    world.advance()
    blocks_arrive(world)
    clients += [world.come(LOGS), world.come(HEADS, first=5), world.come(LOGS, first=5)]
    world.renew(chain_id=5)
    assert all(len(client.sink.closed) == 1 for client in clients)
    assert world.cell.cut == {"restarted": 5}
    waiting = [world.come(HEADS), world.come(LOGS)]
    world.renew(chain_id=1)
    assert all(len(client.sink.closed) == 1 for client in waiting)
    assert world.cell.cut == {"restarted": 7}


@pytest.mark.parametrize("kind", [HEADS, LOGS])
def test_who_comes_while_a_block_is_sent_gets_none_that_was_served_before(world: LiveWorld, kind: str) -> None:
    came: list[LiveClient] = []

    class Hasty(FakeSink):
        def notify(self, *parts: bytes) -> bool:
            if not came:
                came.append(world.join(kind))
            return super().notify(*parts)

    world.come(kind, sink=Hasty())
    world.calm()
    world.advance(6)
    world.calm()
    assert received(came[0]) == []
    world.advance(6)
    world.calm()
    assert received(came[0]) == notifications(perfect(world.tree, world.served, 2), came[0])


def test_what_was_filled_abandoned_and_replayed_is_counted(world: LiveWorld) -> None:
    world.come(HEADS)
    world.calm()
    world.advance(5)
    world.calm()
    assert (world.cell.filled, world.cell.abandoned) == (4, 0)
    world.reorganise(2, 2)
    world.calm()
    assert (world.cell.filled, world.cell.abandoned) == (5, 2)
    world.come(HEADS, first=10)
    world.calm()
    assert world.cell.replayed == world.network.view.head - 9


def test_nothing_is_asked_for_again_without_a_pause(world: LiveWorld) -> None:
    world.come(HEADS)
    world.calm()
    calls(world)
    before = world.served[-1]
    world.advance()
    for node in world.nodes:  # they said that they have the new head, and answer null
        node.tip, node.forgets = before, True
    for _ in range(100):
        for call in world.sent:
            call.deliver()
        world.wait(0.1)
    assert len(calls(world)) <= 20


def test_only_those_who_were_sent_logs_are_sent_them_again_as_removed(world: LiveWorld) -> None:
    before = world.come(LOGS)
    world.calm()
    world.advance(3)
    world.calm()
    after = world.come(LOGS)
    resumed = world.come(LOGS, first=world.network.view.head - 4)
    world.calm()
    world.reorganise(2, 3)
    world.calm()
    for client in (before, after, resumed):
        assert received(client) == wanted(world, client)
    assert any(log["removed"] for log in before.results)
    assert any(log["removed"] for log in resumed.results)
    assert not any(log["removed"] for log in after.results)


def test_logs_are_fetched_again_for_a_topic_that_came_meanwhile(world: LiveWorld) -> None:
    first = world.come(LOGS, FILTERS[1])
    world.calm()
    world.advance()
    blocks_arrive(world)
    second = world.come(LOGS, FILTERS[2])
    world.advance(4)
    world.calm()
    assert received(first) == wanted(world, first)
    assert received(second) == notifications(perfect(world.tree, world.served, len(world.served) - 1), second)


@pytest.mark.parametrize("lost", [b"none", b"0x3d"])
def test_blocks_that_link_to_one_that_no_node_has_are_asked_for_again(world: LiveWorld, lost: bytes) -> None:
    client = world.come(HEADS)
    world.calm()
    low = world.tree.at(world.tree.trunk, 50)
    assert low is not None
    other = world.tree.grow(low.hash, 60)
    for node in world.nodes:
        node.lies, node.forgets = other, True
    world.advance(70)
    while world.sent and all(call.method == "eth_getBlockByNumber" for call in world.sent):
        for call in world.sent:
            if lost in call.params:
                call.lose()
            else:
                call.deliver()
        world.settle()
    for node in world.nodes:
        node.lies = ""
    world.calm()
    assert received(client) == wanted(world, client)


def test_a_reorganisation_is_followed_though_other_blocks_are_final_now(world: LiveWorld) -> None:
    client = world.come(HEADS)
    world.calm()
    for _ in range(3):
        world.advance()
        world.calm()
    world.reorganise(3, 80)
    world.calm()
    assert received(client) == wanted(world, client)


def test_who_has_seen_the_head_already_is_not_told_of_it_by_a_follower_that_lags(world: LiveWorld) -> None:
    world.come(HEADS)
    world.calm()
    world.advance(2)  # nothing of it has been fetched yet
    client = world.come(HEADS, first=world.network.view.head + 1)
    world.calm()
    assert received(client) == []
    world.advance()
    world.calm()
    assert received(client) == [world.served[-1]]


def test_a_client_that_resumes_is_not_told_again_of_a_branch_that_the_follower_does_not_know_yet(
    world: LiveWorld,
) -> None:
    world.come(HEADS)
    world.calm()
    world.advance(3)
    world.calm()
    world.reorganise(3, 5)  # the follower has not fetched it yet, and another worker has told the client of it
    client = world.come(HEADS, first=world.network.view.head)
    world.calm()
    assert received(client) == [world.served[-1]]
