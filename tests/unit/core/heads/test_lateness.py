"""When a node is behind: a lag that comes with each block and goes again is none."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from rpcaccel.core.heads.lateness import HeadTimes, Lateness

BLOCK, INTERVAL = 2.0, 1.0


class Looks:
    """A node that is `skew` seconds and `lag` blocks behind two others, each looked at out of step with the rest."""

    def __init__(self, *, skew: float = 0.0, lag: int = 0, block: float = BLOCK, interval: float = INTERVAL) -> None:
        self.skew, self.lag, self.block, self.interval = skew, lag, block, interval
        self.latency = 0.1
        self.now = 1000.0
        self.times, self.lateness = HeadTimes(), Lateness()
        self._rng = Random(5)
        self._looks = dict.fromkeys(("one", "other", "it"), self.now)
        self._heads = dict.fromkeys(self._looks, -1)

    def _chain(self, skew: float) -> int:
        return int((self.now - skew) // self.block)

    def go_on(self, seconds: float) -> Iterator[bool]:
        """Whether the node is behind, at each look at any node."""
        end = self.now + seconds
        while self.now < end:
            name = min(self._looks, key=lambda one: self._looks[one])
            self.now = self._looks[name]
            self._looks[name] += self.interval * self._rng.uniform(0.9, 1.1) + self.latency
            self._heads[name] = self._chain(self.skew) - self.lag if name == "it" else self._chain(0.0)
            self.times.see(max(self._heads.values()), self.now)
            self.lateness.look(
                self._heads["it"],
                self.times,
                self.now,
                block_time=self.block,
                interval=self.interval,
                latency=self.latency,
            )
            yield self.lateness.behind

    def seconds_until(self, behind: bool, within: float) -> float:
        """Seconds until the node is found to be behind, or no longer behind."""
        began = self.now
        for found in self.go_on(within):
            if found is behind:
                return self.now - began
        raise AssertionError(f"not within {within} s")


@pytest.mark.parametrize("skew", [0.0, 0.3, 0.7])
@pytest.mark.parametrize(("block", "interval"), [(2.0, 1.0), (12.0, 5.0), (0.25, 1.0)])
def test_a_block_that_reaches_a_node_a_little_later_is_no_lag(skew: float, block: float, interval: float) -> None:
    assert not any(Looks(skew=skew, block=block, interval=interval).go_on(100 * max(block, interval)))


def test_a_node_that_is_one_block_behind_for_many_blocks_is_behind_and_says_by_how_much() -> None:
    looks = Looks()
    assert not any(looks.go_on(60))
    looks.lag = 1
    assert looks.seconds_until(behind=True, within=20 * BLOCK) > 2 * BLOCK
    assert all(looks.go_on(60))
    assert 1.5 < looks.lateness.usual < 2.5
    looks.lag = 0
    looks.seconds_until(behind=False, within=20 * BLOCK)
    assert not any(looks.go_on(60))


def test_a_node_that_was_far_behind_is_well_soon_after_it_has_caught_up() -> None:
    looks = Looks(lag=200)
    looks.seconds_until(behind=True, within=10.0)
    assert all(looks.go_on(60))
    looks.lag = 0
    assert looks.seconds_until(behind=False, within=12 * BLOCK)
    assert not any(looks.go_on(60))


def test_a_node_that_falls_three_blocks_behind_is_behind_within_a_few_blocks() -> None:
    looks = Looks()
    assert not any(looks.go_on(60))
    looks.lag = 3
    assert looks.seconds_until(behind=True, within=4 * BLOCK)
    assert all(looks.go_on(60))  # and not only while it lacks the most


def test_a_node_that_comes_far_behind_is_behind_at_once() -> None:
    looks = Looks(lag=14)
    assert looks.seconds_until(behind=True, within=10.0) <= 2.0


def test_a_node_that_stands_is_behind_though_it_lacks_a_single_block_and_the_chain_halts() -> None:
    times, lateness = HeadTimes(), Lateness()
    behind = []
    for second in range(12):
        times.see(100 if second < 1 else 101, float(second))
        lateness.look(100, times, float(second), block_time=BLOCK, interval=INTERVAL, latency=0.0)
        behind.append(lateness.behind)
    assert behind.index(True) == 7  # two blocks and one and a half looks after the others, at whole seconds
    assert not lateness.usual
    for second in range(12, 23):  # from 13 on a block of two seconds reaches it a second late
        assert lateness.behind
        times.see(101 + (second - 12) // 2, float(second))
        lateness.look(101 + (second - 13) // 2, times, float(second), block_time=BLOCK, interval=INTERVAL, latency=0.0)
    assert not lateness.behind


def test_a_node_that_leads_or_whose_head_is_not_known_is_not_behind() -> None:
    times, lateness = HeadTimes(), Lateness()
    times.see(100, 0.0)
    for head in (-1, 105, 106):
        lateness.look(head, times, 500.0, block_time=BLOCK, interval=INTERVAL, latency=0.0)
        assert not lateness.behind


def test_the_time_of_a_block_is_that_of_the_head_which_reached_it() -> None:
    times = HeadTimes()
    times.see(100, 10.0)
    times.see(103, 16.0)
    assert [times.reached(number, 2.0) for number in (100, 101, 103, 104)] == [10.0, 16.0, 16.0, None]
    assert times.reached(95, 2.0) == 0.0  # five blocks before the first
    times.see(99, 20.0)
    assert times.reached(100, 2.0) is None
    times.see(100, 22.0)
    assert times.reached(100, 2.0) == 22.0


def test_the_times_of_old_blocks_are_forgotten() -> None:
    times = HeadTimes()
    for number in (0, 10_000_000, 10_000_300):
        times.see(number, float(number))
    assert "of 256 blocks" in repr(times)
