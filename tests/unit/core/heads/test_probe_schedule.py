"""When nodes are probed: a world of nodes with blocks at known times, on a clock of its own."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from statistics import median

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rpcaccel.core.heads.block_time import BlockPace
from rpcaccel.core.heads.probe_schedule import ProbeSchedule

START = 1000.0
ANSWER = 0.004
"""Seconds from a probe to its answer."""


class Watched:
    """Nodes whose blocks come at `times`, each node `skews` seconds later, and the looks at them. With a `pusher` there
    is one node more, which pushes each block at once."""

    def __init__(
        self, times: Sequence[float], *, expected: float, skews: Sequence[float] = (0.0,), pusher: bool = False
    ) -> None:
        self.times, self.skews = times, skews
        self.pushes = list(times) if pusher else []
        self.seen_by: list[dict[int, float]] = [{} for _ in skews]
        self.pace = BlockPace(expected)
        self.schedules = [ProbeSchedule(self.pace, START) for _ in skews]
        self.looks: list[list[float]] = [[] for _ in skews]
        self.seen: dict[int, float] = {}

    def run(self, end: float) -> None:
        due = [START + 0.1 * place for place in range(len(self.skews))]
        while min(due) < end:
            place = due.index(min(due))
            now = due[place]
            if self.pushes and self.pushes[0] <= now:
                self.push(self.pushes.pop(0), due)
                continue
            self.look(place, now, due)
            due[place] = max(self.schedules[place].next(now + ANSWER), now + ANSWER)

    def push(self, now: float, due: list[float]) -> None:
        number = bisect_right(self.times, now)
        self.pace.see(number, now)
        for place, schedule in enumerate(self.schedules):
            if schedule.heard(number, now, pushed=True):
                due[place] = max(now, schedule.next(now))

    def look(self, place: int, now: float, due: list[float]) -> None:
        number = bisect_right(self.times, now - self.skews[place])
        self.looks[place].append(now)
        self.seen_by[place].setdefault(number, now + ANSWER)
        for block in range(max(self.seen, default=number - 1) + 1, number + 1):
            self.seen[block] = now + ANSWER
        self.pace.see(number, now)
        self.schedules[place].looked(number, now)
        for other, schedule in enumerate(self.schedules):
            if other != place and schedule.heard(number, now):
                due[other] = min(due[other], max(now + ANSWER, schedule.next(now + ANSWER)))

    def lateness(self, since: float) -> list[float]:
        """How long after it came each block since then was seen first."""
        return [
            self.seen[number + 1] - at for number, at in enumerate(self.times) if at > since and number + 1 in self.seen
        ]

    def probes_a_block(self, since: float, end: float) -> float:
        """The looks at the node that was looked at most, for each block from `since` on and before `end`."""
        blocks = sum(since <= at < end for at in self.times)
        return max(sum(since <= at < end for at in looks) for looks in self.looks) / blocks


def blocks(period: float, count: int, *, jitter: float = 0.0, seed: int = 1) -> list[float]:
    """Blocks in slots, each up to `jitter` seconds after its slot."""
    rng = random.Random(seed)
    return [START + 0.37 * period + slot * period + rng.uniform(0.0, jitter) for slot in range(count)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("jitter", [0.0, 0.05, 0.1])
@pytest.mark.parametrize("period", [1.0, 2.0])
@pytest.mark.parametrize("skews", [(0.0,), (0.0, 0.01, 0.02)])
def test_blocks_are_seen_soon_for_at_most_two_probes_a_block(
    period: float, jitter: float, seed: int, skews: tuple[float, ...]
) -> None:
    world = Watched(blocks(period, 300, jitter=jitter, seed=seed), expected=period, skews=skews)
    since, end = START + 30 * period, START + 300 * period
    world.run(end)
    assert median(world.lateness(since)) <= 0.12
    assert world.probes_a_block(since, end) <= 2.0


@pytest.mark.parametrize("period", [1.0, 5.0, 12.0])
def test_whatever_the_block_time_there_are_at_most_two_probes_a_block(period: float) -> None:
    world = Watched(blocks(period, 300, jitter=0.3), expected=12.0, skews=(0.0, 0.3))
    end = START + 300 * period
    world.run(end)
    assert world.probes_a_block(START + 30 * period, end) <= 2.02


def test_a_chain_quicker_than_expected_is_learnt_and_followed() -> None:
    world = Watched(blocks(1.0, 200, jitter=0.05), expected=12.0)
    world.run(START + 200)
    assert world.pace.period == pytest.approx(1.0, rel=0.02)
    assert median(world.lateness(START + 60)) <= 0.12


@pytest.mark.parametrize("period", [0.25, 1.0, 2.0])
def test_blocks_are_seen_one_by_one_from_the_start_on_a_chain_quicker_than_expected(period: float) -> None:
    world = Watched(blocks(period, 100, jitter=0.05), expected=12.0)
    world.run(START + 20)
    assert max(world.lateness(START)) <= 1.2
    assert len(world.looks[0]) <= 2 * 20 / period + 5


def test_a_chain_that_stands_from_the_start_is_looked_at_less_and_less_often() -> None:
    world = Watched([], expected=12.0)
    world.run(START + 300)
    assert len(world.looks[0]) <= 300 / 5 + 25
    assert sum(at < START + 10 for at in world.looks[0]) >= 8


def test_a_head_that_moved_by_several_blocks_tells_the_period_at_once() -> None:
    pace = BlockPace(12.0)
    pace.see(100, START)
    pace.see(105, START + 5.0)
    assert pace.period == pytest.approx(1.0)
    lagging = BlockPace(12.0)
    lagging.see(100, START)
    lagging.see(110, START + 0.05)
    assert lagging.period == 12.0


@pytest.mark.parametrize("period", [0.05, 0.25])
def test_however_quick_the_blocks_come_a_node_is_looked_at_eight_times_a_second_at_most(period: float) -> None:
    world = Watched(blocks(period, int(100 / period)), expected=2.0, skews=(0.0, 0.0))
    world.run(START + 100)
    assert all(len(looks) <= 810 for looks in world.looks)


@given(
    period=st.sampled_from([0.25, 0.4, 0.5, 1.0, 2.0, 5.0, 12.0]),
    phase=st.floats(0.0, 1.0),
    skews=st.lists(st.floats(0.0, 0.05), max_size=2),
)
@example(period=2.0, phase=0.0, skews=[0.03125, 0.047935029371237364])
def test_where_headers_tell_the_pace_no_block_is_seen_later_than_half_a_block_from_the_start_on(
    period: float, phase: float, skews: list[float]
) -> None:
    times = [START + (slot + phase) * period for slot in range(80)]
    world = Watched(times, expected=12.0, skews=[0.0, *(share * period for share in skews)])
    world.pace.state(64, max(1, round(64 * period)))
    world.run(START + 75 * period)
    since = START + max(0.0, 3.0 - period)
    assert max(world.lateness(since)[:70]) <= period / 2
    assert world.probes_a_block(START + 30 * period, START + 70 * period) <= 2.1


@given(st.lists(st.floats(0.02, 0.3), min_size=2, max_size=2), st.integers(0, 100))
def test_beside_a_node_that_pushes_others_are_looked_at_when_there_is_a_block_to_see(
    skews: list[float], seed: int
) -> None:
    world = Watched(blocks(2.0, 120, jitter=0.2, seed=seed), expected=2.0, skews=skews, pusher=True)
    world.pace.state(64, 128)
    world.run(START + 230)
    late = [
        at - due
        for seen, skew in zip(world.seen_by, skews, strict=True)
        for number, at in seen.items()
        if number and (due := world.times[number - 1] + skew) > START + 20
    ]
    assert max(late) <= 0.26
    assert median(late) <= 0.06
    assert world.probes_a_block(START + 20, START + 230) <= 2.1


@pytest.mark.parametrize(("expected", "most"), [(2.0, 1.0), (12.0, 0.2)])
def test_a_chain_that_stands_is_looked_at_at_the_pace_of_half_a_block(expected: float, most: float) -> None:
    times = blocks(expected, 50)
    world = Watched(times, expected=expected)
    stands = times[-1] + 5 * expected
    world.run(stands + 1000)
    looks = sum(at > stands for at in world.looks[0])
    assert 0.5 * most * 1000 <= looks <= most * 1000 + 5


def test_a_chain_that_goes_on_after_a_halt_at_another_phase_is_followed_again() -> None:
    first, later = blocks(2.0, 50, jitter=0.05), [at + 133.3 for at in blocks(2.0, 300, jitter=0.05)]
    world = Watched([*first, *(at for at in later if at > first[-1] + 30)], expected=2.0)
    world.run(START + 700)
    assert median(world.lateness(START + 300)) <= 0.12


def test_blocks_on_demand_cause_no_flood() -> None:
    rng = random.Random(3)
    at, times = START, list[float]()
    while at < START + 2000:
        at += rng.choice((0.01, 0.01, 0.3, 40.0, 7.0))
        times.append(at)
    world = Watched(times, expected=12.0, skews=(0.0, 0.0, 0.0))
    world.run(START + 2000)
    for looks in world.looks:
        assert len(looks) <= 2 * 2000
        assert all(sum(at <= other < at + 1 for other in looks) <= 5 for at in looks)


def test_a_node_that_gets_blocks_later_than_others_is_looked_at_when_it_has_them() -> None:
    world = Watched(blocks(2.0, 200, jitter=0.02), expected=2.0, skews=(0.0, 0.6))
    world.run(START + 400)
    slow = world.schedules[1]
    assert (slow.next(START + 400) - 0.37 * 2 - START) % 2.0 == pytest.approx(0.6, abs=0.2)


def followed(blocks: int, *, pushes: bool = False) -> ProbeSchedule:
    """The schedule of a node that was looked at whenever one of so many blocks came, every two seconds."""
    schedule = ProbeSchedule(pace := BlockPace(2.0), START)
    schedule.turned(pushes=pushes)
    for number in range(blocks):
        pace.see(number, START + 2.0 * number)
        schedule.looked(number, START + 2.0 * number)
    return schedule


def test_a_new_block_at_one_node_is_looked_for_at_the_others_at_once() -> None:
    one, other = followed(6), followed(6)
    later = START + 10.8
    assert other.next(later) > later + 0.2
    assert other.heard(6, later)
    assert other.next(later) == later
    other.looked(5, later)
    assert other.next(later) > later
    assert not other.heard(6, later)
    assert not one.heard(5, later)


def test_a_node_that_pushes_is_looked_at_only_when_a_push_is_overdue_and_now_and_then() -> None:
    schedule = ProbeSchedule(pace := BlockPace(2.0), START)
    schedule.turned(pushes=True)
    now = START
    schedule.looked(0, now)
    looks = 0
    for number in range(1, 61):
        now = START + 2.0 * number
        pace.see(number, now)
        schedule.pushed(number, now)
        assert not schedule.heard(number, now)
        if schedule.next(now) <= now + 1.9:
            looks += 1
            schedule.looked(number, now + 1.0)
    assert 20 <= looks <= 30
    schedule.looked(60, now + 1.0)
    assert now + 2.1 < schedule.next(now) < now + 3.0


def test_when_a_node_beside_no_longer_pushes_the_rhythm_of_the_blocks_is_followed_again() -> None:
    world = Watched(blocks(2.0, 120), expected=2.0, skews=(0.1,), pusher=True)
    world.pace.state(64, 128)
    world.pushes = world.pushes[:40]
    world.run(START + 230)
    late = [at - world.times[number - 1] for number, at in world.seen_by[0].items() if number > 50]
    assert max(late) <= 0.25


def test_a_push_that_only_a_look_can_explain_is_followed_by_one() -> None:
    schedule = followed(6)
    schedule.turned(pushes=True)
    schedule.pushed(5, START + 10.8, understood=False)
    assert schedule.next(START + 10.8) == START + 10.8
    schedule.looked(5, START + 10.8)
    assert schedule.next(START + 10.8) > START + 11.0


def test_a_chain_that_was_set_back_is_followed_in_its_pace_at_once() -> None:
    schedule = followed(20)
    for number in (5, 6, 7, 8, 9):
        schedule.looked(number, START + 30 + 2.0 * number)
    assert "0 missed" in repr(schedule)


def test_a_node_that_no_longer_pushes_is_looked_at_at_once() -> None:
    schedule = followed(6, pushes=True)
    assert schedule.next(START + 10.5) > START + 11
    schedule.turned(pushes=False)
    assert schedule.next(START + 10.5) == START + 10.5


def test_a_node_far_ahead_of_all_others_does_not_make_the_chain_seem_quick() -> None:
    pace = BlockPace(2.0)
    for number in range(10):
        pace.see(number, START + 2.0 * number)
    assert not pace.see(10**9, START + 21.0)
    assert pace.period == pytest.approx(2.0)
    assert repr(pace) == "<a block every 2 s>"
