from __future__ import annotations

from math import ceil
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcaccel.balancers.consistent_hash import LOAD_FACTOR, MIN_IN_FLIGHT, POINTS, Choice
from rpcaccel.core.nodes.node import Node

KEYS = [b"key-%d" % number for number in range(400)]
FEW = settings(max_examples=20, deadline=None)


def ring(weights: dict[str, int]) -> tuple[Choice, list[Node]]:
    nodes = [Node(id, weight=weight) for id, weight in weights.items()]
    choice = Choice()
    choice.adopt(nodes)
    return choice, nodes


def owners(choice: Choice, nodes: list[Node]) -> dict[bytes, str]:
    return {key: choice.pick(nodes, route_key=key, now=0.0, rng=Random(0)).id for key in KEYS}


WEIGHTS = st.dictionaries(st.text("abcxyz-", min_size=1, max_size=5), st.integers(1, 12), min_size=3, max_size=6)


@FEW
@given(WEIGHTS, st.randoms(use_true_random=False))
def test_removing_a_node_moves_only_its_keys(weights: dict[str, int], rng: Random) -> None:
    choice, nodes = ring(weights)
    before = owners(choice, nodes)
    gone = rng.choice(sorted(weights))
    left = [node for node in nodes if node.id != gone]
    not_eligible = owners(choice, left)
    choice.adopt(left)
    removed = owners(choice, left)
    assert not_eligible == removed
    assert all(removed[key] == id for key, id in before.items() if id != gone)


@FEW
@given(WEIGHTS, st.integers(0, 12), st.randoms(use_true_random=False))
def test_a_changed_weight_moves_keys_only_to_or_from_that_node(
    weights: dict[str, int], weight: int, rng: Random
) -> None:
    choice, nodes = ring(weights)
    before = owners(choice, nodes)
    changed = rng.choice(nodes)
    grown = weight > changed.weight
    changed.weight = weight
    choice.adopt(nodes)
    for key, id in owners(choice, nodes).items():
        if id != before[key]:
            assert (id if grown else before[key]) == changed.id


def test_doubling_one_of_four_weights_moves_a_proportionate_share() -> None:
    choice, nodes = ring({"a": 4, "b": 4, "c": 4, "d": 4})
    before = owners(choice, nodes)
    nodes[0].weight = 8
    choice.adopt(nodes)
    moved = sum(1 for key, id in owners(choice, nodes).items() if id != before[key])
    assert moved / len(KEYS) == pytest.approx(8 / 20 - 4 / 16, abs=0.06)


def test_shares_follow_weights() -> None:
    choice, nodes = ring({"a": 1, "b": 2, "c": 5})
    found = list(owners(choice, nodes).values())
    for node in nodes:
        assert found.count(node.id) / len(KEYS) == pytest.approx(node.weight / 8, abs=0.08)


@FEW
@given(WEIGHTS, st.integers(1, 120))
def test_one_hot_key_cannot_drown_a_node(weights: dict[str, int], calls: int) -> None:
    choice, nodes = ring(weights)
    for _ in range(calls):
        choice.pick(nodes, route_key=b"hot", now=0.0, rng=Random(0)).in_flight += 1
    for node in nodes:
        share = LOAD_FACTOR * calls * node.weight / sum(weights.values())
        assert node.in_flight <= max(ceil(share), MIN_IN_FLIGHT)


def test_a_few_calls_in_flight_do_not_scatter_a_key() -> None:
    choice, nodes = ring({"a": 1, "b": 1, "c": 1})
    for _ in range(MIN_IN_FLIGHT):
        choice.pick(nodes, route_key=b"k", now=0.0, rng=Random(0)).in_flight += 1
    assert sorted(node.in_flight for node in nodes) == [0, 0, MIN_IN_FLIGHT]


def test_the_same_nodes_in_another_order_give_the_same_owners() -> None:
    choice, nodes = ring({"a": 1, "b": 2, "c": 3})
    other, twins = ring({"c": 3, "a": 1, "b": 2})
    assert owners(choice, nodes) == owners(other, twins)


def test_an_unchanged_set_keeps_its_ring() -> None:
    choice, nodes = ring({"a": 1, "b": 2})
    laid = choice._ring
    choice.adopt(nodes)
    assert choice._ring is laid
    assert len(laid) == 3 * POINTS


def test_what_luck_a_call_had_moves_no_key() -> None:
    choice, nodes = ring({"a": 1, "b": 1})
    before = owners(choice, nodes)
    choice.failed(nodes[0])
    choice.succeeded(nodes[1])
    assert owners(choice, nodes) == before


def test_nodes_that_were_never_adopted_are_refused() -> None:
    with pytest.raises(ValueError, match="adopt"):
        Choice().pick([Node("a"), Node("b")], route_key=b"", now=0.0, rng=Random(0))


def test_a_ring_has_room_for_some_thousand_nodes_only() -> None:
    with pytest.raises(ValueError, match="at most"):
        Choice().adopt([Node(str(number), weight=0) for number in range(5000)])
