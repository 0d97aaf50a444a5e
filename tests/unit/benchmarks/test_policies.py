"""The comparison of eviction policies works, and the tier's policy keeps its promise against the yardsticks."""

from __future__ import annotations

from itertools import islice

import pytest

from benchmarks.policies import CANDIDATES, Found, Tier, apart, measure, missing, one, replay
from benchmarks.traces import TRACES
from benchmarks.yardsticks import Lru, Sieve, weigh
from rpcaccel.bench.report import render
from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.plan.rules import CacheClass

SIZE = 2 << 20
REQUESTS = 8_000


@pytest.mark.parametrize("trace", TRACES)
def test_a_trace_is_the_same_every_time_and_a_key_has_one_size(trace: str) -> None:
    asked = list(islice(TRACES[trace](), REQUESTS))
    assert asked == list(islice(TRACES[trace](), REQUESTS))
    assert len(set(asked)) == len(dict(asked)) < REQUESTS


@pytest.mark.parametrize("name", sorted(set(CANDIDATES) - set(missing(CANDIDATES))))
def test_every_candidate_that_is_installed_hits_and_stays_near_its_bound(name: str) -> None:
    found = one(name, "indexer", REQUESTS, SIZE, entries=400)
    assert 0.05 < found.ratio < 0.9
    assert found.held < SIZE * 1.5


def test_the_report_has_a_row_for_each_and_names_what_is_not_installed() -> None:
    report = measure(list(CANDIDATES), 100, SIZE, run=lambda *_: Found(100, 25, 0.001, 10, 50_000, 60_000))
    absent = list(missing(CANDIDATES))
    assert len(report.tables[0].rows) == len(CANDIDATES) - len(absent)
    assert [remark.partition(" was")[0] for remark in report.remarks] == absent
    assert "25.0 %" in render.markdown(report)


def test_a_run_in_a_process_of_its_own_finds_the_same() -> None:
    assert apart("lru", "dapp", 1_000, SIZE).hits == one("lru", "dapp", 1_000, SIZE).hits


ENTRY = Entry(result=b"1", cache=CacheClass.HEAD, network="s0", method="m", stored_at=0.0)
FOUR = 4 * weigh(b"a", ENTRY)


def filled(cache: Lru | Sieve) -> Lru | Sieve:
    """Four entries, as many as there is room for."""
    for key in (b"a", b"b", b"c", b"d"):
        cache.put(key, ENTRY)
    return cache


def left(cache: Lru | Sieve) -> str:
    """The keys that are still there, which counts as a use."""
    return "".join(chr(key) for key in b"abcdefgh" if cache.get(bytes([key])) is not None)


def test_lru_spares_what_was_used_last() -> None:
    cache = filled(Lru(FOUR))
    assert cache.get(b"a") is not None
    cache.put(b"e", ENTRY)
    assert left(cache) == "acde"


def test_sieve_spares_the_used_in_their_place_and_its_hand_goes_on() -> None:
    cache = filled(Sieve(FOUR))
    assert cache.get(b"a") is not None
    assert cache.get(b"c") is not None
    for key in (b"e", b"f"):  # b goes; the hand stands before c: c is spared, d goes
        cache.put(key, ENTRY)
    for key in (b"g", b"h"):  # e and f go before the hand comes round to a
        cache.put(key, ENTRY)
    assert left(cache) == "acgh"
    assert len(cache) == 4


def test_the_tier_beats_lru_where_ranges_are_scanned() -> None:
    ratios = {policy: one(policy, "indexer", REQUESTS * 3, SIZE).ratio for policy in ("lru", "sieve", "s3fifo")}
    assert ratios["s3fifo"] > ratios["lru"] * 1.1
    assert ratios["s3fifo"] > max(ratios.values()) - 0.02


def test_the_hot_set_is_still_there_after_a_scan_of_many_times_the_tier() -> None:
    cache = Tier(SIZE)
    hot = [(b"hot%d" % number, 1_000) for number in range(400)]
    for turn in range(20):
        replay(cache, hot)
        replay(cache, [(b"scan%d:%d" % (turn, number), 4_000) for number in range(100)])
    replay(cache, [(b"a long scan:%d" % number, 4_000) for number in range(10 * SIZE // 4_000)])
    hits, _ = replay(cache, hot)
    assert hits > 380
