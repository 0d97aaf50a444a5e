"""Who has a method is found out by asking: no call is told that no node has it while a healthy node does.

Calls of one method come in any number at once, to any nodes of which some have it, and the replies come in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcaccel import balancers
from rpcaccel.core.dispatch.dispatch_policy import DispatchSettings, Settle
from rpcaccel.core.dispatch.machine import Asked, Dispatch, NextStep
from rpcaccel.core.dispatch.retry_budget import Budget
from rpcaccel.core.nodes.node import LACKS_FOR, Node
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import UNKNOWN_RULE, CacheClass, Rule
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.dataplane.upstream.chooser import Chooser
from tests.support.dataplane.world import HEAD, World
from tests.support.plans import plan_of
from tests.support.properties import examples

MISSING = Answer(error=b'{"code":-32601,"message":"the method m does not exist/is not available"}')
OK = Answer(result=b"1")


class Fleet:
    """Nodes of which some have the method, and the calls of it that are under way."""

    def __init__(self, count: int, having: set[int], rng: Random) -> None:
        self.nodes = [Node(f"n{number}") for number in range(count)]
        self.having = {self.nodes[number].id for number in having}
        self.now, self.sends = 1.0, 0
        self.budget = Budget()
        self.ends: list[Settle] = []
        self._balancer = balancers.load("smooth_weighted")
        self._balancer.adopt(self.nodes)
        self._rng = rng
        self._under_way: list[tuple[Dispatch, Plan, Asked]] = []

    def begin(self, method: str = "m", *, known: bool = False) -> None:
        rule = Rule(method=method, cache=CacheClass.NEVER) if known else UNKNOWN_RULE
        plan = plan_of(method, rule=rule, cache=CacheClass.NEVER)
        chooser = Chooser(plan, self.nodes, self._balancer, self._rng)
        run = Dispatch(plan, chooser, self.budget, DispatchSettings(), ends=1e9)
        self._obey(run, plan, run.start(self.now))

    def reply(self, which: int) -> None:
        """One of the nodes that were asked replies."""
        run, plan, start = self._under_way.pop(which % len(self._under_way))
        if start.node.id in self.having:
            self._obey(run, plan, run.answered(start.number, OK, None, self.now))
            return
        start.node.learn(FailureKind.METHOD_MISSING, plan, self.now)
        self._obey(run, plan, run.answered(start.number, MISSING, FailureKind.METHOD_MISSING, self.now))

    def finish(self) -> None:
        while self._under_way:
            self.reply(0)

    @property
    def under_way(self) -> bool:
        return bool(self._under_way)

    def _obey(self, run: Dispatch, plan: Plan, done: NextStep) -> None:
        if isinstance(done, Asked):
            self.sends += 1
            self._under_way.append((run, plan, done))
        elif done is not None:
            self.ends.append(done)


@settings(max_examples=examples(300), deadline=None)
@given(st.data(), st.integers(1, 8), st.booleans(), st.randoms(use_true_random=False))
def test_no_call_is_told_that_the_method_is_missing_while_a_node_has_it(
    data: st.DataObject, count: int, known: bool, rng: Random
) -> None:
    having = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    fleet = Fleet(count, having, rng)
    for event in data.draw(st.lists(st.one_of(st.none(), st.integers(0, 99)), max_size=80)):
        if event is None:
            fleet.begin(known=known)
        elif fleet.under_way:
            fleet.reply(event)
    fleet.finish()
    assert [end.failure for end in fleet.ends if end.failure] == []


def test_a_method_that_every_node_lacks_is_asked_of_each_once_and_then_of_one() -> None:
    fleet = Fleet(5, set(), Random(1))
    fleet.begin()
    fleet.finish()
    assert fleet.sends == 5
    fleet.begin()
    fleet.finish()
    assert fleet.sends == 6


def test_a_flood_of_invented_names_is_not_multiplied_by_the_number_of_nodes() -> None:
    fleet, calls = Fleet(5, set(), Random(1)), 4_000
    for number in range(calls):
        fleet.now += 0.001
        fleet.begin(f"invented_{number}")
        fleet.finish()
    assert all(end.failure is not None for end in fleet.ends)
    assert fleet.sends < 1.2 * calls


def test_a_method_that_was_found_is_looked_for_again_while_names_are_invented() -> None:
    fleet = Fleet(3, {2}, Random(1))
    fleet.begin("custom")
    fleet.finish()
    fleet.now += LACKS_FOR + 1.0  # by then the other nodes might have it, too
    for number in range(2000):
        fleet.begin(f"invented_{number}")
        fleet.finish()
        fleet.ends.clear()
        fleet.begin("custom")
        fleet.finish()
        assert fleet.ends[-1].failure is None


def test_calls_at_once_of_one_method_that_no_node_has_are_no_flood() -> None:
    fleet = Fleet(3, {2}, Random(1))
    fleet.having.clear()
    for _ in range(500):
        fleet.begin("nobody_has_it")
    fleet.finish()
    fleet.having.add("n2")
    for number in range(20):
        fleet.begin(f"custom_{number}")
    fleet.ends.clear()
    fleet.finish()
    assert [end.failure for end in fleet.ends if end.failure] == []


# ---- where the node that has it is behind for a moment ---------------------------------------------------------------

HASH = "0x" + "ab" * 32
CALLS = {
    "of the chain's table": ("debug_traceTransaction", f'["{HASH}"]'),
    "about the newest block": ("eth_getBalance", f'["0x{"a5" * 20}","latest"]'),
    "of no table": ("custom_lookUp", "[]"),
}


@pytest.fixture
def world() -> Iterator[World]:
    """One network, whose nodes one-0 and one-1 are at the head, and one-2 a block behind."""
    made = World({"one": "harmony"})
    made.nodes["one"][2].knobs.lag = 1
    made.look("one")
    yield made
    made.close()


def deliver(world: World, *having: str) -> list[str]:
    """Nodes of these names answer, the others lack the method, until nothing is under way; who was asked."""
    asked = []
    while world.shared.reads or any(not sent.done.done() for sent in world.sent):
        while world.shared.reads:
            world.shared.answer(0)
        for sent in world.sent:
            if not sent.done.done():
                asked.append(sent.node.name)
                sent.said = Answer(result=b'"0x1"') if sent.node.name in having else MISSING
                sent.deliver()
        world.settle()
    return asked


def request(call: str, number: int = 0) -> bytes:
    method, params = CALLS[call]
    params = params.replace("ab" * 4, f"{number:08x}").replace("a5" * 4, f"{number:08x}")
    return f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}'.encode()


@pytest.mark.parametrize("call", CALLS)
def test_the_one_node_that_has_the_method_is_asked_when_it_has_come_along(world: World, call: str) -> None:
    task = world.start(world.hosts[0].ask("one", request(call)))
    deliver(world, "one-2")
    world.nodes["one"][2].knobs.lag = 0
    world.look("one")
    deliver(world, "one-2")
    assert msgspec.json.decode(task.result().body)["result"] == "0x1"


@pytest.mark.parametrize("call", CALLS)
def test_the_one_node_that_has_the_method_is_followed_when_it_stays_behind(world: World, call: str) -> None:
    host = world.hosts[0]
    first = world.start(host.ask("one", request(call)))
    deliver(world, "one-2")
    world.clock.advance(5.0)
    world.settle()
    deliver(world, "one-2")
    assert msgspec.json.decode(first.result().body)["result"] == "0x1"
    assert first.result().outcomes[0].block == HEAD - 1, "and says so"
    again = world.start(host.ask("one", request(call, 7)))
    deliver(world, "one-2")
    assert msgspec.json.decode(again.result().body)["result"] == "0x1", "who calls later waits no more"


def test_a_node_further_behind_is_asked_when_the_one_before_it_lacks_the_method_too(world: World) -> None:
    world.nodes["one"][1].knobs.lag, world.nodes["one"][2].knobs.lag = 2, 5
    world.run(world.adopt(world.settings_with(weights={"one-0": 5})))
    world.look("one")
    task = world.start(world.hosts[0].ask("one", request("of no table")))
    assert deliver(world, "one-2") == ["one-0", "one-1", "one-2"]
    assert msgspec.json.decode(task.result().body)["result"] == "0x1"


@pytest.mark.parametrize("call", CALLS)
def test_a_method_that_no_node_has_is_answered_so_once_each_was_asked(world: World, call: str) -> None:
    host = world.hosts[0]
    first = world.start(host.ask("one", request(call)))
    deliver(world)
    world.clock.advance(5.0)
    world.settle()
    deliver(world)
    assert msgspec.json.decode(first.result().body)["error"]["code"] == -32601
    again = world.start(host.ask("one", request(call, 7)))
    assert len(deliver(world)) == 1
    assert msgspec.json.decode(again.result().body)["error"]["code"] == -32601


def test_a_flood_of_invented_names_asks_few_of_them_of_the_node_that_is_behind(world: World) -> None:
    asked = []
    for number in range(300):
        world.start(world.hosts[0].ask("one", request("of no table").replace(b"lookUp", b"invented%d" % number)))
        asked += deliver(world)
    assert len(asked) < 450
