from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.nodes.node import Node
from rpcaccel.core.nodes.rendezvous import rendezvous

WEIGHTS = st.lists(st.integers(1, 20), min_size=2, max_size=8)


def made(weights: list[int]) -> list[Node]:
    return [Node(f"node-{number}", weight=weight) for number, weight in enumerate(weights)]


@given(WEIGHTS, st.binary(max_size=40), st.randoms(use_true_random=False))
def test_a_caller_is_led_to_the_same_node_in_whatever_order_they_stand(
    weights: list[int], key: bytes, rng: object
) -> None:
    nodes = made(weights)
    first = rendezvous(nodes, key)
    rng.shuffle(nodes)  # type: ignore[attr-defined]
    assert rendezvous(nodes, key) is first


@given(WEIGHTS, st.binary(max_size=40), st.data())
def test_only_the_callers_of_a_node_that_goes_are_moved_and_they_come_back(
    weights: list[int], key: bytes, data: st.DataObject
) -> None:
    nodes = made(weights)
    gone = data.draw(st.sampled_from(nodes))
    before = rendezvous(nodes, key)
    after = rendezvous([node for node in nodes if node is not gone], key)
    assert after is before or before is gone
    assert rendezvous(nodes, key) is before


@given(WEIGHTS, st.binary(max_size=40), st.data())
def test_a_node_that_gains_weight_loses_no_caller(weights: list[int], key: bytes, data: st.DataObject) -> None:
    nodes = made(weights)
    grown = data.draw(st.sampled_from(nodes))
    before = rendezvous(nodes, key)
    grown.weight += 5
    assert rendezvous(nodes, key) in (before, grown)


def test_over_many_callers_every_node_gets_its_share() -> None:
    nodes = made([1, 2, 5])
    drawn = Counter(rendezvous(nodes, b"192.0.2.%d" % number).id for number in range(8000))
    assert [round(drawn[node.id] / 1000) for node in nodes] == [1, 2, 5]


def test_a_long_id_is_a_name_like_any_other() -> None:
    nodes = [Node("n" * 80 + end) for end in "ab"]
    assert {rendezvous(nodes, b"%d" % number).id[-1] for number in range(20)} == {"a", "b"}
