"""What a proxy counted between two readings of its metrics."""

from __future__ import annotations

from collections import Counter

import pytest

import rpcaccel
from rpcaccel.bench.report.proxy_figures import NodeWork, ProxyReading, TierUse, between, read
from rpcaccel.controlplane.stats.buckets import bucket_of
from rpcaccel.controlplane.stats.prometheus import render
from rpcaccel.controlplane.stats.summaries import Readings, figures
from rpcaccel.core.stats.counters import bump
from rpcaccel.core.stats.histogram import Histogram
from tests.support.sample_view import SampleView


def reading(view: SampleView, at: float = 0.0) -> ProxyReading:
    return read(render(view.frame()).decode(), at)


def shown(view: SampleView) -> Readings:
    """The readings that the admin API would tell of all that was counted."""
    return figures(bucket_of(view.snapshot().cells, 10.0))


def test_the_figures_of_a_run_are_those_that_the_admin_api_tells_of_it() -> None:
    view = SampleView()
    before = reading(view, 100.0)
    view.advance(10.0)
    view.fail(7)
    view.fail(5, by_client=True)
    found, told = between(before, reading(view, 110.0)), shown(view)
    assert (found.version, found.seconds) == (rpcaccel.__version__, 10.0)
    assert found.requests == view.tally.requests
    assert (found.calls, found.hit.count, found.hit_ratio) == (told.calls, told.hits, told.hit_ratio)
    assert (found.outcomes["error"], found.outcomes["client_error"]) == (told.errors, told.client_errors)
    for mine, theirs in ((found.hit, told.hit), (found.miss, told.miss)):
        assert theirs is not None
        assert (mine.count, mine.quantile(0.5), mine.quantile(0.99)) == (theirs.count, theirs.p50, theirs.p99)
    assert found.mean is not None
    assert not found.restarted


def test_what_was_counted_before_the_run_is_not_in_its_figures() -> None:
    view = SampleView()
    view.advance(60.0)
    bump(view.tally.node("harmony-s0", "a").failures, "timeout")
    before, calls, requests = reading(view), shown(view).calls, view.tally.requests
    nodes = {node.node: node for node in view.snapshot().nodes}
    view.advance(5.0)
    bump(view.tally.node("harmony-s0", "a").failures, "timeout")
    found = between(before, reading(view))
    assert (found.requests, found.calls) == (view.tally.requests - requests, shown(view).calls - calls)
    assert {node.name: node.calls for node in found.nodes} == {
        node.node: node.calls - nodes[node.node].calls for node in view.snapshot().nodes
    }
    assert {node.name: Counter(node.failures) for node in found.nodes} == {
        node.node: Counter(node.failures) - Counter(nodes[node.node].failures) for node in view.snapshot().nodes
    }
    assert found.nodes[0].failures["timeout"] >= 1
    assert all(node.latency.count <= node.calls for node in found.nodes)
    (memory,) = [tier for tier in found.tiers if tier.name == "memory"]
    assert (memory.entries, memory.size, memory.limit) == (41_800, 187_000_000, 256_000_000)


def test_a_proxy_that_was_started_again_is_told_of_since_its_start() -> None:
    old, new = SampleView(), SampleView()
    old.advance(60.0)
    new.advance(3.0)
    found = between(reading(old), reading(new))
    assert (found.restarted, found.requests, found.calls) == (True, new.tally.requests, shown(new).calls)


def test_nodes_of_several_networks_are_told_apart_and_figures_of_all_are_added_up() -> None:
    text = """rpcaccel_requests_total 5
rpcaccel_calls_total{method="a",network="x",outcome="ok"} 2
rpcaccel_calls_total{method="b",network="y",outcome="ok"} 3
rpcaccel_node_calls_total{network="x",node="n"} 2
rpcaccel_node_calls_total{network="y",node="n"} 3
rpcaccel_tier_entries{tier="memory"} 4
rpcaccel_process_cpu_seconds_total{worker="w1"} 1.5
rpcaccel_process_resident_memory_bytes{worker="w1"} 7e7
rpcaccel_workers_replaced_total{reason="died"} 2
"""
    found = between(read("rpcaccel_requests_total 0\n", 0.0), read(text, 3.0))
    assert found.nodes == [NodeWork("x/n", 2, Histogram()), NodeWork("y/n", 3, Histogram())]
    assert found.outcomes == {"ok": 5}
    assert found.tiers == [TierUse("memory", 4, 0, 0, 0, 0, 0)]
    (process,) = found.processes
    assert (process.name, process.cpu, process.resident) == ("w1", 1.5, 70_000_000)
    assert (found.replaced, found.hit_ratio, found.mean) == (2, None, None)


@pytest.mark.parametrize("text", ["", "up 1\n", "<html>\n", "rpcaccel_requests_total{ 1\n"])
def test_what_is_no_metrics_of_a_proxy_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (the parser's own words)
        read(text, 0.0)
