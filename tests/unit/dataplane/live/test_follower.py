from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.live.branch import RESTARTED
from rpcaccel.core.live.log_filter import LogFilter
from rpcaccel.core.live.subscription import HEADS, LOGS
from rpcaccel.core.replies.answer import Answer
from rpcaccel.dataplane.live.log_track import LOGS_LATE, LOGS_SECONDS
from rpcaccel.dataplane.live.resumption import FAILED
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


def test_a_reorganisation_below_what_is_remembered_closes_everybody(world: LiveWorld) -> None:
    clients = [world.come(HEADS), world.come(LOGS)]
    world.calm()
    for node in world.nodes:
        node.forgets = True
    world.reorganise(40, 41)
    world.calm()
    assert [client.sink.closed for client in clients] == [[(1012, RESTARTED)]] * 2
    assert world.cell.cut == {"restarted": 2}
    later = world.come(HEADS)
    world.calm()
    world.advance()
    world.calm()
    assert received(later) == [world.served[-1]]


def test_a_resumed_subscription_that_no_node_can_serve_is_closed(world: LiveWorld) -> None:
    world.come(HEADS)
    world.calm()
    client = world.come(LOGS, first=20)
    world.nobody_answers(300.0)
    assert client.sink.closed == [(1012, FAILED)]


@pytest.mark.parametrize("kind", ["ethereum", "harmony"])
def test_a_client_that_resumes_at_a_head_that_is_gone_before_it_is_known_is_sent_it_when_it_is_back(kind: str) -> None:
    with LiveWorld(kind) as world:
        world.come(HEADS)
        world.calm()
        for node in world.nodes:
            node.forgets = True
        tip = world.tree.grow(world.tree.trunk, 17)
        world.tell(tip)
        client = world.come(HEADS, first=world.tree.blocks[tip].number)
        world.tell(world.tree.trunk)
        world.calm()
        assert (received(client), client.sink.closed) == ([], [])
        world.serve(tip)
        world.calm()
        assert received(client) == [tip]
        assert received(client) == wanted(world, client)


def test_a_client_that_unsubscribes_before_it_has_resumed_keeps_its_connection() -> None:
    with LiveWorld("harmony") as world:
        world.come(HEADS)
        world.calm()
        sink = FakeSink()
        other = world.come(HEADS, sink=sink)
        client = world.come(HEADS, first=20, sink=sink)
        assert world.do(client.subscription.session.end, client.subscription.id)
        world.nobody_answers(300.0)
        assert sink.closed == []
        tip = world.advance()
        world.calm()
        assert received(other)[-1:] == [tip]


def test_the_block_after_the_first_is_sent_though_a_node_lacked_the_first_when_the_head_moved_on(
    world: LiveWorld,
) -> None:
    client = world.come(HEADS)
    world.settle()
    (first,) = world.sent
    first.end(Answer(result=b"null"))
    world.settle()
    tip = world.advance()
    world.calm()
    assert received(client) == wanted(world, client) == [tip]


def test_a_first_block_that_was_lost_is_fetched_though_the_head_is_lower_now(world: LiveWorld) -> None:
    client = world.come(HEADS)
    for call in world.sent:
        call.lose()
    world.reorganise(3, 2)
    world.calm()
    assert received(client) == wanted(world, client)
    assert len(received(client)) == 2


def test_clients_whose_first_block_was_abandoned_before_it_was_fetched_are_told_to_come_back(world: LiveWorld) -> None:
    client = world.come(HEADS)
    for call in world.sent:
        call.lose()
    for node in world.nodes:
        node.forgets = True
    world.reorganise(1, 2)
    for _ in range(60):
        world.calm()
        world.wait(0.5)
    assert client.sink.closed == [(1012, RESTARTED)]


@pytest.mark.parametrize("kind", ["ethereum", "harmony"])
def test_clients_that_come_before_any_node_told_its_head_are_sent_what_is_new_from_then_on(kind: str) -> None:
    with LiveWorld(kind, told=False) as world:
        clients = [world.come(HEADS), world.come(LOGS)]
        world.calm()
        world.serve(world.tree.trunk)
        world.calm()
        assert [received(client) for client in clients] == [[], []]
        tip = world.advance()
        world.calm()
        assert received(clients[0]) == [tip]
        assert {log["blockHash"] for log in received(clients[1])} == {tip}


@pytest.mark.parametrize("kind", [HEADS, LOGS])
def test_a_resumed_client_that_is_sent_something_else_during_a_fetch_is_waited_for(world: LiveWorld, kind: str) -> None:
    world.come(HEADS)
    world.calm()
    client = world.come(kind, first=5)
    while not any(b'"0x5"' in call.params for call in world.sent):
        assert world.sent, "it was never asked for"
        world.do(world.sent[0].deliver)
        world.settle()
    client.sink.unread = 1 << 20
    world.calm()
    assert received(client) == []
    client.sink.unread = 0
    world.calm()
    assert received(client) == wanted(world, client)


@pytest.mark.parametrize("kind", [HEADS, LOGS])
def test_a_resumed_client_that_reads_nothing_for_long_is_closed_as_slow(world: LiveWorld, kind: str) -> None:
    world.come(HEADS)
    world.calm()
    client = world.come(kind, first=5)
    client.sink.unread = 1 << 20
    for _ in range(40):
        world.calm()
    assert client.sink.closed == [(1013, "too slow: 1048576 bytes unread")]
    assert world.cell.cut == {"slow": 1}


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


def test_a_node_that_stays_silent_holds_nothing_up_for_ever(world: LiveWorld) -> None:
    client = world.come(HEADS)
    world.calm()
    world.advance()
    world.wait(0.0)
    for _ in range(200):  # nobody answers
        world.wait(0.5)
    assert received(client) == []
    world.calm()
    assert received(client) == [world.served[-1]]


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


@pytest.mark.parametrize("kind", ["ethereum", "harmony"])
def test_a_head_that_fell_to_another_chain_closes_everybody(kind: str) -> None:
    with LiveWorld(kind) as world:
        client = world.come(HEADS)
        world.calm()
        served = world.last.__class__(head=3, hash="0x3", doubted=1)
        world.do(world.follower.look, served)
        assert client.sink.closed == [(1012, RESTARTED)]


@pytest.mark.parametrize("head", [61, 10])
def test_where_blocks_are_final_at_once_a_chain_that_began_anew_lower_closes_everybody(head: int) -> None:
    with LiveWorld("harmony") as world:
        clients = [world.come(HEADS), world.come(LOGS)]
        world.calm()
        world.advance(3)
        world.calm()
        world.serve(world.tree.grow("0x" + "0" * 64, head + 1))
        for _ in range(10):
            world.advance(0)
            world.calm()
        assert [client.sink.closed for client in clients] == [[(1012, RESTARTED)]] * 2


def test_where_blocks_are_final_at_once_a_head_that_falls_with_a_node_cuts_nobody() -> None:
    with LiveWorld("harmony") as world:
        client = world.come(HEADS)
        world.calm()
        tip = world.advance(8)
        world.calm()
        for lag in (3, 5):
            lower = world.tree.at(tip, world.tree.blocks[tip].number - lag)
            assert lower is not None
            world.nodes[0].lies = world.tree.grow("0x" + "0" * 64, 80)
            world.serve(lower.hash)
            for _ in range(10):
                world.calm()
        world.nodes[0].lies = ""
        world.serve(world.tree.grow(tip, 2))
        world.calm()
        assert received(client) == wanted(world, client)
        assert not client.sink.closed


def test_another_shard_is_another_chain() -> None:
    with LiveWorld("harmony") as world:
        client = world.come(HEADS)
        world.calm()
        world.renew(shard=1)
        assert client.sink.closed == [(1012, RESTARTED)]


def test_where_blocks_are_final_at_once_a_liar_is_not_believed() -> None:
    with LiveWorld("harmony") as world:
        client = world.come(HEADS)
        world.calm()
        world.nodes[0].lies = world.tree.grow(world.tree.at(world.served[-1], 55).hash, 30)  # type: ignore[union-attr]
        for _ in range(4):
            world.advance()
            world.calm()
        assert received(client) == wanted(world, client)


def test_a_follower_that_is_closed_leaves_nothing_under_way(world: LiveWorld) -> None:
    world.come(HEADS, first=5)
    world.come(LOGS, first=5)
    world.loop.run_until_complete(world.follower.close())
    world.settle()
    left = len(world.sent)
    world.advance()
    world.wait(10.0)
    assert len(world.sent) <= left
