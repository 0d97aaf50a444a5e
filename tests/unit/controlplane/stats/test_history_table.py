"""The table of what was counted: what each rollup tells, what is bounded, and what a saved one may be."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpcaccel.controlplane.stats.buckets import Bucket, NodeSums, numbers_of, numbers_of_node, summed
from rpcaccel.controlplane.stats.history_table import (
    MAX_ROWS,
    ROLLUPS,
    TABLE_VERSION,
    WHOLE_KIND,
    Counted,
    HistoryTable,
)
from rpcaccel.core.stats.histogram import BUCKETS, Histogram

COUNTS = st.integers(0, 1000)
RANGES = ROLLUPS["network"]


@st.composite
def buckets(draw: st.DrawFn) -> Bucket:
    """What a network counted in a second."""
    some = st.lists(COUNTS, min_size=BUCKETS, max_size=BUCKETS)
    histogram = some.map(lambda counts: Histogram(counts, 0.5 if any(counts) else 0.0))
    sums = st.builds(NodeSums, st.integers(1, 1000), COUNTS, COUNTS)
    return Bucket(
        at=0.0,
        seconds=1.0,
        calls=draw(COUNTS),
        errors=draw(COUNTS),
        spared_seconds=draw(COUNTS) / 2,
        hit=draw(histogram),
        nodes=draw(st.dictionaries(st.tuples(st.just("s0"), st.sampled_from("ab")), sums)),
        codes=draw(st.dictionaries(st.sampled_from(["-32000", "3"]), st.integers(1, 9))),
    )


def rows(bucket: Bucket) -> Counted:
    return {
        (WHOLE_KIND, "", "", ""): numbers_of(bucket),
        ("network", "s0", "", ""): numbers_of(bucket),
        **{
            ("node", *key, ""): numbers_of_node(sums.calls, sums.failures, Histogram(), sums.answers)
            for key, sums in bucket.nodes.items()
        },
        **{("name", "s0", "", code): (count,) for code, count in bucket.codes.items()},
    }


@dataclass
class Story:
    """A table that is told of seconds."""

    at: float = 1_000_000.0
    table: HistoryTable = field(default_factory=HistoryTable)

    def lives(self, seconds: int, calls: int = 3, every: float = 1.0) -> Story:
        for _ in range(seconds):
            self.at += every
            self.table.add("network", self.at, every, {("network", "s0", "", ""): (calls,)})
        return self

    def shown(self, over: str, part: str = "s0") -> list[Bucket]:
        span = self.table.span("network", over, self.at)
        return self.table.buckets(span, part) if span else []

    def total(self, over: str, part: str = "s0") -> Bucket | None:
        span = self.table.span("network", over, self.at)
        return self.table.total(span, part) if span else None


@given(st.lists(buckets(), min_size=1, max_size=20), st.sampled_from([1.0, 40.0]))
def test_every_rollup_and_its_sum_have_every_figure_that_was_added(added: list[Bucket], every: float) -> None:
    story = Story()
    for bucket in added:
        story.at += every
        story.table.add("network", story.at, every, rows(bucket))
    wanted = summed(added, every * len(added), story.at)
    for over in RANGES:
        for part in ("", "s0"):
            found = story.shown(over, part)
            assert summed(found, sum(one.seconds for one in found), story.at) == wanted
            total = story.total(over, part)
            assert numbers_of(total) == numbers_of(wanted)
            assert (total.at, total.seconds) == (wanted.at, wanted.seconds)
            assert sum(one.calls for one in total.nodes.values()) == sum(one.calls for one in wanted.nodes.values())


def test_slots_are_aligned_and_the_newest_one_is_shown_before_it_is_full() -> None:
    shown = Story(at=999_999.0).lives(50).shown("1h")  # 999,990 is a multiple of 15
    assert [(one.at, one.seconds, one.calls) for one in shown] == [
        (1_000_005.0, 6.0, 18),
        (1_000_020.0, 15.0, 45),
        (1_000_035.0, 15.0, 45),
        (1_000_049.0, 14.0, 42),
    ]


def test_a_part_that_counted_nothing_has_empty_buckets_of_the_same_time() -> None:
    story = Story().lives(30)
    assert [(one.at, one.seconds) for one in story.shown("1h", "s1")] == [
        (one.at, one.seconds) for one in story.shown("1h")
    ]
    assert {one.calls for one in story.shown("1h", "s1")} == {0}
    assert story.total("1h", "s1") is not None
    assert Story().total("1h") is None


def test_a_range_covers_what_its_name_says_and_its_slots_are_bounded() -> None:
    story = Story().lives(8 * 24 * 4, every=900.0)
    for over, seconds in (("24h", 86_400), ("7d", 7 * 86_400)):
        shown = story.shown(over)
        assert sum(one.seconds for one in shown) == pytest.approx(seconds, abs=RANGES[over].every)
        assert len(shown) <= RANGES[over].shown + 1
    wide = story.table.span("network", "7d", story.at)
    assert wide is not None
    assert story.table.span("network", "7d", story.at + 700_000.0) is None


@pytest.mark.parametrize("jump", [700_000.0, 70.0, -70.0, -900_000.0])
def test_a_clock_that_is_wrong_for_a_while_takes_nothing_away_and_no_range_runs_backwards(jump: float) -> None:
    story = Story().lives(240, every=15.0)
    before = story.total("24h")
    wrong = Story(story.at + jump, story.table).lives(40)
    for one in (wrong, story):
        for over in RANGES:
            at = [bucket.at for bucket in one.shown(over)]
            assert at == sorted(set(at))
    after = story.total("24h")
    assert after.calls >= before.calls


def test_slots_of_a_clock_that_was_wrong_for_long_make_room_for_those_of_now() -> None:
    story = Story(at=4_000_000_000.0).lives(400, every=15.0)
    story.at = 1_000_000.0
    story.lives(400, every=15.0)
    assert len(story.shown("1h")) == 241


def test_a_clock_that_is_behind_for_long_takes_nothing_of_what_is_newest() -> None:
    story = Story(at=4_000_000_000.0).lives(400, every=15.0)
    Story(1_000_000.0, story.table).lives(400, every=15.0)
    assert len(story.shown("1h")) == 241


def test_of_many_rows_of_a_slot_those_with_the_most_calls_are_kept() -> None:
    table, most = HistoryTable(), MAX_ROWS["client"]
    for at in (1_000_005.0, 1_000_006.0):
        table.add("client", at, 1.0, {("client", f"c{number}", "", ""): (number,) for number in range(most + 50)})
    span = table.span("client", "24h", 1_000_006.0)
    assert span is not None
    calls = [table.total(span, f"c{number}").calls for number in (49, 50, most + 49)]
    assert calls == [0, 100, 2 * (most + 49)]


def test_a_table_that_gets_too_large_loses_the_older_half_of_its_largest_rollup(tmp_path: Path) -> None:
    table = HistoryTable(max_bytes=1_000_000)
    methods = {("method", "s0", "a", f"m{number}"): (1,) for number in range(500)}
    for minute in range(60):
        table.add("network", 1e6 + 60 * minute, 60.0, {("network", "s0", "", ""): (1,)})
        table.add("node", 1e6 + 60 * minute, 60.0, methods)
    assert saved(table, tmp_path / "saved").stat().st_size < 1_500_000
    span = table.span("network", "7d", 2e6)
    assert span is None or span.seconds == 3600.0
    newest = table.span("node", "hour", 1e6 + 3540)
    assert newest is not None
    assert {key[3] for key, _, _ in table.node_parts(newest)} == {f"m{number}" for number in range(500)}


def saved(table: HistoryTable, path: Path, sql: str = "") -> Path:
    """A file of the table, in which somebody else has changed something."""
    path.unlink(missing_ok=True)
    table.save(path)
    db = sqlite3.connect(path)
    db.executescript(f"PRAGMA ignore_check_constraints = ON; {sql}")
    db.close()
    return path


def test_a_saved_table_is_the_same_again_and_goes_on_from_there(tmp_path: Path) -> None:
    story, again = Story().lives(100), HistoryTable()
    again.load(saved(story.table, tmp_path / "saved"))
    copy = Story(story.at, again)
    for over in RANGES:
        assert copy.shown(over) == story.shown(over)
    assert [one.calls for one in copy.lives(1).shown("7d")] == [one.calls for one in story.lives(1).shown("7d")]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (f"PRAGMA user_version = {TABLE_VERSION + 1}", f"has version {TABLE_VERSION + 1}"),
        ("UPDATE history SET seconds = 0", "is damaged"),
        ("UPDATE history SET calls = -1", "is damaged"),
        ("UPDATE history SET miss_3 = 'many'", "is damaged"),
        ("UPDATE history SET name = x'ff'", "is damaged"),
        ("DROP TABLE history; CREATE TABLE history (rollup)", "is damaged"),
    ],
)
def test_a_file_that_was_not_saved_here_is_refused_and_changes_nothing(tmp_path: Path, sql: str, why: str) -> None:
    story = Story().lives(3)
    before = story.shown("1h")
    with pytest.raises(ValueError, match=why):
        story.table.load(saved(story.table, tmp_path / "saved", sql))
    for content in (b"", b"not a history", b"SQLite format 3\0"):
        (tmp_path / "other").write_bytes(content)
        with pytest.raises(ValueError, match="is damaged"):
            story.table.load(tmp_path / "other")
    assert story.shown("1h") == before


def test_a_place_that_cannot_be_written_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="unable to open"):
        HistoryTable().save(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(cut=st.integers(0, 10_000), put=st.binary(max_size=30))
def test_whatever_damage_a_file_has_it_is_refused_or_can_be_read(tmp_path: Path, cut: int, put: bytes) -> None:
    path = saved(Story().lives(30).table, tmp_path / "saved")
    content = path.read_bytes()
    cut %= len(content)
    path.write_bytes(content[:cut] + put + content[cut + len(put) :])
    damaged = Story(1_000_030.0)
    try:
        damaged.table.load(path)
    except ValueError:
        return
    for over in RANGES:
        assert all(one.seconds > 0 for one in damaged.lives(1).shown(over))
