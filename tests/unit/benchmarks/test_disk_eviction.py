"""The ways of eviction do what their names say, and no way beats the one that knows the future."""

from __future__ import annotations

from itertools import islice

import pytest

from benchmarks import disk_eviction
from benchmarks.disk_eviction import (
    REFRESH_EVERY,
    WAYS,
    Ideal,
    MoveAndRefresh,
    Passed,
    Way,
    replay,
    short,
    through_memory,
)
from benchmarks.traces import TRACES
from rpcaccel.bench.load.progress import Watch

KEYS = [b"a", b"b", b"c", b"d"]


def filled(name: str) -> Way:
    """Four entries, as many as there is room for; another one was evicted before."""
    way = WAYS[name](4)
    for key in (b"z", *KEYS):
        way.put(key, 1)
    return way


def left(way: Way) -> str:
    return "".join(chr(key) for key in b"abcdefgh" if bytes([key]) in way)


@pytest.mark.parametrize(
    ("name", "after", "rewritten"),
    [
        ("FIFO", "cdef", 0),
        ("FIFO, second chance", "adef", 1),  # what was used goes round once
        ("move when old", "adef", 1),
        ("move when old, refresh", "adef", 1),
        ("LRU", "adef", 2),
    ],
)
def test_what_is_hit_near_the_old_end_is_spared_at_a_cost(name: str, after: str, rewritten: int) -> None:
    way = filled(name)
    hits = [way.get(b"a")] + [way.get(b"d")] * (name == "LRU")
    assert all(hits)
    for key in (b"e", b"f"):
        way.put(key, 1)
    assert (left(way), way.rewritten) == (after, rewritten)


def test_what_is_hit_near_the_young_end_stays_in_its_place() -> None:
    way = filled("move when old")
    assert way.get(b"d")
    assert way.rewritten == 0


def test_nothing_is_moved_before_the_tier_was_full_once() -> None:
    way = WAYS["move when old"](5)
    for key in KEYS:
        way.put(key, 1)
    assert way.get(b"a")
    assert way.rewritten == 0


def test_what_is_hot_in_memory_is_written_again_even_when_it_is_gone() -> None:
    way = MoveAndRefresh(4)
    for key in (*KEYS, b"e"):
        way.put(key, 1)
    assert b"a" not in way
    way.refresh(b"a", 1)
    assert b"a" in way
    assert (way.written, way.rewritten) == (5, 1)


def test_memory_answers_first_and_calls_at_the_head_do_not_reach_the_disk() -> None:
    passed = through_memory([(b"s0:x:1", 10), (b"s0:x:1", 10), (b"s0:eth_call@5:1", 10)], 100_000)
    assert (passed.requests, passed.memory_hits) == (3, 1)
    assert [key for key, _ in passed.lookups] == [b"s0:x:1"]


def test_what_memory_answered_is_remembered_until_the_next_refresh() -> None:
    passed = through_memory([(b"s0:x:1", 10)] * (REFRESH_EVERY + 1), 100_000)
    assert [key for key, _ in passed.hot[1]] == [b"s0:x:1"]


@pytest.mark.parametrize("trace", TRACES)
def test_no_way_has_more_hits_than_the_ideal(trace: str) -> None:
    passed: Passed = through_memory(islice(TRACES[trace](), 12_000), 500_000)
    ideal = replay(Ideal(1_000_000, [key for key, _ in passed.lookups]), passed)
    assert ideal > 0
    assert max(replay(make(1_000_000), passed) for make in WAYS.values()) <= ideal


def test_the_report_has_a_row_for_each_way_and_size() -> None:
    (table,) = short(Watch()).tables
    assert len(table.rows) == 1 + 2 * (len(WAYS) + 1)
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert disk_eviction.SECTION == "disk eviction"
