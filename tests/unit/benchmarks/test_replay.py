"""The replay finds what each part of the cache saves, on a trace that is the same every time."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.mixed import Mixed
from benchmarks.replay import START, Saved, Variant, measure, through
from rpcaccel.bench.report import render
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.simnode.server.factories import harmony_chain
from tests.support.services import RedisServer

HEADS = 4


def replayed(redis: str = "", **switches: bool | float) -> Saved:
    saved = asyncio.run(through(Variant("", redis=bool(redis), **switches), HEADS, redis))  # type: ignore[arg-type]
    assert saved.failed == 0
    return saved


def test_the_trace_is_the_same_every_time() -> None:
    first, again = (Mixed(harmony_chain(START), START) for _ in range(2))
    for head in range(START, START + HEADS):
        calls = list(first.at(head))
        assert calls == list(again.at(head))
        assert {host for host, _, _ in calls} == {0, 1}


def test_ranges_read_less_from_nodes() -> None:
    whole, cut = replayed(ranges=False), replayed()
    assert cut.calls == whole.calls
    assert cut.partial > 0 == whole.partial
    assert cut.node_bytes < whole.node_bytes * 0.8


def test_refresh_makes_hits_of_what_is_asked_at_each_head() -> None:
    without, generous = replayed(refresh=0.0), replayed(refresh=1.0)
    assert without.refreshed == 0 < generous.refreshed
    assert sum(generous.hits.values()) > sum(without.hits.values())


@pytest.mark.deep
def test_redis_spares_one_worker_what_the_other_has_asked(redis_server: RedisServer) -> None:
    alone, shared = replayed(), replayed(redis_server.url)
    assert shared.node_calls < alone.node_calls
    assert (shared.ratio(CacheClass.BY_NUMBER) or 0) > (alone.ratio(CacheClass.BY_NUMBER) or 0)


def test_the_report_has_a_row_for_each_variant() -> None:
    report = measure(2, [Variant("nothing", ranges=False, refresh=0.0, redis=False)])
    assert [row[0] for row in report.tables[0].rows] == ["nothing"]
    assert "node calls" in render.markdown(report)
