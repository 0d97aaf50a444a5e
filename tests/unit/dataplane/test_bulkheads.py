"""Calls whose cost a client chooses, in a world where nothing is left to luck: they hold up nobody but themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from rpcaccel.core.nodes.breaker import BreakerState
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.rules import Bulkhead
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.dataplane.rpc.calls import Answered
from rpcaccel.simnode.chain.addresses import to_one
from tests.support.dataplane.world import Sent, World

HEAVY, INVENTED, BALANCE = "hmyv2_getTransactionsHistory", "hmyv2_noSuchThing", "hmyv2_getBalance"
EXECUTION = "hmyv2_call"
SLOW = [(HEAVY, Bulkhead.HEAVY), (INVENTED, Bulkhead.UNKNOWN), (EXECUTION, Bulkhead.EXECUTION)]


@pytest.fixture
def world() -> Iterator[World]:
    made = World(kinds={"one": "harmony"})
    yield made
    made.close()


def body(method: str, number: int) -> bytes:
    address = to_one(number.to_bytes(20, "big"))
    params: list[object] = [address] if method == BALANCE else [{"address": address, "pageIndex": 0, "pageSize": 5}]
    if method == EXECUTION:
        params = [{"to": address}, 5]
    return msgspec.json.encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def ask(world: World, method: str, count: int) -> list[asyncio.Task[Answered]]:
    """Callers, each of whom wants something else that the second tier does not have."""
    calls = [world.start(world.hosts[0].ask("one", body(method, number))) for number in range(count)]
    while world.shared.reads:
        world.shared.answer(0)
    world.settle()
    return calls


def under_way(world: World, method: str) -> list[Sent]:
    return [sent for sent in world.sent if sent.method == method]


@pytest.mark.parametrize(("method", "bulkhead"), SLOW)
def test_light_reads_are_answered_while_every_node_holds_all_it_may_of_what_hangs(
    world: World, method: str, bulkhead: Bulkhead
) -> None:
    pool = world.hosts[0].state.networks["one"].pool
    for node in pool.nodes:
        node.limit.adopt(64, node.limit.settings)
    most = sum(int(node.limit.value) // 2 if method == EXECUTION else node.max_heavy for node in pool.nodes)
    hanging = ask(world, method, most + 30)
    assert len(under_way(world, method)) == most, "no node is given more"
    assert [len(room) for room in pool.rooms] == [30 * (one is bulkhead) for one in Bulkhead]
    reads = ask(world, BALANCE, 6)
    assert len(under_way(world, BALANCE)) == 6, "none of them waits"
    for sent in under_way(world, BALANCE):
        sent.deliver()
    world.settle()
    assert all(b"result" in read.result().body for read in reads)
    assert not any(call.done() for call in hanging)
    assert len(under_way(world, method)) == most


@pytest.mark.parametrize("method", [HEAVY, INVENTED, EXECUTION])
def test_what_hangs_until_it_times_out_shuts_no_node(world: World, method: str) -> None:
    host = world.hosts[0]
    pool = host.state.networks["one"].pool
    hanging = ask(world, method, 30)
    for _ in range(4):  # as often as a call may be tried, and once more
        world.clock.advance(10.0)
        for sent in under_way(world, method):
            sent.fail(FailureKind.TIMEOUT)
        world.settle()
        world.run(host.see("one"))
    assert all(call.done() for call in hanging)
    assert [node.breaker.state for node in pool.nodes] == [BreakerState.CLOSED] * 3
    assert [node.limit.value for node in pool.nodes] == [node.limit.most for node in pool.nodes]
    assert [node.held for node in pool.nodes] == [[0, 0, 0, 0]] * 3
    report = [node.ejected_until for node in pool.nodes]
    assert report == [float("-inf")] * 3, "nor is one found to hang"


def alone(world: World, connections: int) -> Node:
    """The one node that may be asked, with so many connections."""
    first, *others = world.hosts[0].state.networks["one"].pool.nodes
    for other in others:
        other.cordoned = True
    first.limit.adopt(connections, first.limit.settings)
    return first


@pytest.mark.parametrize("ends", [HEAVY, INVENTED])
def test_a_light_read_takes_the_connection_that_another_kind_of_call_has_given_back(world: World, ends: str) -> None:
    node = alone(world, 2)
    ask(world, ends, 1)
    ask(world, BALANCE, 2)
    assert (node.in_flight, len(under_way(world, BALANCE))) == (2, 1)
    (ended,) = under_way(world, ends)
    ended.deliver()
    world.settle()
    assert len(under_way(world, BALANCE)) == 2, "at once, and not when it next looks for room"


def test_a_heavy_call_takes_the_place_that_an_unknown_one_has_given_back(world: World) -> None:
    alone(world, 2)
    ask(world, INVENTED, 1)
    ask(world, HEAVY, 1)
    assert not under_way(world, HEAVY)
    (ended,) = under_way(world, INVENTED)
    ended.deliver()
    world.settle()
    assert len(under_way(world, HEAVY)) == 1


def test_a_heavy_call_that_goes_on_elsewhere_leaves_the_last_connection_to_light_reads(world: World) -> None:
    first, second, third = world.hosts[0].state.networks["one"].pool.nodes
    third.cordoned = True
    for node in (first, second):
        node.limit.adopt(2, node.limit.settings)
    ask(world, HEAVY, 2)
    lost = next(sent for sent in under_way(world, HEAVY) if sent.node.name == first.id)
    lost.fail(FailureKind.CONNECT)
    world.settle()
    assert second.in_flight == 1


def test_a_light_call_is_the_trial_of_a_node_whose_other_trial_hangs(world: World) -> None:
    node = alone(world, 512)
    for _ in range(node.breaker.settings.failures):
        node.finish(node.begin(world.clock.now()), "failure", world.clock.now())
    node.breaker.probed(world.clock.now(), answered=True)
    ask(world, HEAVY, 1)
    reads = ask(world, BALANCE, node.breaker.settings.passes)
    for sent in under_way(world, BALANCE):
        sent.deliver()
    world.settle()
    assert all(b"result" in read.result().body for read in reads)
    assert node.breaker.state is BreakerState.CLOSED
