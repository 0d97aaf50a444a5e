"""The suggested weights: against the best fixed weights that a search finds, and when nothing is suggested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rpcaccel import balancers
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.stats.histogram import Histogram
from rpcaccel.core.weights.weighing import NodeFacts, RateLimit, suggest
from rpcaccel.core.weights.whole_weights import LARGEST

METHODS = ("eth_call", "eth_getBalance", "eth_getBlockByNumber")


class Machine:
    """A simulated node: calls take around `seconds`, and no more than `limit` a second are taken."""

    def __init__(self, id: str, seconds: float, limit: float | None = None, *, fails: float = 0.0) -> None:
        self.id = id
        self.seconds = seconds
        self.limit = limit
        self.fails = fails
        self.tokens = limit or 0.0
        self.at = 0.0

    def takes(self, now: float) -> bool:
        if self.limit is None:
            return True
        self.tokens = min(self.limit, self.tokens + (now - self.at) * self.limit)
        self.at = now
        if self.tokens < 1.0:
            return False
        self.tokens -= 1.0
        return True


REFUSAL = 0.01
"""Seconds that a node's refusal (429) takes; the call then goes to another node. A limit that the proxy itself keeps to
takes no time."""


class Simulation:
    """Calls that come at random and are given to machines by the real balancer."""

    def __init__(
        self, machines: Sequence[Machine], weights: Mapping[str, int], rate: float, calls: int, refusal: float = REFUSAL
    ) -> None:
        self.latency = {machine.id: {method: Histogram() for method in METHODS} for machine in machines}
        self.calls = dict.fromkeys(weights, 0)
        self.refused = dict.fromkeys(weights, 0)
        self.faults = dict.fromkeys(weights, 0)
        self.seconds = 0.0
        self.span = calls / rate
        for machine in machines:
            machine.tokens, machine.at = 0.0, 0.0
        rng, choice, now = Random(5), balancers.load("smooth_weighted"), 0.0
        nodes = {machine.id: Node(machine.id, weight=weights[machine.id]) for machine in machines}
        choice.adopt(list(nodes.values()))
        known = {machine.id: machine for machine in machines}
        for _ in range(calls):
            now += rng.expovariate(rate)
            taken, eligible = 0.0, list(nodes.values())
            while eligible:
                picked = choice.pick(eligible, route_key=b"", now=now, rng=rng)
                machine = known[picked.id]
                self.calls[picked.id] += 1
                eligible.remove(picked)
                if not machine.takes(now):
                    self.refused[picked.id] += 1
                    taken += refusal
                    continue
                one = machine.seconds * rng.lognormvariate(-0.08, 0.4)
                taken += one
                if rng.random() < machine.fails:
                    self.faults[picked.id] += 1
                    continue
                self.latency[picked.id][rng.choice(METHODS)].observe(one)
                break
            self.seconds += taken
        self.mean = self.seconds / calls

    def facts(self, machines: Sequence[Machine], weights: Mapping[str, int], *, kept: bool = False) -> list[NodeFacts]:
        return [
            NodeFacts(
                id=machine.id,
                weight=weights[machine.id],
                methods={name: one for name, one in self.latency[machine.id].items() if one.count},
                calls=self.calls[machine.id],
                faults=self.faults[machine.id],
                busiest=(self.calls[machine.id] - self.refused[machine.id]) / self.span,
                limits=() if machine.limit is None else (RateLimit(machine.limit, "its quota a second", kept),),
                at_once=512,
            )
            for machine in machines
        ]


CALLS, RATE = 3000, 100.0


def best_by_search(machines: Sequence[Machine], refusal: float) -> float:
    """The mean of the best fixed weights: of a grid, then of ever finer steps around the best point."""

    def mean_with(machines: Sequence[Machine], weights: Mapping[str, int]) -> float:
        return Simulation(machines, weights, RATE, CALLS, refusal).mean

    ids = [machine.id for machine in machines]
    points = [(a, b, 1000 - a - b) for a in range(0, 1001, 200) for b in range(0, 1001 - a, 200)]
    means = {point: mean_with(machines, {id: max(1, w) for id, w in zip(ids, point, strict=True)}) for point in points}
    best = min(means, key=means.__getitem__)
    for step in (100, 50, 25, 12):
        a, b, c = best
        for point in [(a + i, b + j, c - i - j) for i in (-step, 0, step) for j in (-step, 0, step)]:
            if min(point) >= 0 and point not in means:
                means[point] = mean_with(machines, {id: max(1, w) for id, w in zip(ids, point, strict=True)})
        best = min(means, key=means.__getitem__)
    return means[best]


@pytest.mark.deep
@pytest.mark.parametrize(
    "limits",
    [(None, None, None), (50.0, None, None), (50.0, 40.0, None), (80.0, 40.0, 100.0), (20.0, 60.0, None),
     (30.0, None, 20.0)],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("refusal", [REFUSAL, 0.0], ids=["refused by the node", "kept by the proxy"])
def test_suggested_weights_are_within_5_percent_of_the_best_that_a_search_finds(
    limits: tuple[float | None, ...], refusal: float
) -> None:
    machines = [Machine(id, s, limit) for id, s, limit in zip("abc", (0.02, 0.06, 0.2), limits, strict=True)]
    weights = dict.fromkeys("abc", 1)
    for _ in range(2):  # a node is given three times at the most of what it was seen to take
        seen = Simulation(machines, weights, RATE, CALLS, refusal)
        found = suggest(seen.facts(machines, weights, kept=not refusal), RATE)
        weights = {id: one.value for id, one in found.weights.items()} or weights
    made = Simulation(machines, weights, RATE, CALLS, refusal).mean
    best = best_by_search(machines, refusal)
    assert made <= best * 1.05
    assert min(weights.values()) >= 1
    assert max(weights.values()) <= LARGEST


def quick_and_slow(**changes: NodeFacts) -> list[NodeFacts]:
    machines = [Machine("a", 0.02), Machine("b", 0.06)]
    weights = {"a": 1, "b": 1}
    facts = Simulation(machines, weights, RATE, CALLS).facts(machines, weights)
    return [changes.get(one.id, one) for one in facts]


def test_the_forecast_is_what_comes_of_the_weights() -> None:
    machines = [Machine("a", 0.02), Machine("b", 0.06), Machine("c", 0.2)]
    weights = dict.fromkeys("abc", 1)
    seen = Simulation(machines, weights, RATE, CALLS)
    found = suggest(seen.facts(machines, weights), RATE)
    after = Simulation(machines, {id: one.value for id, one in found.weights.items()}, RATE, CALLS)
    assert found.now.mean == pytest.approx(seen.mean, rel=0.01)
    assert found.then.mean == pytest.approx(after.mean, rel=0.05)
    together = Histogram()
    for one in after.latency.values():
        for histogram in one.values():
            together.add(histogram)
    assert found.then.p50 == pytest.approx(together.quantile(0.5), rel=0.1)
    assert found.then.p99 == pytest.approx(together.quantile(0.99), rel=0.35)


def test_each_weight_has_its_reason_in_a_sentence() -> None:
    machines = [Machine("a", 0.02, 50.0), Machine("b", 0.06), Machine("c", 0.2)]
    weights = dict.fromkeys("abc", 1)
    found = suggest(Simulation(machines, weights, RATE, CALLS).facts(machines, weights), RATE)
    whys = {id: one.why for id, one in found.weights.items()}
    assert whys["a"].endswith("for the same 3 methods; takes at most 50 calls a second (its quota a second)")
    assert " of a for the same 3 methods" in whys["b"]
    assert whys["c"].endswith("keeps a small share so that its latency stays known")
    assert found.why.startswith("the mean would have been ")


def test_weights_by_which_one_node_decides_the_served_head_say_so() -> None:
    machines = [Machine("a", 0.02), Machine("b", 0.06), Machine("c", 0.2)]
    warning = "; a alone would have most of the weight, so the served head would wait for its blocks"
    for weights, warned in (({"a": 1, "b": 1, "c": 1}, True), ({"a": 3, "b": 1, "c": 1}, False)):
        found = suggest(Simulation(machines, weights, RATE, CALLS).facts(machines, weights), RATE)
        assert found.weights["a"].value > sum(found.weights[id].value for id in "bc")
        assert found.why.endswith(warning) is warned


def test_equal_nodes_keep_their_weights_whatever_chance_makes_of_their_averages() -> None:
    for seconds in (0.001, 0.02, 0.3):
        machines = [Machine(id, seconds) for id in "abc"]
        weights = {"a": 3, "b": 1, "c": 1}
        found = suggest(Simulation(machines, weights, RATE, 400).facts(machines, weights), RATE)
        assert found.weights == {}
        assert found.why in {"the weights are those that would be suggested",
                             "other weights would save less than 3 % of the mean latency"}  # fmt: skip


def test_few_calls_suggest_nothing() -> None:
    machines = [Machine("a", 0.02), Machine("b", 0.2)]
    weights = {"a": 1, "b": 1}
    found = suggest(Simulation(machines, weights, RATE, 60).facts(machines, weights), RATE)
    assert (found.weights, found.why) == ({}, "too few calls that can be compared: a, b")
    assert suggest([], RATE).weights == {}
    assert suggest([NodeFacts(id="a", weight=1)], 0.0).why == "there are no two nodes to divide calls between"


def test_a_node_that_little_is_known_of_keeps_its_share() -> None:
    facts = [*quick_and_slow(), NodeFacts(id="new", weight=1, calls=12)]
    found = suggest(facts, RATE)
    whole = sum(one.value for one in found.weights.values())
    assert found.weights["new"].value / whole == pytest.approx(1 / 3, rel=0.02)
    assert found.weights["new"].why == "too few calls to say how quick it is (0): it keeps its share"


def test_a_node_that_answers_other_methods_than_all_others_is_not_judged() -> None:
    slow = Histogram()
    for _ in range(900):
        slow.observe(3.0)
    other = NodeFacts(id="c", weight=1, methods={"trace_block": slow}, calls=900, busiest=30.0)
    found = suggest([*quick_and_slow(), other], RATE)
    assert found.weights["c"].why.startswith("its 900 calls tell too little: ")
    assert found.weights["a"].value > 10 * found.weights["b"].value
    assert suggest([quick_and_slow()[0], other], RATE).weights == {}


def test_what_the_operator_took_out_is_left_alone_and_tiers_are_weighed_apart() -> None:
    facts = quick_and_slow()
    out = replace(facts[0], id="out", held=True)
    paid = [replace(one, id=f"paid {one.id}", tier=1) for one in facts]
    found = suggest([*facts, out, *paid], RATE)
    assert found.weights["a"].value > 10 * found.weights["b"].value
    # The weights grow, so that they can stand in the right ratios, and the node that was taken out keeps its own.
    assert found.weights.keys() == {"a", "b", "out", "paid a", "paid b"}
    assert found.weights["out"].why == "left alone: it keeps its weight beside the others"
    scale = (found.weights["a"].value + found.weights["b"].value) / sum(one.weight for one in facts)
    assert found.weights["out"].value / out.weight == pytest.approx(scale, rel=0.02)
    assert found.weights["paid a"].value > 10 * found.weights["paid b"].value


def test_latency_is_compared_within_each_method_only() -> None:
    """Node b answers the slow method far more often, and is no slower at either."""
    rng = Random(3)

    def took(seconds: float, count: int) -> Histogram:
        histogram = Histogram()
        for _ in range(count):
            histogram.observe(seconds * rng.lognormvariate(-0.08, 0.4))
        return histogram

    a = {"eth_call": took(0.02, 900), "eth_getLogs": took(0.4, 100)}
    b = {"eth_call": took(0.02, 200), "eth_getLogs": took(0.4, 800)}
    facts = [NodeFacts(id=id, weight=1, methods=it, calls=1000, busiest=50) for id, it in (("a", a), ("b", b))]
    assert suggest(facts, RATE).weights == {}


def test_a_method_that_one_node_alone_serves_stays_with_that_node() -> None:
    facts = quick_and_slow()
    history = Histogram()
    for _ in range(500):
        history.observe(1.5)
    facts[1] = replace(facts[1], methods={**facts[1].methods, "hmyv2_getTransactionsHistory": history})
    found = suggest(facts, RATE)
    assert found.then.mean is not None
    assert found.then.mean == pytest.approx((3000 * 0.0205 + 500 * 1.5) / 3500, rel=0.05)


def test_a_node_that_fails_often_gets_less_and_the_reason_says_so() -> None:
    machines = [Machine("a", 0.05, fails=0.4), Machine("b", 0.055)]
    weights = {"a": 1, "b": 1}
    found = suggest(Simulation(machines, weights, RATE, CALLS).facts(machines, weights), RATE)
    assert found.weights["a"].value * 10 < found.weights["b"].value
    assert "of its calls fail" in found.weights["a"].why


def test_a_node_that_gets_more_than_it_can_take_is_given_less_though_it_is_the_quickest() -> None:
    facts = quick_and_slow()
    facts[0] = replace(facts[0], limits=(RateLimit(20.0, "what is left of its quota of the month"),))
    found = suggest(facts, RATE)
    whole = sum(one.value for one in found.weights.values())
    assert found.weights["a"].value / whole == pytest.approx(0.2, abs=0.01)
    assert found.why.startswith("a gets more calls than it can take; ")


def test_where_the_balancer_looks_at_latency_itself_its_shares_are_the_measure() -> None:
    facts = quick_and_slow()
    facts = [replace(facts[0], calls=2900), replace(facts[1], calls=100)]
    assert suggest(facts, RATE, by_weight=True).weights
    assert suggest(facts, RATE, by_weight=False).gain < suggest(facts, RATE, by_weight=True).gain / 4


LATENCIES = st.lists(st.floats(1e-4, 5.0), min_size=0, max_size=5)


@given(st.lists(st.tuples(LATENCIES, st.integers(0, 1000), st.integers(0, 1), st.floats(0, 200)), max_size=5),
       st.floats(0, 1e4))  # fmt: skip
def test_whatever_was_seen_the_weights_are_sound(seen: list[tuple[list[float], int, int, float]], rate: float) -> None:
    facts = []
    for number, (latencies, weight, tier, limit) in enumerate(seen):
        histogram = Histogram()
        for seconds in latencies:
            for _ in range(40):
                histogram.observe(seconds)
        limits = (RateLimit(limit, "a limit"),) if limit else ()
        one = NodeFacts(id=str(number), weight=weight, tier=tier, held=not weight, limits=limits)
        count = len(latencies)
        facts.append(replace(one, methods={"eth_call": histogram}, calls=40 * count, faults=count))
    found = suggest(facts, rate)
    assert all(1 <= one.value <= LARGEST and one.why for one in found.weights.values())
    assert not found.weights.keys() & {one.id for one in facts if one.held}
    assert found.why


def answered(id: str, seconds: float = 0.02, count: int = 1000, **more: Any) -> NodeFacts:
    """A node with so many answers, which took about `seconds`."""
    rng, histogram = Random(7), Histogram()
    for _ in range(count):
        histogram.observe(seconds * rng.lognormvariate(-0.02, 0.2))
    facts: dict[str, Any] = {"weight": 1, "calls": count, "busiest": 5.0, **more}
    return NodeFacts(id=id, methods={"eth_call": histogram} if count else {}, **facts)


def test_where_all_quotas_are_used_up_the_sentence_says_so() -> None:
    spent = (RateLimit(0.0, "what is left of its quota of this day"),)
    found = suggest([answered("a", limits=spent), answered("b", 0.06, limits=spent)], 10.0)
    assert (found.weights, found.why) == ({}, "all quotas are used up")
    one = suggest([answered("a", limits=spent), answered("b", 0.06)], 10.0)
    assert one.weights["b"].value >= 50 * one.weights["a"].value


@pytest.mark.parametrize(("answers", "calls", "faults"), [(0, 5000, 5000), (60, 5000, 4940), (20, 60, 40)])
def test_a_node_that_fails_nearly_every_call_gets_the_least_and_the_reason_says_why(
    answers: int, calls: int, faults: int
) -> None:
    failing = answered("c", 0.001, answers, calls=calls, faults=faults)
    found = suggest([answered("a", 0.03), answered("b", 0.03), failing], 10.0)
    assert found.weights["c"].value * 20 < found.weights["a"].value
    assert f"{faults / calls:.0%} of its calls fail" in found.weights["c"].why
    assert "keeps its share" not in found.weights["c"].why


def test_a_node_alone_beside_one_that_fails_every_call_needs_no_comparison() -> None:
    found = suggest([answered("a"), answered("b", count=0, calls=500, faults=500)], 10.0)
    assert found.weights["a"].value > 50 * found.weights["b"].value
    assert found.weights["b"].why.startswith("100% of its calls fail")


def test_weights_keep_their_sum_and_so_do_those_that_are_left_alone() -> None:
    tiers = [answered("a", weight=300), answered("b", 0.06, weight=300),
             answered("c", weight=3, tier=1), answered("d", weight=1, tier=1)]  # fmt: skip
    found = suggest([*tiers, answered("out", weight=300, held=True)], 10.0)
    assert found.weights["a"].value + found.weights["b"].value == pytest.approx(600, abs=1)
    assert [found.weights[id].value for id in "cd"] == [3, 1]
    assert "out" not in found.weights


def test_a_sum_too_large_for_one_node_shrinks_and_a_drained_node_with_it() -> None:
    facts = [answered("a", weight=1000), answered("b", 0.1, weight=1000), answered("out", weight=1000, held=True)]
    found = suggest(facts, 10.0)
    assert found.weights["a"].value == LARGEST
    returns = found.weights["out"].value / sum(one.value for one in found.weights.values())
    assert returns == pytest.approx(1 / 3, abs=0.01), "the share that it had"
