"""The served head falls, or the network becomes another one, while clients wait for their first block or come."""

from __future__ import annotations

import pytest

from rpcaccel.core.live.branch import RESTARTED
from rpcaccel.core.live.subscription import HEADS, LOGS
from rpcaccel.dataplane.live.follower import FALLEN_SECONDS, REREAD
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
