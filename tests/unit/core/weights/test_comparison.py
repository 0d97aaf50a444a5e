from __future__ import annotations

from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.stats.histogram import Histogram
from rpcaccel.core.weights.comparison import FEWEST, compare, mean_of, paces_of
from rpcaccel.core.weights.forecast import limited


def took(*seconds: float) -> Histogram:
    histogram = Histogram()
    for one in seconds:
        histogram.observe(one)
    return histogram


def test_the_spread_of_a_mean_is_about_that_of_the_observations() -> None:
    rng = Random(2)
    seen = [rng.expovariate(20.0) for _ in range(400)]
    found = mean_of(took(*seen))
    assert found is not None
    assert found.seconds == pytest.approx(fmean(seen))
    assert found.variance**0.5 == pytest.approx(0.05 / 20, rel=0.25)
    assert mean_of(took(0.5)) is None


def test_the_spread_holds_1_for_19_of_20_pairs_of_equal_nodes() -> None:
    rng, held = Random(4), 0
    for _ in range(400):
        pair = [took(*(rng.lognormvariate(-4, 0.5) for _ in range(40))) for _ in range(2)]
        found = compare({"m": pair[0]}, {"m": pair[1]}, {})
        assert found is not None
        held += found.low <= 1.0 <= found.high
    assert 0.93 <= held / 400 <= 0.99


def test_only_methods_that_both_were_asked_often_enough_are_compared() -> None:
    mine = {"m": took(*[0.02] * 9), "rare": took(*[9.0] * 9), "own": took(*[9.0] * 9)}
    others = {"m": took(*[0.01] * 9), "rare": took(*[0.001] * (FEWEST - 1))}
    found = compare(mine, others, {"m": 18})
    assert found is not None
    assert (found.methods, found.calls) == (1, 9)
    assert (found.mean, found.others, found.ratio) == pytest.approx((0.02, 0.01, 2.0))
    assert compare(mine, {}, {}) is None


def test_a_method_counts_as_often_as_it_is_called() -> None:
    mine, others = {"a": took(*[0.1] * 10), "b": took(*[0.3] * 10)}, {"a": took(*[0.1] * 10), "b": took(*[0.1] * 10)}
    seldom, often = compare(mine, others, {"a": 99, "b": 1}), compare(mine, others, {"a": 1, "b": 99})
    assert seldom is not None
    assert often is not None
    assert (seldom.ratio, often.ratio) == pytest.approx((1.02, 2.98))


SHARES = st.dictionaries(st.sampled_from("abcd"), st.floats(0.001, 1000), min_size=1)


@given(SHARES, st.lists(st.floats(0.001, 3.0), min_size=4, max_size=4))
def test_no_node_gets_more_than_it_can_take_while_others_have_room(shares: dict[str, float], room: list[float]) -> None:
    capacity = dict(zip("abcd", room, strict=True))
    found = limited(shares, capacity)
    assert sum(found.values()) == pytest.approx(1.0)
    if sum(capacity[id] for id in shares) >= 1.0:
        assert all(share <= capacity[id] * 1.001 for id, share in found.items())


def test_what_a_node_cannot_take_goes_to_the_others_by_their_weights() -> None:
    capacity = {"a": 0.2, "b": 9.0, "c": 9.0}
    assert limited({"a": 5, "b": 3, "c": 1}, capacity) == pytest.approx({"a": 0.2, "b": 0.6, "c": 0.2})


def test_paces_are_found_whatever_methods_each_node_is_asked() -> None:
    """Node b is asked the slow method mostly, and it alone has methods in common with both others."""
    base, pace = {"quick": 0.01, "slow": 0.5, "third": 0.05}, {"a": 1.0, "b": 2.0, "c": 4.0}
    asked = {"a": {"quick": 90, "slow": 10}, "b": {"quick": 10, "slow": 50, "third": 40}, "c": {"third": 70}}
    latencies = {
        id: {method: took(*[base[method] * pace[id]] * count) for method, count in methods.items()}
        for id, methods in asked.items()
    }
    found = paces_of(latencies)
    assert [found.nodes[id] / found.nodes["a"] for id in "abc"] == pytest.approx([1.0, 2.0, 4.0], rel=1e-3)
    assert found.nodes["b"] * found.methods["slow"] == pytest.approx(1.0, rel=1e-3)
    assert found.compared == {"a": 100, "b": 100, "c": 70}


def test_nodes_without_a_method_in_common_are_not_compared() -> None:
    latencies = {"a": {"m": took(*[0.1] * 90)}, "b": {"m": took(*[0.2] * 90)}, "c": {"n": took(*[0.3] * 900)}}
    assert paces_of(latencies).nodes.keys() == {"a", "b"}
    assert paces_of({"a": latencies["a"], "c": latencies["c"]}).nodes == {}
    assert paces_of({}).nodes == {}
