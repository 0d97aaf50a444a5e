"""The comparison of eviction policies works, and the policy that the tier has by default keeps its promise.

That a scan does not flush a hot set is held for each policy in tests/unit/core/cache/test_eviction.py.
"""

from __future__ import annotations

from itertools import islice

import pytest

from benchmarks.policies import CANDIDATES, Found, Tier, apart, measure, missing, one, replay
from benchmarks.traces import TRACES
from rpcaccel.bench.report import render
from rpcaccel.core.cache.eviction import POLICIES
from rpcaccel.core.cache.memory import MemoryTier

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


def test_the_default_policy_beats_lru_where_ranges_are_scanned() -> None:
    default = MemoryTier(SIZE, SIZE).stats().policy
    ratios = {policy: one(policy, "indexer", REQUESTS * 3, SIZE).ratio for policy in POLICIES}
    assert ratios[default] > ratios["lru"] * 1.1
    assert ratios[default] > max(ratios.values()) - 0.02


def test_the_hot_set_is_still_there_after_a_scan_of_many_times_the_tier() -> None:
    cache = Tier(MemoryTier(SIZE, SIZE).stats().policy, SIZE)
    hot = [(b"hot%d" % number, 1_000) for number in range(400)]
    for turn in range(20):
        replay(cache, hot)
        replay(cache, [(b"scan%d:%d" % (turn, number), 4_000) for number in range(100)])
    replay(cache, [(b"a long scan:%d" % number, 4_000) for number in range(10 * SIZE // 4_000)])
    hits, _ = replay(cache, hot)
    assert hits > 380
