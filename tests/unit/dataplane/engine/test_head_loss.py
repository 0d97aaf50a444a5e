"""The one node at the head dies, of whatever: calls about the head wait a bounded time, then follow the best node left.

The chain stands still, and probes say what the nodes of the world are; only calls meet the dead node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing

import msgspec
import pytest

from rpcaccel.core.dispatch.outcome import Forwarded
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.dataplane.engine import head_loss
from rpcaccel.dataplane.rpc.calls import Answered
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.dataplane.world import HEAD, World
from tests.support.proxy import proxying

ALICE = "0x" + "a5" * 20
BALANCE = b'{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["%b","latest"]}' % ALICE.encode()
FAR = 1e9


@pytest.fixture
def world() -> Iterator[World]:
    """One network, whose node one-0 is at the head, and the others a block behind it."""
    made = World({"one": "harmony"})
    for node in made.nodes["one"][1:]:
        node.knobs.lag = 1
    made.look("one")
    yield made
    made.close()


def head_node(world: World) -> Node:
    return world.hosts[0].state.networks["one"].pool.nodes[0]


def patience(world: World) -> float:
    return head_loss.patience(world.hosts[0].state.networks["one"])


def ask(world: World, body: bytes = BALANCE) -> asyncio.Task[Answered]:
    return world.start(world.hosts[0].ask("one", body))


def lose(world: World, kind: FailureKind) -> int:
    """What is on its way to the node at the head is lost, as often as it is tried; the others answer. How many calls
    nodes were sent."""
    sends = 0
    while world.sent or world.shared.reads:
        sends += len(world.sent)
        for sent in world.sent:
            if sent.node.name == "one-0":
                sent.fail(kind)
            else:
                sent.deliver()
        while world.shared.reads:
            world.shared.answer(0)
        world.settle()
    return sends


def answer_tier(world: World) -> None:
    while world.shared.reads:
        world.shared.answer(0)
    world.settle()


def reply(task: asyncio.Task[Answered]) -> dict[str, object]:
    said: dict[str, object] = msgspec.json.decode(task.result().body)
    return said


def trip(world: World) -> None:
    node = head_node(world)
    for _ in range(node.breaker.settings.failures):
        node.finish(node.begin(world.clock.now()), "failure", world.clock.now())


DEATHS: dict[str, Callable[[World], None]] = {
    "parked": lambda world: head_node(world).parking.refused("eth_getBalance", world.clock.now(), FAR),
    "breaker open": trip,
    "barred": lambda world: head_node(world).bar("HTTP 401"),
    "cordoned": lambda world: setattr(head_node(world), "cordoned", True),
}
AWAY = [
    FailureKind.CONNECT,
    FailureKind.DNS,
    FailureKind.TLS,
    FailureKind.RESET_BEFORE_REPLY,
    FailureKind.BROKEN_REPLY,
    FailureKind.TIMEOUT,
    FailureKind.HTTP_STATUS,
    FailureKind.NOT_JSON_RPC,
    FailureKind.RATE_LIMITED,
    FailureKind.UNAUTHORIZED,
]


@pytest.mark.parametrize("kind", AWAY)
def test_a_call_whose_only_node_is_lost_waits_and_follows_the_best_node_left(world: World, kind: FailureKind) -> None:
    task = ask(world)
    lose(world, kind)
    assert not task.done(), "it waits"
    world.clock.advance(patience(world))
    world.settle()
    lose(world, kind)
    assert reply(task)["result"] == told(world, HEAD - 1)
    assert task.result().outcomes[0].block == HEAD - 1, "and says so"


@pytest.mark.parametrize("death", DEATHS)
def test_what_keeps_calls_from_the_node_at_the_head_makes_them_follow(world: World, death: str) -> None:
    DEATHS[death](world)
    task = ask(world)
    lose(world, FailureKind.CONNECT)
    assert not task.done()
    world.clock.advance(patience(world))
    world.settle()
    lose(world, FailureKind.CONNECT)
    assert reply(task)["result"] == told(world, HEAD - 1)


def test_who_calls_when_others_have_waited_need_not_wait_again(world: World) -> None:
    first = ask(world)
    lose(world, FailureKind.CONNECT)
    world.clock.advance(patience(world))
    world.settle()
    lose(world, FailureKind.CONNECT)
    assert first.done()
    second = ask(world, BALANCE.replace(b"a5a5", b"b6b6"))
    lose(world, FailureKind.CONNECT)
    assert reply(second)["result"] == told(world, HEAD - 1, ALICE.replace("a5a5", "b6b6"))
    third = ask(world, BALANCE.replace(b"a5a5", b"c7c7"))
    world.let_through()
    assert third.result().outcomes[0].block == HEAD, "it is back"
    fourth = ask(world, BALANCE.replace(b"a5a5", b"d8d8"))
    lose(world, FailureKind.CONNECT)
    assert not fourth.done(), "which was another absence"


def test_another_methods_answer_does_not_make_calls_wait_again_for_a_method_that_its_node_refuses(
    world: World,
) -> None:
    head_node(world).parking.refused("eth_getBalance", world.clock.now(), FAR)
    first = ask(world)
    world.let_through()
    world.clock.advance(patience(world))
    world.settle()
    world.let_through()
    assert first.result().outcomes[0].block == HEAD - 1
    other = ask(world, BALANCE.replace(b"eth_getBalance", b"eth_getTransactionCount"))
    world.let_through()
    assert other.result().outcomes[0].block == HEAD
    second = ask(world, BALANCE.replace(b"a5a5", b"b6b6"))
    world.let_through()
    assert second.result().outcomes[0].block == HEAD - 1


@pytest.mark.parametrize("tier", [False, True])
def test_following_after_a_failed_attempt_is_paid_as_long_as_the_node_is_asked(world: World, tier: bool) -> None:
    host, pool = world.hosts[0], world.hosts[0].state.networks["one"].pool
    host.engine.shared = tier
    pool.budget.share = pool.budget.floor = 0.0
    task = ask(world)
    assert lose(world, FailureKind.BROKEN_REPLY) == 1
    world.clock.advance(patience(world))
    world.settle()
    assert lose(world, FailureKind.BROKEN_REPLY) == 0
    assert "error" in reply(task)


def test_an_outage_costs_no_more_sends_than_it_has_calls_and_the_breaker_lets_through(world: World) -> None:
    pool = world.hosts[0].state.networks["one"].pool
    pool.budget.share = pool.budget.floor = 0.5
    head_node(world).breaker.held = True  # its probes go unanswered, so that no trial is made
    sends, calls = 0, 200
    for number in range(calls):
        task = ask(world, BALANCE.replace(b"a5a5", b"%04x" % number))
        sends += lose(world, FailureKind.BROKEN_REPLY)
        world.clock.advance(patience(world))
        world.settle()
        sends += lose(world, FailureKind.BROKEN_REPLY)
        assert reply(task)["result"]
    assert sends <= calls + 2 * head_node(world).breaker.settings.failures


@pytest.mark.parametrize("tier", [False, True])
def test_a_call_at_a_frozen_node_follows_the_best_node_left_when_the_patience_is_over(world: World, tier: bool) -> None:
    host, node = world.hosts[0], head_node(world)
    host.engine.shared = tier
    calls = [ask(world, BALANCE.replace(b"a5a5", b"%04x" % number)) for number in range(node.breaker.settings.failures)]
    answer_tier(world)
    assert node.in_flight == len(calls)
    world.clock.advance(patience(world) - 1.0)
    world.look("one")
    assert node.in_flight == len(calls), "they wait"
    world.clock.advance(1.0)
    world.look("one")
    assert node.in_flight == 0
    world.let_through()
    assert {call.result().outcomes[0].block for call in calls} == {HEAD - 1}
    assert not node.breaker.allows(world.clock.now()), "and the node is known to hang"


def test_a_call_that_waited_for_a_timeout_longer_than_the_patience_follows_at_once(world: World) -> None:
    task = ask(world)
    answer_tier(world)
    world.clock.advance(patience(world) + 1.0)
    lose(world, FailureKind.TIMEOUT)
    assert reply(task)["result"] == told(world, HEAD - 1)


def test_a_call_goes_on_at_once_when_another_node_comes_along(world: World) -> None:
    task = ask(world)
    lose(world, FailureKind.CONNECT)
    world.nodes["one"][1].knobs.lag = 0
    world.look("one")
    lose(world, FailureKind.CONNECT)
    assert reply(task)["result"] == told(world, HEAD)


@pytest.mark.parametrize("turns", range(8))
def test_a_node_that_comes_along_as_the_other_is_lost_is_asked(world: World, turns: int) -> None:
    """At whatever turn of the loop between the failure and the wait that is."""
    host = world.hosts[0]
    host.engine.shared = False
    task = ask(world)
    world.nodes["one"][1].knobs.lag = 0
    world.run(host.probe(world.nodes["one"][1]))
    (sent,) = world.sent

    async def lose_one_and_see_the_other() -> None:
        sent.fail(FailureKind.CONNECT)
        for _ in range(turns):
            await asyncio.sleep(0)
        await host.see("one")

    world.run(lose_one_and_see_the_other())
    lose(world, FailureKind.CONNECT)
    assert reply(task)["result"] == told(world, HEAD)


def test_where_the_chain_moves_on_a_node_that_stays_a_block_behind_answers_at_the_block_of_the_call(
    world: World,
) -> None:
    DEATHS["parked"](world)
    task = ask(world)
    world.chains["one"].advance()
    world.look("one")
    world.let_through()
    assert reply(task)["result"] == told(world, HEAD)
    assert task.result().outcomes[0].block == HEAD


def test_a_call_that_names_a_block_of_which_the_others_know_nothing_is_told_so(world: World) -> None:
    body = BALANCE.replace(b"latest", hex(HEAD).encode())
    task = ask(world, body)
    lose(world, FailureKind.CONNECT)
    assert not task.done()
    world.clock.advance(patience(world))
    world.settle()
    lose(world, FailureKind.CONNECT)
    assert "error" in reply(task), "what a node that is behind would say is no answer"


def test_a_call_that_names_a_block_is_asked_of_a_node_with_an_open_breaker_when_nobody_came_along(world: World) -> None:
    trip(world)
    task = ask(world, BALANCE.replace(b"latest", hex(HEAD).encode()))
    assert lose(world, FailureKind.CONNECT) == 0
    world.clock.advance(patience(world))
    world.settle()
    world.let_through()
    assert reply(task)["result"] == told(world, HEAD)


def test_a_call_goes_on_at_once_when_a_probe_ends_the_rest_of_the_node_at_the_head(world: World) -> None:
    trip(world)
    task = ask(world)
    assert lose(world, FailureKind.CONNECT) == 0
    world.look("one")
    world.let_through()
    assert reply(task)["result"] == told(world, HEAD)


def test_where_nobody_is_merely_behind_a_lost_call_ends_at_once(world: World) -> None:
    for node in world.hosts[0].state.networks["one"].pool.nodes[1:]:
        node.cordoned = True
    task = ask(world)
    lose(world, FailureKind.CONNECT)
    assert "error" in reply(task)


def test_what_the_node_at_the_head_said_is_given_also_when_it_has_fallen_behind_meanwhile() -> None:
    with closing(World({"one": "ethereum"})) as world:
        world.look("one")
        first, *others = world.hosts[0].state.networks["one"].pool.nodes
        for node in others:
            node.told_head(first.head - 1, world.clock.now())
        call, sends, ends = ask(world), 0, world.clock.now() + 20.0
        while not call.done() and world.clock.now() < ends:
            answer_tier(world)
            while world.sent:
                sends += len(world.sent)
                for sent in [*world.sent]:
                    if sent.node.name == "one-0":
                        sent.done.set_result(Answer(error=b'{"code":-32000,"message":"header not found"}'))
                    else:
                        sent.fail(FailureKind.CONNECT)
                        first.told_head(others[0].head - 1, world.clock.now())
                world.settle()
            world.clock.advance(0.25)
            world.settle()
        assert reply(call)["error"] == {"code": -32000, "message": "header not found"}
        assert sends == 5


@pytest.mark.parametrize(("kind", "waits"), [(FailureKind.CONNECT, True), (FailureKind.BUSY, False)])
def test_a_call_for_which_the_nodes_were_too_busy_does_not_wait_for_others(
    world: World, kind: FailureKind, waits: bool
) -> None:
    network = world.hosts[0].state.networks["one"]
    plan = network.plan("eth_getBalance", f'["{ALICE}","latest"]'.encode())
    lost = Forwarded(answer=None, failure=Failure(kind, "lost"))
    assert head_loss.waits(network, plan, lost, 0.0) is waits


async def test_with_real_nodes_a_killed_one_at_the_head_fails_no_read_of_the_newest_block() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes, net={"block_time": "100ms"}) as proxy:
        head = nodes[0].head
        nodes[1].knobs.lag = 1
        proxy.see(nodes=[head, head - 1], serve=head)
        assert (await proxy.call("eth_getBalance", ALICE, "latest")).headers["X-Rpcaccel-Block"] == str(head)
        await nodes[0].kill()
        replies = await asyncio.gather(
            *(proxy.call("eth_getBalance", f"0x{number:040x}", "latest") for number in range(20))
        )
        assert {reply.status for reply in replies} == {200}
        assert {reply.headers["X-Rpcaccel-Block"] for reply in replies} == {str(head - 1)}
        assert replies[0].result == await nodes[1].ask("eth_getBalance", f"0x{0:040x}", hex(head - 1))


def told(world: World, head: int, who: str = ALICE) -> object:
    params = msgspec.json.encode([who, hex(head)])
    answer = world.truth("one", "eth_getBalance", params, 0, head)
    assert answer.result is not None
    return msgspec.json.decode(answer.result)
