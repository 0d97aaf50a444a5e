"""Weights that change by themselves where latency depends on load: they settle, near the best, and never run away."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from statistics import NormalDist, fmean

import pytest

from rpcaccel.core.nodes.weighing import NodeFacts, suggest
from rpcaccel.core.nodes.weight_walk import EARLY, Measured, Move, Walk
from rpcaccel.core.nodes.whole_weights import shares_of
from rpcaccel.core.stats.histogram import Histogram, together

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
