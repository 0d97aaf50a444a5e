from __future__ import annotations

import pytest

from rpcaccel.core.dispatch.dispatch_policy import Hedging
from rpcaccel.core.nodes.node import Node


def with_answers(count: int, seconds: float) -> Node:
    node = Node("a")
    for number in range(count):
        node.pace.answered("m", seconds, float(number))
    return node


def test_a_node_is_slow_after_its_own_quantile_of_that_method() -> None:
    hedging = Hedging(at_least=0.1, samples=30)
    assert hedging.after("m", with_answers(30, 0.4)) == pytest.approx(0.4, rel=0.2)
    assert hedging.after("other", with_answers(30, 0.4)) is None


def test_a_quick_node_is_given_a_moment_all_the_same() -> None:
    assert Hedging(at_least=0.1, samples=30).after("m", with_answers(30, 0.002)) == 0.1


def test_nothing_is_called_slow_before_it_is_known_what_to_expect() -> None:
    assert Hedging(samples=30).after("m", with_answers(29, 0.4)) is None
