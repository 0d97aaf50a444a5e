"""What a follower does when the served head falls, nodes lack blocks, lie or stay silent, or clients do not read."""

from __future__ import annotations

import pytest

from rpcaccel.core.live.branch import RESTARTED
from rpcaccel.core.live.subscription import HEADS, LOGS
from rpcaccel.core.replies.answer import Answer
from rpcaccel.dataplane.live.follower import FALLEN_SECONDS, REREAD
from rpcaccel.dataplane.live.resumption import FAILED
from tests.support.dataplane.fake_live import FakeSink
from tests.support.dataplane.live_observer import received, wanted
from tests.support.dataplane.live_world import LiveWorld


@pytest.mark.parametrize(("kind", "hashed"), [("harmony", False), ("ethereum", False)])
def test_who_waits_for_a_first_block_that_is_gone_is_told_to_come_back(kind: str, hashed: bool) -> None:
    with LiveWorld(kind) as world:
        world.serve(world.tree.trunk, hashed=hashed)
        clients = [world.come(HEADS), world.come(LOGS)]
        world.nobody_answers(5.0)
        world.reorganise(52, 0, hashed=hashed)
        world.calm()
        for _ in range(int(FALLEN_SECONDS)):
            world.reorganise(0, 1, hashed=hashed)
            world.calm()
        assert [client.sink.closed for client in clients] == [[(1012, RESTARTED)]] * 2
        later = world.come(HEADS)
        world.calm()
        world.reorganise(0, 1, hashed=hashed)
        world.calm()
        assert received(later) == [world.served[-1]]


def test_a_first_block_that_is_served_again_soon_is_waited_for() -> None:
    with LiveWorld("harmony") as world:
        client = world.come(HEADS)
        world.nobody_answers(5.0)
        before = world.nodes[0].tip
        world.reorganise(3, 0)
        world.nobody_answers(FALLEN_SECONDS / 2)
        world.serve(before)
        world.calm()
        world.reorganise(0, 1)
        world.calm()
        assert received(client) == [world.served[-1]]


@pytest.mark.parametrize(("kind", "more"), [(HEADS, 0), (HEADS, 3), (LOGS, 3)])
def test_a_head_that_falls_far_below_what_is_remembered_is_compared_with_the_branch(
    world: LiveWorld, kind: str, more: int
) -> None:
    first = world.come(kind)
    world.calm()
    world.reorganise(40, more)
    second = world.come(kind)
    world.calm()
    world.reorganise(0, 2)
    world.calm()
    assert received(first) == wanted(world, first)
    assert received(second) == wanted(world, second)


def test_logs_of_blocks_whose_nodes_are_gone_are_waited_for(world: LiveWorld) -> None:
    world.come(HEADS)
    world.calm()
    before = world.nodes[0].tip
    world.reorganise(3, 0)
    client = world.come(LOGS)
    for _ in range(20):
        world.calm()
    assert not client.sink.closed
    world.serve(before)
    world.calm()
    assert received(client) == wanted(world, client)
    assert client.results


def test_a_client_that_comes_while_the_head_falls_further_is_sent_the_new_branch(world: LiveWorld) -> None:
    world.come(HEADS)
    world.reorganise(17, 0)
    client = world.come(HEADS)
    world.reorganise(17, 1)
    world.calm()
    assert received(client) == [world.served[-1]]
    assert not client.sink.closed


def test_a_client_that_comes_after_the_network_became_another_shard_is_sent_nothing_of_its_past() -> None:
    with LiveWorld("harmony") as world:
        before = world.come(HEADS)
        world.calm()
        world.do(world._adopt, 2, shard=1)
        world.do(world.follower.adopt, world.network)
        assert before.sink.closed == [(1012, RESTARTED)]
        client = world.come(HEADS)
        world.reorganise(0, 400)
        world.calm()
        world.reorganise(0, 1)
        world.calm()
        assert received(client) == [world.served[-1]]


def test_when_the_settings_make_other_blocks_final_clients_come_back() -> None:
    with LiveWorld("harmony") as world:
        client = world.come(HEADS)
        world.calm()
        world.renew(finality_depth=20)
        assert client.sink.closed == [(1012, REREAD)]


def test_clients_that_left_while_no_block_was_known_are_not_remembered(world: LiveWorld) -> None:
    world.come(HEADS)
    for _ in range(20):
        world.go(world.come(HEADS))
    assert len(world.follower._waiting) == 1


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


def test_a_new_revision_of_the_settings_changes_no_stream(world: LiveWorld) -> None:
    clients = [world.come(HEADS), world.come(LOGS)]
    world.calm()
    for _ in range(3):
        world.advance(2)
        world.renew()
    world.calm()
    assert all(received(client) == wanted(world, client) for client in clients)


def test_a_follower_that_is_closed_leaves_nothing_under_way(world: LiveWorld) -> None:
    world.come(HEADS, first=5)
    world.come(LOGS, first=5)
    world.loop.run_until_complete(world.follower.close())
    world.settle()
    left = len(world.sent)
    world.advance()
    world.wait(10.0)
    assert len(world.sent) <= left
