from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.balancers.smooth_weighted import Choice
from rpcaccel.core.nodes.node import Node

WEIGHTS = st.lists(st.integers(1, 1000), min_size=2, max_size=6)


def start(*weights: int) -> tuple[Choice, list[Node]]:
    nodes = [Node(f"n{number}", weight=weight) for number, weight in enumerate(weights)]
    choice = Choice()
    choice.adopt(nodes)
    return choice, nodes


def share(choice: Choice, node: Node) -> float:
    """What failures have left of a node's weight, 0..1."""
    standing = choice._standings[node.id]
    return standing.effective / standing.initial


def picks(choice: Choice, nodes: list[Node], count: int) -> list[str]:
    return [choice.pick(nodes, route_key=b"", now=0.0, rng=Random(0)).id for _ in range(count)]


def test_it_interleaves_as_nginx_does() -> None:
    choice, nodes = start(5, 1, 1)
    assert picks(choice, nodes, 7) == ["n0", "n0", "n1", "n0", "n2", "n0", "n0"]


@given(WEIGHTS, st.integers(1, 300))
def test_shares_follow_weights_over_any_prefix(weights: list[int], count: int) -> None:
    choice, nodes = start(*weights)
    picked = picks(choice, nodes, count)
    for node in nodes:
        ahead = picked.count(node.id) - count * node.weight / sum(weights)
        assert -(len(nodes) - 1) < ahead < 1


@given(WEIGHTS)
def test_each_round_gives_every_node_exactly_its_weight(weights: list[int]) -> None:
    weights = [weight % 20 + 1 for weight in weights]
    choice, nodes = start(*weights)
    for _ in range(2):
        picked = picks(choice, nodes, sum(weights))
        assert [picked.count(node.id) for node in nodes] == weights


def test_a_failing_node_takes_less_and_recovers() -> None:
    choice, nodes = start(1, 1)
    for _ in range(4):
        choice.failed(nodes[0])
    assert share(choice, nodes[0]) == 0.0
    assert picks(choice, nodes, 20).count("n0") <= 2
    picks(choice, nodes, 200)
    assert share(choice, nodes[0]) == 1.0
    assert picks(choice, nodes, 100).count("n0") == 50


def test_one_node_failing_a_third_of_its_calls_gets_far_less_than_its_share() -> None:
    choice, nodes = start(1, 1, 1)
    rng, asked = Random(5), 0
    for _ in range(3000):
        node = choice.pick(nodes, route_key=b"", now=0.0, rng=rng)
        if node.id == "n0":
            asked += 1
            if rng.random() < 0.3:
                choice.failed(node)
    assert asked < 3000 * 0.2


def test_a_changed_weight_keeps_the_weakness_in_proportion() -> None:
    choice, nodes = start(2, 2)
    choice.failed(nodes[0])
    nodes[0].weight = 4
    choice.adopt(nodes)
    assert share(choice, nodes[0]) == 0.75
    nodes[0].weight = 0
    choice.adopt(nodes)
    assert set(picks(choice, nodes, 5)) == {"n1"}
    nodes[0].weight = 2
    choice.adopt(nodes)
    assert share(choice, nodes[0]) == 1.0


def test_all_nodes_failing_still_share_the_calls() -> None:
    choice, nodes = start(1, 1)
    for node in nodes * 4:
        choice.failed(node)
    assert set(picks(choice, nodes, 4)) == {"n0", "n1"}


def test_the_preview_begins_with_the_next_pick() -> None:
    choice, nodes = start(3, 2, 1)
    choice.failed(nodes[0])
    for _ in range(12):
        following = choice.preview(nodes, b"")[0].id
        assert picks(choice, nodes, 1) == [following]
