import pytest

from rpcaccel.controlplane.stats.buckets import bucket_of
from rpcaccel.controlplane.stats.history import History, spared
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.core.stats.tally import Tally


def called(tally: Tally, method: str, times: int, source: AnswerSource, seconds: float) -> None:
    for _ in range(times):
        tally.cell("s0", method, CacheClass.HEAD).done(source, seconds, 10)


def test_a_hit_spares_a_node_call_and_the_mean_miss_of_its_method() -> None:
    tally = Tally(["eth_call", "eth_gasPrice"])
    called(tally, "eth_call", 4, AnswerSource.NODE, 0.1)
    called(tally, "eth_call", 10, AnswerSource.MEMORY, 0.001)
    called(tally, "eth_gasPrice", 2, AnswerSource.FLIGHT, 0.5)
    calls, seconds = spared(tally.snapshot().cells, {})
    assert calls == 12
    assert seconds == pytest.approx(10 * 0.1 - 10 * 0.001)


def test_a_method_that_is_only_hit_now_is_measured_by_its_misses_of_before() -> None:
    before, now = Tally(["eth_call"]), Tally(["eth_call"])
    means: dict[tuple[str, str], float] = {}
    called(before, "eth_call", 1, AnswerSource.NODE, 0.2)
    spared(before.snapshot().cells, means)
    called(now, "eth_call", 5, AnswerSource.MEMORY, 0.0)
    assert spared(now.snapshot().cells, means) == (5, 1.0)
    assert spared(now.snapshot().cells, {}) == (5, 0.0)


def test_a_hit_that_is_slower_than_a_miss_spares_no_time() -> None:
    tally = Tally(["eth_call"])
    called(tally, "eth_call", 1, AnswerSource.NODE, 0.01)
    called(tally, "eth_call", 1, AnswerSource.REDIS, 0.02)
    assert spared(tally.snapshot().cells, {}) == (1, 0.0)


def test_a_subscribe_spares_no_node_call_and_is_no_part_of_the_hit_ratio() -> None:
    tally = Tally(["eth_call", "eth_subscribe"])
    called(tally, "eth_subscribe", 10, AnswerSource.LIVE, 0.001)
    alone = tally.snapshot().cells
    assert spared(alone, {}) == (0, 0.0)
    assert (bucket_of(alone, 1.0).calls, bucket_of(alone, 1.0).hit_ratio) == (10, None)
    called(tally, "eth_call", 3, AnswerSource.MEMORY, 0.001)
    called(tally, "eth_call", 1, AnswerSource.NODE, 0.1)
    called(tally, "eth_call", 2, AnswerSource.REFUSED, 0.1)
    assert bucket_of(tally.snapshot().cells, 1.0).hit_ratio == 0.75


def test_a_point_tells_hits_and_misses_apart_and_what_each_node_did() -> None:
    history, tally = History(), Tally(["eth_call"])
    history.add(tally.snapshot(), now=1.0, at=3.0)
    called(tally, "eth_call", 3, AnswerSource.MEMORY, 1e-5)
    called(tally, "eth_call", 2, AnswerSource.NODE, 0.01)
    tally.refused("not JSON")
    tally.node("s0", "idle")
    node = tally.node("s0", "a")
    for _ in range(3):
        node.calls += 1
    node.answered(0.01)
    node.answered(0.03)
    node.failed("timeout")
    history.add(tally.snapshot(), now=3.0, at=5.0)
    (made,) = history.buckets()
    assert (made.at, made.seconds, made.spared_calls) == (5.0, 2.0, 3)
    assert (made.calls, made.hits, made.turned_away, made.hit.count, made.miss.count) == (5, 3, 1, 3, 2)
    hit, miss = made.hit.quantile(0.99), made.miss.quantile(0.5)
    assert hit is not None
    assert miss is not None
    assert hit < 1e-4 < miss
    (found,) = made.nodes.values()
    assert (found.calls, found.failures, found.answers) == (3, 1, 2)
    assert found.seconds == pytest.approx(0.04)
