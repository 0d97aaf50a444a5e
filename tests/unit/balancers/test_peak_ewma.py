from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from random import Random

import pytest

from rpcaccel.balancers.peak_ewma import Choice
from rpcaccel.core.nodes.node import Node


def nodes_with(*latencies: float | None, weights: Sequence[int] = ()) -> list[Node]:
    nodes = [Node(f"n{number}", weight=weight) for number, weight in enumerate(weights or [1] * len(latencies))]
    for node, latency in zip(nodes, latencies, strict=True):
        if latency is not None:
            node.latency.add(latency, 0.0)
    return nodes


def counts(choice: Choice, nodes: list[Node], calls: int = 1000, now: float = 0.0) -> list[int]:
    rng = Random(3)
    choice.adopt(nodes)
    picked = [choice.pick(nodes, route_key=b"", now=now, rng=rng).id for _ in range(calls)]
    return [picked.count(node.id) for node in nodes]


def shares_under_load(
    weights: Sequence[int], means: Sequence[float], rate: float, spread: float, seconds: float
) -> list[float]:
    """The share of each node of calls that come at random, `rate` a second, and take what a node takes: seconds with a
    log-normal spread around its mean."""
    choice, rng = Choice(), Random(1)
    nodes = [Node(f"n{number}", weight=weight) for number, weight in enumerate(weights)]
    choice.adopt(nodes)
    mean_of = dict(zip(nodes, means, strict=True))
    got, under_way, now, number = dict.fromkeys(nodes, 0), list[tuple[float, int, Node, float]](), 0.0, 0
    while now < seconds:
        now += rng.expovariate(rate)
        while under_way and under_way[0][0] <= now:
            ended, _, node, took = heappop(under_way)
            node.in_flight -= 1
            node.latency.add(took, ended)
        node = choice.pick(nodes, route_key=b"", now=now, rng=rng)
        took = mean_of[node] * rng.lognormvariate(-spread * spread / 2, spread)
        number += 1
        got[node] += 1
        node.in_flight += 1
        heappush(under_way, (now + took, number, node, took))
    return [calls / number for calls in got.values()]


LOADS = pytest.mark.parametrize(("rate", "seconds"), [(2, 1500.0), (20, 240.0), (400, 30.0)])


@pytest.mark.parametrize(("rate", "seconds"), [(0.03, 2e5), (0.2, 3e4), (2, 1500.0), (20, 240.0), (400, 30.0)])
@pytest.mark.parametrize("spread", [0.0, 0.3])
@pytest.mark.parametrize("weights", [(2, 1), (1, 1, 1), (5, 2, 1), (9, 1)])
def test_shares_follow_the_weights_while_nodes_are_equally_quick(
    weights: tuple[int, ...], spread: float, rate: float, seconds: float
) -> None:
    got = shares_under_load(weights, [0.05] * len(weights), rate, spread, seconds)
    wanted = [weight / sum(weights) for weight in weights]
    assert got == pytest.approx(wanted, abs=0.05)


@LOADS
def test_a_node_three_times_slower_gets_clearly_less_and_still_something(rate: float, seconds: float) -> None:
    quick, slow = shares_under_load((1, 1), (0.05, 0.15), rate, 0.3, seconds)
    assert 0.01 < slow < 0.2
    assert quick + slow == pytest.approx(1.0)
    slow, quick = shares_under_load((2, 1), (0.15, 0.05), rate, 0.3, seconds)
    assert slow < 0.3


@pytest.mark.parametrize("in_flight", [0, 1, 3])
def test_weights_hold_where_the_calls_in_flight_follow_them(in_flight: int) -> None:
    nodes = nodes_with(0.05, 0.05, weights=(2, 1))
    nodes[0].in_flight, nodes[1].in_flight = 2 * in_flight, in_flight
    heavy, _ = counts(Choice(), nodes, 3000)
    assert heavy / 3000 == pytest.approx(2 / 3, abs=0.03)


def test_very_uneven_weights_hold_as_well() -> None:
    few, most = counts(Choice(), nodes_with(0.05, 0.05, weights=(1, 999)), 20_000)
    assert 5 <= few <= 40
    assert most > 19_900


def test_the_slowest_of_three_is_hardly_taken_and_the_middle_sometimes() -> None:
    fast, middle, slow = counts(Choice(), nodes_with(0.01, 0.05, 2.0))
    assert slow <= 2
    assert fast > middle > 200


def test_calls_in_flight_make_a_node_dearer() -> None:
    nodes = nodes_with(0.01, 0.015)
    nodes[0].in_flight = 40
    assert counts(Choice(), nodes)[1] > 950


def test_a_new_node_starts_as_good_as_its_rival() -> None:
    known, new = counts(Choice(), nodes_with(0.5, None))
    assert min(known, new) > 400
    nodes = nodes_with(0.5, None)
    nodes[1].in_flight = 40
    assert counts(Choice(), nodes)[0] > 950


def test_a_slow_answer_is_forgotten_when_the_node_is_left_alone() -> None:
    nodes = nodes_with(0.01, 20.0)
    assert counts(Choice(), nodes)[1] == 0
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
