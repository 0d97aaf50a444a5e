"""Weights that change by themselves where latency depends on load: they settle, near the best, and never run away."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from statistics import NormalDist, fmean

import pytest

from rpcaccel.core.stats.histogram import Histogram, together
from rpcaccel.core.weights.weighing import Advice, NodeFacts, Suggestion, suggest
from rpcaccel.core.weights.weight_walk import EARLY, LATEST, SHORTEST, STEP_EVERY, Measured, Move, Walk
from rpcaccel.core.weights.whole_weights import shares_of

SPREAD = [exp(NormalDist(-0.045, 0.3).inv_cdf((number + 0.5) / 20)) for number in range(20)]
"""Evenly likely latencies, as multiples of their mean."""
CAPACITY = 50.0
"""Calls a second at which a node's queue grows without end."""


class Busy:
    """Nodes whose latency rises with their load: to `seconds` / (1 - load ** `power`), where 1 is all they can take."""

    def __init__(self, seconds: Mapping[str, float], rate: float, power: int, at_once: int = 0) -> None:
        self.seconds = dict(seconds)
        self.rate = rate
        self.power = power
        self.at_once = at_once
        self.walk = Walk(dict.fromkeys(seconds, 100))
        self.busiest = dict.fromkeys(seconds, 0.0)
        self.since = 0
        """Minutes since the last move."""
        self.took = {id: Histogram() for id in seconds}
        """Latencies since the last move, or in the last hour."""
        self.means: list[float] = []
        self.moves: list[tuple[int, Move]] = []

    def latency(self, id: str, share: float) -> float:
        load = min(0.97, self.rate * share / CAPACITY)
        return self.seconds[id] / (1.0 - load**self.power)

    def mean(self, shares: Mapping[str, float]) -> float:
        return sum(share * self.latency(id, share) for id, share in shares.items())

    def best(self) -> float:
        """The mean of the best fixed weights of two nodes."""
        a, b = self.seconds
        return min(self.mean({a: part / 200, b: 1 - part / 200}) for part in range(1, 200))

    def live(self, minutes: int) -> None:
        for _ in range(minutes):
            if self.since % 60 == 0:
                self.took = {id: Histogram() for id in self.seconds}
            shares = shares_of(self.walk.weights)
            for id, share in shares.items():
                took, part = Histogram(), self.rate * share * 60 / len(SPREAD)
                for one in SPREAD:
                    took.observe(self.latency(id, share) * one)
                self.took[id].add(Histogram([round(count * part) for count in took.counts], took.seconds * part))
                self.busiest[id] = max(self.busiest[id], self.rate * share)
            self.means.append(self.mean(shares))
            self.since += 1
            if self.since * 60 >= EARLY and (self.since <= 10 or self.since % 10 == 0):
                self._look()

    def _look(self) -> None:
        facts = [
            NodeFacts(id=id, weight=self.walk.weights[id], methods={"m": took}, calls=took.count,
                      busiest=self.busiest[id], at_once=self.at_once)
            for id, took in self.took.items()
        ]  # fmt: skip
        measured = Measured(60.0 * min(60, self.since), {"m": together(self.took.values())})
        move = self.walk.next(dict.fromkeys(self.seconds, 0), measured, suggest(facts, self.rate), 60.0 * self.since)
        if move is not None:
            self.walk.made(move, measured)
            self.moves.append((len(self.means), move))
            self.since = 0


@pytest.mark.parametrize("seconds", [(0.02, 0.02), (0.02, 0.023), (0.02, 0.05), (0.02, 0.2)], ids=str)
@pytest.mark.parametrize(
    ("rate", "power", "at_once"), [(10, 1, 0), (60, 1, 0), (60, 4, 0), (80, 4, 16), (90, 4, 512), (40, 8, 0)]
)
def test_weights_settle_near_the_best_whatever_load_makes_of_latency(
    seconds: tuple[float, float], rate: float, power: int, at_once: int
) -> None:
    busy = Busy(dict(zip("ab", seconds, strict=True)), rate, power, at_once)
    busy.live(12 * 60)
    best, late = busy.best(), busy.means[4 * 60 :]
    assert fmean(late) <= 1.15 * best
    assert len([mean for mean in late if mean > 1.5 * best]) <= 2 * EARLY / 60, "and never runs away"
    assert len([at for at, _ in busy.moves if at >= 4 * 60]) <= 6, "less than a move an hour"


TIERS = {"a": 0, "b": 0}


def measured(seconds: float, failing: float = 0.0, calls: int = 500) -> Measured:
    histogram = Histogram()
    for number in range(calls):
        histogram.observe(seconds * SPREAD[number % len(SPREAD)])
    return Measured(STEP_EVERY, {"m": histogram}, failing)


def towards(gain: float = 0.2, **weights: int) -> Suggestion:
    return Suggestion(
        weights={id: Advice(weight, "") for id, weight in weights.items()}, gain=gain, why="it is quicker"
    )


UP, DOWN = towards(a=190, b=10), towards(a=10, b=190)


def stepped() -> Walk:
    """A way on which one step was made, from a mean of 20 ms."""
    walk = Walk({"a": 100, "b": 100})
    move = walk.next(TIERS, measured(0.02), UP, STEP_EVERY)
    assert move is not None
    walk.made(move, measured(0.02))
    return walk


def test_a_step_after_which_calls_took_longer_is_taken_back_and_the_next_is_shorter_and_later() -> None:
    walk = stepped()
    back = walk.next(TIERS, measured(0.022), UP, STEP_EVERY)
    assert back is not None
    assert (back.weights, back.back) == ({"a": 100, "b": 100}, True)
    assert back.why == "the last step is taken back: calls took 21.9 ms after it and 19.9 ms before"
    walk.made(back, measured(0.022))
    assert walk.length == 1 / 2
    assert walk.next(TIERS, measured(0.02), UP, 3.9 * STEP_EVERY) is None
    again = walk.next(TIERS, measured(0.02), UP, 4 * STEP_EVERY)
    assert again is not None
    assert 100 < again.weights["a"] < stepped().weights["a"]


@pytest.mark.parametrize(("after", "passed", "moves"),
                         [(0.03, EARLY, True), (0.022, EARLY, False), (0.015, EARLY, False)])  # fmt: skip
def test_a_step_is_taken_back_early_where_calls_took_far_longer_alone(after: float, passed: float, moves: bool) -> None:
    assert (stepped().next(TIERS, measured(after), UP, passed) is not None) is moves


def test_calls_that_fail_count_as_calls_that_took_longer() -> None:
    back = stepped().next(TIERS, measured(0.019, failing=0.2), UP, STEP_EVERY)
    assert back is not None
    assert back.back


def test_a_step_is_judged_once_there_are_calls_and_kept_where_none_come() -> None:
    walk = stepped()
    assert walk.next(TIERS, measured(0.05, calls=3), UP, LATEST - 1) is None
    kept = walk.next(TIERS, measured(0.05, calls=3), UP, LATEST)
    assert kept is not None
    assert not kept.back


def test_a_step_that_turns_around_is_shorter_and_none_is_shorter_than_the_shortest() -> None:
    walk, lengths = stepped(), []
    for wanted in [DOWN, UP] * 4:
        move = walk.next(TIERS, measured(0.01 / (2 + len(lengths))), wanted, 1e9)
        assert move is not None
        walk.made(move, measured(0.01 / (2 + len(lengths))))
        lengths.append(walk.length)
    assert lengths[0] == 1 / 2
    walk = stepped()
    for _ in range(6):
        move = walk.next(TIERS, measured(0.03), UP, 1e9)
        assert move is not None
        walk.made(move, measured(0.02))
    assert walk.length == SHORTEST


def test_far_more_to_gain_than_a_step_promised_that_failed_is_worth_a_long_step_at_once() -> None:
    walk = stepped()
    back = walk.next(TIERS, measured(0.03), UP, STEP_EVERY)
    assert back is not None
    walk.made(back, measured(0.03))
    assert walk.next(TIERS, measured(0.02), UP, STEP_EVERY) is None
    move = walk.next(TIERS, measured(0.02), towards(gain=0.5, a=190, b=10), STEP_EVERY)
    assert move is not None
    assert move.weights == stepped().weights
