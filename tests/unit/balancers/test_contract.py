"""What every balancer must hold to, whichever file it comes from."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel import balancers
from rpcaccel.balancers import Balancer
from rpcaccel.config.model import MOST_NODES
from rpcaccel.core.nodes.node import Node

pytestmark = pytest.mark.parametrize("name", balancers.names())


def nodes_of(*weights: int) -> list[Node]:
    return [Node(f"node-{number}", weight=weight) for number, weight in enumerate(weights)]


def loaded(name: str, nodes: list[Node]) -> Balancer:
    balancer = balancers.load(name)
    balancer.adopt(nodes)
    return balancer


def test_it_is_found_by_its_name(name: str) -> None:
    assert balancers.load(name).name == name


def test_it_says_what_it_aims_at_unless_that_is_shares_by_weight(name: str) -> None:
    assert bool(balancers.aim(name)) is (name != "smooth_weighted")


def test_nobody_to_choose_from_is_an_error(name: str) -> None:
    nodes = nodes_of(0, 0)
    balancer = loaded(name, nodes)
    for nobody in ([], nodes):
        with pytest.raises(ValueError, match="weight"):
            balancer.pick(nobody, route_key=b"k", now=1.0, rng=Random(1))


@given(
    weights=st.lists(st.integers(0, 20), min_size=1, max_size=6).filter(any),
    steps=st.lists(st.tuples(st.integers(0, 63), st.sampled_from("pfs"), st.binary(max_size=4)), max_size=60),
    seed=st.integers(0, 1000),
)
def test_only_eligible_nodes_of_some_weight_are_ever_picked(
    name: str, weights: list[int], steps: list[tuple[int, str, bytes]], seed: int
) -> None:
    nodes, rng = nodes_of(*weights), Random(seed)
    balancer = loaded(name, nodes)
    for number, (mask, action, key) in enumerate(steps):
        eligible = [node for bit, node in enumerate(nodes) if mask >> bit & 1 and node.weight]
        if not eligible:
            continue
        picked = balancer.pick(eligible, route_key=key, now=float(number), rng=rng)
        assert picked in eligible
        if action == "f":
            balancer.failed(picked)
        elif action == "s":
            picked.latency.add(0.1, float(number))
            if picked.id in balancer.penalised:
                balancer.succeeded(picked)
        else:
            picked.in_flight += 1


def test_weight_zero_takes_nothing(name: str) -> None:
    nodes = nodes_of(0, 1, 2)
    balancer = loaded(name, nodes)
    picked = {balancer.pick(nodes, route_key=b"%d" % n, now=1.0, rng=Random(n)).id for n in range(200)}
    assert picked == {"node-1", "node-2"}


def test_a_preview_names_each_node_of_weight_once_and_changes_nothing(name: str) -> None:
    nodes = nodes_of(3, 0, 1, 2)
    balancer, other = loaded(name, nodes), loaded(name, nodes_of(3, 0, 1, 2))
    twins = nodes_of(3, 0, 1, 2)
    for number in range(20):
        before = balancer.preview(nodes, b"%d" % number)
        assert balancer.preview(nodes, b"%d" % number) == before
        assert sorted(node.id for node in before) == ["node-0", "node-2", "node-3"]
        picked = balancer.pick(nodes, route_key=b"%d" % number, now=1.0, rng=Random(number))
        assert picked.id == other.pick(twins, route_key=b"%d" % number, now=1.0, rng=Random(number)).id


def test_a_new_set_of_nodes_is_taken_at_any_time(name: str) -> None:
    balancer = loaded(name, nodes_of(1, 2))
    for weights in [(1,), (2, 2, 2), (0, 1), (5, 5, 5, 5)]:
        nodes = nodes_of(*weights)
        balancer.adopt(nodes)
        assert balancer.pick(nodes, route_key=b"k", now=1.0, rng=Random(1)).weight > 0


def test_as_many_nodes_as_the_settings_allow_are_taken(name: str) -> None:
    nodes = nodes_of(*[1] * MOST_NODES)
    assert loaded(name, nodes).pick(nodes, route_key=b"k", now=1.0, rng=Random(1)) in nodes


def test_every_node_of_weight_is_used(name: str) -> None:
    nodes = nodes_of(1, 1, 1)
    balancer, rng = loaded(name, nodes), Random(7)
    picked = [balancer.pick(nodes, route_key=b"%d" % n, now=1.0, rng=rng).id for n in range(300)]
    assert all(picked.count(node.id) > 30 for node in nodes)


def test_another_name_is_refused_with_the_names_there_are(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        balancers.load(f"not-{name}")
