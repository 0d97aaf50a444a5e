"""The hour and the day of each node: what is summed, what is kept, and what leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpcaccel.controlplane.stats.history import LAG_LOOK_SECONDS, History
from rpcaccel.controlplane.stats.node_history import NodeSum
from rpcaccel.controlplane.stats.snapshot import NodeView
from rpcaccel.core.stats.tally import Tally

A = ("s0", "a")


class Story:
    """A node that is called now and then, and the history that is told of it each time."""

    def __init__(self, history: History | None = None, at: float = 1_000_020.0, every: float = 1.0) -> None:
        self.every = every
        self.tally = Tally()
        self.history = history or History()
        self.now = 50.0
        self.at = at
        self.view = NodeView(network="s0", id="a", state="serving", lag=0)
        self.tell()

    def tell(self) -> None:
        self.history.add(self.tally.snapshot(), self.now, self.at, [self.view])

    def lives(self, times: int, method: str = "eth_call", **counts: int) -> None:
        for _ in range(times):
            self.now, self.at = self.now + self.every, self.at + self.every
            node = self.tally.node(*A)
            node.calls += 1
            node.answered(0.25, 10, methods=[method])
            for name, count in counts.items():
                setattr(node, name, getattr(node, name) + count)
            self.tell()


@pytest.mark.parametrize(("times", "hour", "day"), [(3, 3, 3), (180, 180, 180), (450, 180, 450)])
def test_a_range_holds_what_happened_in_it_to_the_second(times: int, hour: int, day: int) -> None:
    story = Story(every=20.0)
    story.lives(times, compared=2, minority=1)
    for over, calls in (("hour", hour), ("day", day)):
        total = story.history.nodes.total(over)  # type: ignore[arg-type]
        one = total.nodes[A]
        assert (one.calls, total.seconds) == (calls, 20.0 * calls)
        assert (one.compared, one.minority, one.undecided, one.false_hashes) == (2 * calls, calls, 0, 0)
        assert (one.by_method["eth_call"].count, one.by_method["eth_call"].seconds) == (calls, calls / 4)
        assert one.latency.count == calls


def test_a_day_is_no_longer_than_a_day() -> None:
    story = Story(every=120.0)
    story.lives(26 * 30)
    past = story.history.nodes
    assert past.total("day").seconds == pytest.approx(86_400, abs=600)
    assert past.total("hour").seconds == pytest.approx(3600, abs=60)
    assert [len(past.slices(over)) for over in ("hour", "day")] == [30, 145]


def test_the_lag_is_looked_at_every_few_seconds() -> None:
    story = Story()
    story.view = NodeView(network="s0", id="a", state="behind", lag=14)
    story.lives(40)
    story.view = NodeView(network="s0", id="a", state="serving", lag=1)
    story.lives(160)
    one = story.history.nodes.total("hour").nodes[A]
    assert one.looks == pytest.approx(200 / LAG_LOOK_SECONDS, abs=1)
    assert one.behind == pytest.approx(40 / LAG_LOOK_SECONDS, abs=1)
    assert (one.lag(0.5), one.lag(0.99)) == (1, 20)
    assert NodeSum().lag(0.5) is None


def test_a_slice_tells_how_many_calls_a_node_had_answered_and_failed() -> None:
    story = Story()
    story.lives(59)
    for _ in range(7):
        story.tally.node(*A).failed("rate-limited")
    story.lives(1)
    (one,) = story.history.nodes.slices("hour")
    pace = one.paces[A]
    assert (one.seconds, pace.calls, pace.answers, pace.failures) == (60.0, 60, 60, 7)


def test_what_was_kept_is_taken_up_by_the_next_start(tmp_path: Path) -> None:
    story, again = Story(every=20.0), History()
    story.lives(200, minority=1)
    ended = story.history.nodes.total("hour").nodes[A]
    story.history.save(tmp_path / "saved")
    again.table.load(tmp_path / "saved")
    next_run = Story(again, at=story.at + 10.0, every=20.0)
    next_run.lives(6)
    found = next_run.history.nodes.total("hour").nodes[A]
    assert found.calls == pytest.approx(ended.calls, abs=7)
    assert found.minority == found.calls - 6


def test_a_node_without_calls_that_was_compared_leaves_the_hour_as_others_do() -> None:
    history, tally = History(), Tally()
    for second in range(0, 80 * 60, 10):
        if second in {130, 190}:
            tally.node("s0", "quiet").compared += 1
        tally.node(*A).calls += 1
        history.add(tally.snapshot(), float(second), 1e6 + second)
    assert history.nodes.total("hour").nodes[A].calls == pytest.approx(360, abs=6)
    assert history.nodes.total("day").nodes[A].calls == pytest.approx(479, abs=1)
    assert ("s0", "quiet") not in history.nodes.total("hour").nodes


def test_an_outcome_in_a_minute_without_calls_is_counted() -> None:
    history, tally = History(), Tally()
    cell = tally.node(*A)
    for minute, outcome in enumerate((None, "call", "failed", "answered", None)):
        if outcome == "call":
            cell.calls += 2
        elif outcome == "failed":
            cell.failed("timeout")
        elif outcome == "answered":
            cell.answered(0.5, 1, methods=["eth_call"])
        history.add(tally.snapshot(), 60.0 * minute, 1e6 + 60.0 * minute)
    one = history.nodes.total("hour").nodes[A]
    assert (one.calls, one.failures, one.latency.count, one.by_method["eth_call"].count) == (2, {"timeout": 1}, 1, 1)
