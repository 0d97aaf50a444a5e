from __future__ import annotations

from random import Random

from rpcaccel import balancers
from rpcaccel.core.nodes.limits import Quota, QuotaLimits
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.rules import Bulkhead
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.dataplane.upstream.chooser import Chooser
from tests.support.plans import plan_of


def choosing(*nodes: Node, min_head: int = -1) -> Chooser:
    balancer = balancers.load("smooth_weighted")
    balancer.adopt(nodes)
    return Chooser(plan_of(min_head=min_head), nodes, balancer, Random(1))


def resting(id: str) -> Node:
    node = Node(id)
    for _ in range(5):
        node.finish(node.begin(0.0), "failure", 0.0)
    return node


def test_what_was_tried_is_avoided() -> None:
    chooser = choosing(Node("a"), Node("b"))
    found = chooser.next(["a"], 0.5)
    assert found
    assert found.id == "b"
    assert chooser.next(["a", "b"], 0.5) is None
    assert not chooser.forced


def test_a_resting_node_is_not_asked_while_a_fit_one_is_there() -> None:
    chooser = choosing(resting("a"), Node("b"))
    assert chooser.next(["b"], 0.5) is None


def test_when_all_rest_each_may_be_asked_and_it_is_said() -> None:
    chooser = choosing(resting("a"), resting("b"))
    first = chooser.next([], 0.5)
    assert first
    assert chooser.forced
    second = chooser.next([first.id], 0.5)
    assert second
    assert {first.id, second.id} == {"a", "b"}


def test_when_all_lack_the_method_only_one_is_asked() -> None:
    nodes = [Node("a"), Node("b")]
    for node in nodes:
        node.lacks["m"] = 9.0
    chooser = choosing(*nodes)
    first = chooser.next([], 0.5)
    assert first
    assert chooser.next([first.id], 0.5) is None
    nodes[0].in_flight = 5
    assert chooser.next(["a"], 0.5) is None


def test_nobody_says_why_node_by_node() -> None:
    lagging, drained = Node("a"), Node("b")
    lagging.head, drained.drained = 3, True
    failure = choosing(lagging, drained, min_head=5).nobody(0.0)
    assert failure.kind is FailureKind.NO_NODE
    assert not failure.sent
    assert "node a is 2 blocks behind" in failure.text
    assert "node b is being drained" in failure.text


def test_without_nodes_it_says_so() -> None:
    assert choosing().nobody(0.0).text == "there are no nodes"


def test_when_limits_are_the_reason_the_client_learns_how_long() -> None:
    first, second = Node("a"), Node("b")
    for method in "xyz":
        first.parking.refused(method, 0.0, 7.0)
    second.parking.refused("m", 0.0, 4.0)
    failure = choosing(first, second).nobody(1.0)
    assert (failure.kind, failure.retry_after) == (FailureKind.RATE_LIMITED, 3.0)


def test_a_spare_node_is_of_no_higher_tier_has_room_and_is_fit() -> None:
    nodes = [Node("a"), Node("b"), Node("c", tier=1)]
    chooser = choosing(*nodes)
    assert chooser.spare(nodes[0], ["a"], 0.0) is nodes[1]
    nodes[1].limit.value, nodes[1].held[Bulkhead.LIGHT] = 1.0, 1
    assert chooser.spare(nodes[0], ["a"], 0.0) is None
    assert chooser.spare(nodes[2], ["a"], 0.0) is nodes[2]


def test_nobody_is_spared_from_rest() -> None:
    chooser = choosing(resting("a"), resting("b"))
    assert chooser.spare(Node("c"), [], 0.5) is None


def test_a_node_that_has_just_returned_gets_few_calls_at_first() -> None:
    back, steady = Node("back"), Node("steady")
    back.slow_start = 10.0
    back.returned_at = 100.0
    chooser = choosing(back, steady)

    def share(at: float) -> float:
        return sum(chooser.next([], at) is back for _ in range(1000)) / 1000

    assert share(100.0) < 0.15
    assert 0.15 < share(105.0) < 0.4
    assert share(110.0) == 0.5
    assert choosing(back).next([], 100.0) is back, "it is all there is"


def test_when_every_node_is_full_it_is_busy_and_says_when_to_come_again() -> None:
    node = Node("a")
    node.limit.value, node.held[Bulkhead.LIGHT] = 1.0, 1
    chooser = choosing(node)
    assert chooser.next([], 0.0) is None
    failure = chooser.nobody(0.0)
    assert (failure.kind, failure.retry_after, failure.sent) == (FailureKind.BUSY, 1.0, False)


def test_how_many_may_be_asked_counts_the_least_bad_when_none_is_fit() -> None:
    assert choosing(Node("a"), resting("b")).count(0.5) == 1
    assert choosing(resting("a"), resting("b")).count(0.5) == 2


def test_a_quota_that_is_used_up_tells_the_client_how_long() -> None:
    node = Node("a")
    node.quota = Quota(QuotaLimits(day=1), now=0.0, epoch=0.0)
    node.quota.spend("eth_call", False, 0.0)
    failure = choosing(node).nobody(86_000.0)
    assert (failure.kind, failure.retry_after) == (FailureKind.RATE_LIMITED, 400.0)
