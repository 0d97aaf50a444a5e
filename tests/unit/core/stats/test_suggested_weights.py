"""The suggested weights: against the best fixed weights that a search finds, and when nothing is suggested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rpcaccel import balancers
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.stats.histogram import Histogram
from rpcaccel.core.stats.suggested_weights import (
    ENOUGH_CALLS,
    ENOUGH_SECONDS,
    MAX_STEP,
    MAX_WEIGHT,
    NodeFacts,
    RateLimit,
    Suggestion,
    suggest,
)

METHODS = ("eth_call", "eth_getBalance", "eth_getBlockByNumber")
CALLS, RATE = 3000, 100.0


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


class Simulation:
    """Calls that come at random and are given to machines by the real balancer; a refusal takes no time."""

    def __init__(self, machines: Sequence[Machine], weights: Mapping[str, int]) -> None:
        self.latency = {machine.id: {method: Histogram() for method in METHODS} for machine in machines}
        self.calls = dict.fromkeys(weights, 0)
        self.faults = dict.fromkeys(weights, 0)
        seconds = 0.0
        for machine in machines:
            machine.tokens, machine.at = 0.0, 0.0
        rng, choice, now = Random(5), balancers.load("smooth_weighted"), 0.0
        nodes = {machine.id: Node(machine.id, weight=weights[machine.id]) for machine in machines}
        choice.adopt(list(nodes.values()))
        known = {machine.id: machine for machine in machines}
        for _ in range(CALLS):
            now += rng.expovariate(RATE)
            eligible = list(nodes.values())
            while eligible:
                picked = choice.pick(eligible, route_key=b"", now=now, rng=rng)
                machine = known[picked.id]
                self.calls[picked.id] += 1
                eligible.remove(picked)
                if not machine.takes(now):
                    continue
                one = machine.seconds * rng.lognormvariate(-0.08, 0.4)
                seconds += one
                if rng.random() < machine.fails:
                    self.faults[picked.id] += 1
                    continue
                self.latency[picked.id][rng.choice(METHODS)].observe(one)
                break
        self.mean = seconds / CALLS

    def facts(self, machines: Sequence[Machine], weights: Mapping[str, int]) -> list[NodeFacts]:
        return [
            NodeFacts(
                id=machine.id,
                weight=weights[machine.id],
                methods={name: one for name, one in self.latency[machine.id].items() if one.count},
                calls=self.calls[machine.id],
                faults=self.faults[machine.id],
                seconds=ENOUGH_SECONDS,
                limits=() if machine.limit is None else (RateLimit(machine.limit, "its quota a second"),),
            )
            for machine in machines
        ]


def suggested(machines: Sequence[Machine], weights: Mapping[str, int]) -> Suggestion:
    return suggest(Simulation(machines, weights).facts(machines, weights), RATE)


def values(found: Suggestion) -> dict[str, int]:
    return {id: one.value for id, one in found.weights.items()}


def best_by_search(machines: Sequence[Machine]) -> float:
    """The least mean that weights of 1 to MAX_WEIGHT give, on a grid. Larger weights could give quick nodes more."""
    points = product((1, 8, MAX_WEIGHT), repeat=3)
    return min(Simulation(machines, dict(zip("abc", point, strict=True))).mean for point in points)


@pytest.mark.parametrize(
    "limits",
    [(None, None, None), (50.0, 40.0, None), (80.0, 40.0, 100.0), (30.0, None, 20.0)],
    ids=str,
)
def test_weights_that_are_applied_until_none_are_suggested_are_nearly_the_best_of_small_ones(
    limits: tuple[float | None, ...],
) -> None:
    machines = [Machine(id, s, limit) for id, s, limit in zip("abc", (0.02, 0.06, 0.2), limits, strict=True)]
    weights = dict.fromkeys("abc", 1)
    for _ in range(10):
        if not (found := values(suggested(machines, weights))):
            break
        assert 1 <= min(found.values()) <= max(found.values()) <= MAX_WEIGHT
        assert_one_step(weights, found)
        weights = found
    assert not values(suggested(machines, weights))
    assert Simulation(machines, weights).mean <= 1.05 * best_by_search(machines)


def shares(weights: Mapping[str, int]) -> dict[str, float]:
    return {id: weight / sum(weights.values()) for id, weight in weights.items()}


def assert_one_step(before: Mapping[str, int], after: Mapping[str, int]) -> None:
    had, made = shares(before), shares(after)
    assert all(1 / MAX_STEP - 1e-9 <= made[id] / had[id] <= MAX_STEP + 1e-9 for id in had), (before, after)


def answered(id: str, seconds: float = 0.02, count: int = ENOUGH_CALLS, **more: Any) -> NodeFacts:
    """A node with so many answers, which took about `seconds`."""
    rng, histogram = Random(7), Histogram()
    for _ in range(count):
        histogram.observe(seconds * rng.lognormvariate(-0.02, 0.2))
    facts: dict[str, Any] = {"weight": 1, "calls": count, **more}
    return NodeFacts(id=id, methods={"eth_call": histogram} if count else {}, **facts)


QUICK_AND_SLOW = (answered("a"), answered("b", 0.06))


def test_each_weight_has_its_reason_in_a_sentence() -> None:
    limit = (RateLimit(3.0, "its quota a second"),)
    found = suggest([answered("a", limits=limit), answered("b", 0.06), answered("c", 0.2)], 10.0)
    whys = {id: one.why for id, one in found.weights.items()}
    assert whys == {
        "a": "19.8 ms against 59.5 ms of b for the same method; takes at most 3 calls a second (its quota a second)",
        "b": "59.5 ms against 19.8 ms of a for the same method",
        "c": "198 ms against 19.8 ms of a for the same method; its share is at most halved at once",
    }
    assert found.why.startswith("the mean would have been 72.3 ms in place of 92.6 ms")
    assert found.gain == pytest.approx(1 - 72.3 / 92.6, abs=0.01)


def test_weights_by_which_one_node_decides_the_served_head_say_so() -> None:
    warning = "; a alone would have most of the weight, so the served head would wait for its blocks"
    for weight, warned in ((1, True), (3, False)):
        found = suggest([answered("a", weight=weight), answered("b", 0.06), answered("c", 0.2)], 10.0)
        assert found.weights["a"].value > sum(found.weights[id].value for id in "bc")
        assert found.why.endswith(warning) is warned


def test_equal_nodes_keep_their_weights_whatever_chance_makes_of_their_averages() -> None:
    for seconds in (0.001, 0.02, 0.3):
        found = suggested([Machine(id, seconds) for id in "abc"], {"a": 3, "b": 1, "c": 1})
        assert (found.weights, found.why) == ({}, "other weights would save less than 3% of the mean latency")


@pytest.mark.parametrize(
    ("more", "judged"),
    [
        ({"count": 1999}, False),
        ({"count": 1999, "seconds": 1199.0}, False),
        ({"count": 100, "seconds": 1200.0}, True),
        ({"count": 2000}, True),
    ],
)
def test_a_node_is_judged_after_20_minutes_with_calls_or_2000_calls(more: dict[str, Any], judged: bool) -> None:
    count, seconds = more["count"], more.get("seconds", 0.0)
    found = suggest([answered("a"), replace(answered("b", 0.06, count), seconds=seconds)], 10.0)
    assert bool(found.weights) is judged
    early = "too early to compare: 2,000 calls or 20 min are needed of each node, and are not there of b"
    assert judged or found.why == early


def test_where_there_is_nothing_to_compare_the_sentence_says_so() -> None:
    few = [replace(answered(id, count=40), seconds=ENOUGH_SECONDS) for id in "ab"]
    assert suggest(few, 10.0).why == "too few calls that can be compared: a, b"
    assert suggest([], 10.0).weights == {}
    assert suggest([NodeFacts(id="a", weight=1)], 0.0).why == "there are no two nodes to divide calls between"


def test_a_node_that_little_is_known_of_keeps_its_share() -> None:
    found = suggest([*QUICK_AND_SLOW, NodeFacts(id="new", weight=1, calls=12, seconds=180.0)], 10.0)
    assert shares(values(found))["new"] == pytest.approx(1 / 3, rel=0.1)
    needed = "2,000 calls or 20 min are needed to judge it"
    assert found.weights["new"].why == f"keeps its share: 12 calls in 3 min, and {needed}"


def test_a_node_that_answers_other_methods_than_all_others_is_not_judged() -> None:
    slow = Histogram()
    for _ in range(2000):
        slow.observe(3.0)
    other = NodeFacts(id="c", weight=1, methods={"trace_block": slow}, calls=2000)
    found = suggest([*QUICK_AND_SLOW, other], 10.0)
    assert found.weights["c"].why.startswith("keeps its share: its calls tell too little")
    assert found.weights["a"].value == 3 * found.weights["b"].value
    assert suggest([QUICK_AND_SLOW[0], other], 10.0).weights == {}


def test_what_the_operator_took_out_is_left_alone_and_tiers_are_weighed_apart() -> None:
    out = replace(QUICK_AND_SLOW[0], id="out", weight=1, held="drained")
    paid = [replace(one, id=f"paid {one.id}", tier=1) for one in QUICK_AND_SLOW]
    alone = replace(QUICK_AND_SLOW[0], id="alone", tier=2)
    found = suggest([*QUICK_AND_SLOW, out, *paid, alone], 10.0)
    assert values(found) == {"a": 3, "b": 1, "out": 2, "paid a": 3, "paid b": 1}
    assert (
        found.weights["out"].why == "not judged, because it is drained: 2 is beside the new weights what 1 was before"
    )


def test_latency_is_compared_within_each_method_only() -> None:
    """Node b answers the slow method far more often, and is no slower at either."""
    rng = Random(3)

    def took(seconds: float, count: int) -> Histogram:
        histogram = Histogram()
        for _ in range(count):
            histogram.observe(seconds * rng.lognormvariate(-0.08, 0.4))
        return histogram

    a = {"eth_call": took(0.02, 1800), "eth_getLogs": took(0.4, 200)}
    b = {"eth_call": took(0.02, 400), "eth_getLogs": took(0.4, 1600)}
    facts = [NodeFacts(id=id, weight=1, methods=it, calls=2000) for id, it in (("a", a), ("b", b))]
    assert suggest(facts, RATE).weights == {}


def test_a_method_that_one_node_alone_serves_stays_with_that_node() -> None:
    history = Histogram()
    for _ in range(500):
        history.observe(1.5)
    slow = replace(QUICK_AND_SLOW[1], methods={**QUICK_AND_SLOW[1].methods, "hmyv2_getTransactionsHistory": history})
    assert suggest([QUICK_AND_SLOW[0], slow], 10.0) == suggest(QUICK_AND_SLOW, 10.0)


def test_a_method_that_a_node_is_not_asked_is_taken_to_go_at_its_pace() -> None:
    facts = [
        replace(
            answered(id, seconds), methods={name: answered("", it).methods["eth_call"] for name, it in more.items()}
        )
        for id, seconds, more in (
            ("a", 0.02, {"call": 0.02}),
            ("b", 0.06, {"call": 0.06, "logs": 0.6}),
            ("c", 0.06, {"call": 0.06, "logs": 0.6}),
        )
    ]
    found = suggest(facts, 10.0)
    assert values(found) == {"a": 4, "b": 1, "c": 1}
    assert found.gain == pytest.approx(0.286, abs=0.01)


def test_a_node_that_fails_often_gets_less_and_the_reason_says_so() -> None:
    found = suggested([Machine("a", 0.05, fails=0.4), Machine("b", 0.055)], {"a": 1, "b": 1})
    assert values(found) == {"a": 1, "b": 3}
    assert "of its calls fail" in found.weights["a"].why


def test_a_node_that_gets_more_than_it_can_take_is_given_less_though_it_is_the_quickest() -> None:
    limited = answered("a", limits=(RateLimit(3.0, "what is left of its quota of the month"),))
    found = suggest([limited, QUICK_AND_SLOW[1]], 10.0)
    assert shares(values(found))["a"] == pytest.approx(0.3, abs=0.03)
    assert found.why.startswith("a gets more calls than it can take")


def test_where_the_balancer_looks_at_latency_itself_its_shares_are_the_measure() -> None:
    facts = [replace(QUICK_AND_SLOW[0], calls=2900), replace(QUICK_AND_SLOW[1], calls=2000)]
    assert suggest(facts, RATE, by_weight=False).gain < suggest(facts, RATE).gain


def test_where_all_quotas_are_used_up_the_sentence_says_so() -> None:
    spent = (RateLimit(0.0, "what is left of its quota of this day"),)
    found = suggest([replace(one, limits=spent) for one in QUICK_AND_SLOW], 10.0)
    assert (found.weights, found.why) == ({}, "all quotas are used up")
    assert values(suggest([replace(QUICK_AND_SLOW[0], limits=spent), QUICK_AND_SLOW[1]], 10.0)) == {"a": 1, "b": 3}


@pytest.mark.parametrize(("answers", "calls", "faults"), [(0, 5000, 5000), (60, 5000, 4940), (20, 2000, 1400)])
def test_a_node_that_fails_nearly_every_call_gets_less_and_the_reason_says_why(
    answers: int, calls: int, faults: int
) -> None:
    failing = answered("c", 0.001, answers, calls=calls, faults=faults)
    found = suggest([answered("a", 0.03), answered("b", 0.03), failing], 10.0)
    assert values(found) == {"a": 5, "b": 5, "c": 2}
    assert f"{faults / calls:.0%} of its calls fail" in found.weights["c"].why
    assert "keeps its share" not in found.weights["c"].why


def test_a_node_alone_beside_one_that_fails_every_call_needs_no_comparison() -> None:
    found = suggest([answered("a"), answered("b", count=0, calls=2000, faults=2000)], 10.0)
    assert values(found) == {"a": 3, "b": 1}
    assert found.weights["b"].why.startswith("100% of its calls fail")


def test_large_weights_become_small_ones_and_those_that_are_left_alone_with_them() -> None:
    facts = [replace(one, weight=300) for one in QUICK_AND_SLOW]
    assert values(suggest([*facts, answered("out", weight=300, held="drained")], 10.0)) == {"a": 3, "b": 1, "out": 2}


@pytest.mark.parametrize("weights", [(20, 1), (1000, 1)])
def test_where_small_weights_cannot_tell_more_nothing_is_suggested(weights: tuple[int, int]) -> None:
    found = suggest([replace(one, weight=weight) for one, weight in zip(QUICK_AND_SLOW, weights, strict=True)], 10.0)
    assert found.weights == {}


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
        one = NodeFacts(
            id=str(number),
            weight=weight,
            tier=tier,
            held="" if weight else "cordoned",
            limits=limits,
            seconds=ENOUGH_SECONDS,
        )
        count = len(latencies)
        facts.append(replace(one, methods={"eth_call": histogram}, calls=40 * count, faults=count))
    found = suggest(facts, rate)
    assert all(1 <= one.value <= MAX_WEIGHT and one.why for one in found.weights.values())
    assert not found.weights.keys() & {one.id for one in facts if one.held}
    for tier in {one.tier for one in facts}:
        before = {one.id: one.weight for one in facts if one.tier == tier and one.weight}
        if before.keys() <= found.weights.keys() and any(len(latencies) for latencies, *_ in seen):
            judged = {id: found.weights[id].value for id in before}
            assert_one_step(before, judged)
    assert found.why
