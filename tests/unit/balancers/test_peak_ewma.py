from __future__ import annotations

from random import Random

from rpcaccel.balancers.peak_ewma import Choice
from rpcaccel.core.nodes.node import Node


def nodes_with(*latencies: float | None, weight: int = 1) -> list[Node]:
    nodes = [Node(f"n{number}", weight=weight) for number in range(len(latencies))]
    for node, latency in zip(nodes, latencies, strict=True):
        if latency is not None:
            node.latency.add(latency, 0.0)
    return nodes


def counts(choice: Choice, nodes: list[Node], calls: int = 1000, now: float = 0.0) -> list[int]:
    rng = Random(3)
    picked = [choice.pick(nodes, route_key=b"", now=now, rng=rng).id for _ in range(calls)]
    return [picked.count(node.id) for node in nodes]


def test_of_two_the_quicker_is_taken() -> None:
    assert counts(Choice(), nodes_with(0.01, 0.2)) == [1000, 0]


def test_the_slowest_of_three_is_taken_never_and_the_middle_sometimes() -> None:
    fast, middle, slow = counts(Choice(), nodes_with(0.01, 0.05, 2.0))
    assert slow == 0
    assert fast > middle > 200


def test_calls_in_flight_make_a_node_dearer() -> None:
    nodes = nodes_with(0.01, 0.015)
    nodes[0].in_flight = 3
    assert counts(Choice(), nodes) == [0, 1000]


def test_weight_makes_a_node_cheaper() -> None:
    nodes = nodes_with(0.01, 0.02)
    nodes[1].weight = 4
    assert counts(Choice(), nodes) == [0, 1000]


def test_a_new_node_starts_as_good_as_its_rival() -> None:
    known, new = counts(Choice(), nodes_with(0.5, None))
    assert min(known, new) > 400
    nodes = nodes_with(0.5, None)
    nodes[1].in_flight = 1
    assert counts(Choice(), nodes) == [1000, 0]


def test_a_slow_answer_is_forgotten_when_the_node_is_left_alone() -> None:
    nodes = nodes_with(0.01, 2.0)
    nodes[0].latency.add(0.01, 100.0)
    assert counts(Choice(), nodes, now=100.0)[1] > 0


def test_a_failing_node_is_no_quick_node_but_comes_back() -> None:
    choice, nodes = Choice(), nodes_with(0.001, 0.01)
    for _ in range(10):
        choice.failed(nodes[0])
    assert counts(choice, nodes, 10) == [0, 10]
    assert counts(choice, nodes, 400)[0] > 200


def test_success_halves_the_penalty() -> None:
    choice, nodes = Choice(), nodes_with(0.01, 0.015)
    choice.failed(nodes[0])
    assert choice.preview(nodes, b"")[0] is nodes[1]
    assert nodes[0].id in choice.penalised
    choice.succeeded(nodes[0])
    choice.succeeded(nodes[0])
    assert nodes[0].id not in choice.penalised
    assert choice.preview(nodes, b"")[0] is nodes[0]


def test_penalties_of_nodes_that_stay_are_kept() -> None:
    choice, nodes = Choice(), nodes_with(0.01, 0.015)
    choice.failed(nodes[0])
    choice.adopt(nodes)
    assert choice.preview(nodes, b"")[0] is nodes[1]
    choice.adopt(nodes[1:])
    choice.adopt(nodes)
    assert choice.preview(nodes, b"")[0] is nodes[0]


def test_two_without_weight_leave_the_third() -> None:
    nodes = nodes_with(0.1, 0.1, 0.1)
    nodes[0].weight = nodes[1].weight = 0
    assert counts(Choice(), nodes, 50) == [0, 0, 50]
