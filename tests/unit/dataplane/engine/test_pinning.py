"""Choosing when it matters which node it is."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from rpcaccel import balancers
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.rules import Bulkhead, CacheClass, Rule
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.dataplane.upstream.chooser import Chooser, OneNode
from tests.support.plans import plan_of

PLAN = plan_of(cache=CacheClass.NEVER, min_head=100)


def three() -> list[Node]:
    nodes = [Node(name) for name in "abc"]
    for node in nodes:
        node.head = 100
    return nodes


def preferring(nodes: list[Node], *preferred: str) -> Chooser:
    balancer = balancers.load("smooth_weighted")
    balancer.adopt(nodes)
    return Chooser(PLAN, nodes, balancer, Random(1), preferred=preferred)


def test_a_pinned_node_is_asked_once_and_nobody_else() -> None:
    node = Node("a")
    chooser = OneNode(node, PLAN)
    assert chooser.next((), 0.0) is node
    assert chooser.next(["a"], 0.0) is None


@pytest.mark.parametrize("state", ["drained", "cordoned", "weightless", "behind"])
def test_a_pinned_node_that_takes_nothing_new_is_asked_for_what_it_holds(state: str) -> None:
    node = Node("a", weight=0 if state == "weightless" else 1, drained=state == "drained")
    node.cordoned = state == "cordoned"
    assert OneNode(node, PLAN).next((), 0.0) is node


@pytest.mark.parametrize("answers_probes", [True, False])
def test_a_pinned_node_that_failed_often_is_asked_as_long_as_it_answers_probes(answers_probes: bool) -> None:
    node = Node("a")
    node.head = 100
    for _ in range(node.breaker.settings.failures):
        node.finish(node.begin(0.0), "failure", 0.0)
    node.breaker.held = not answers_probes
    chooser = OneNode(node, PLAN)
    assert chooser.next((), 0.1) is (node if answers_probes else None)
    assert chooser.nobody(0.1).kind is FailureKind.NO_NODE


def test_a_pinned_node_of_another_chain_is_not_asked() -> None:
    node = Node("a")
    node.chain_ok = False
    chooser = OneNode(node, PLAN)
    assert chooser.next((), 0.0) is None
    assert chooser.nobody(0.0).kind is FailureKind.NO_NODE


def test_a_pinned_node_that_is_parked_is_a_reason_to_wait() -> None:
    node = Node("a")
    node.head = 100
    node.parking.refused(PLAN.method, 0.0, 5.0)
    chooser = OneNode(node, PLAN)
    assert chooser.next((), 0.0) is None
    assert chooser.nobody(0.0).kind is FailureKind.RATE_LIMITED


def test_preferred_nodes_come_first_and_then_the_others() -> None:
    chooser = preferring(three(), "b")
    asked: list[str] = []
    while (node := chooser.next(asked, 0.0)) is not None:
        asked.append(node.id)
    assert asked[0] == "b"
    assert sorted(asked) == ["a", "b", "c"]


def test_a_preferred_node_that_is_not_fit_is_passed_over() -> None:
    nodes = three()
    nodes[1].drained = True
    chosen = preferring(nodes, "b").next((), 0.0)
    assert chosen is not None
    assert chosen.id != "b"


def test_preferred_nodes_share_the_calls() -> None:
    chooser = preferring(three(), "a", "c")
    assert {node.id for _ in range(4) if (node := chooser.next((), 0.0))} == {"a", "c"}


def test_a_pinned_node_with_as_many_heavy_calls_as_it_may_have_is_waited_for() -> None:
    node = Node("a")
    heavy = replace(PLAN, rule=Rule(method="m", cache=CacheClass.NEVER, heavy=True))
    for _ in range(node.max_heavy):
        permit = node.begin(0.0, Bulkhead.HEAVY)
    assert OneNode(node, heavy).next((), 0.0) is None
    assert OneNode(node, heavy).nobody(0.0).kind is FailureKind.BUSY
    assert OneNode(node, PLAN).next((), 0.0) is node, "light polls have places of their own"
    node.finish(permit, "success", 0.0, Bulkhead.HEAVY)
    assert OneNode(node, heavy).next((), 0.0) is node
