import pytest

from rpcaccel.controlplane.stats.history import Savings, method_points, point, spared
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
    saved = spared(tally.snapshot(), {})
    assert saved.calls == 12
    assert saved.seconds == pytest.approx(10 * 0.1 - 10 * 0.001)


def test_a_method_that_is_only_hit_now_is_measured_by_its_misses_of_before() -> None:
    before, now = Tally(["eth_call"]), Tally(["eth_call"])
    means: dict[tuple[str, str], float] = {}
    called(before, "eth_call", 1, AnswerSource.NODE, 0.2)
    spared(before.snapshot(), means)
    called(now, "eth_call", 5, AnswerSource.MEMORY, 0.0)
    assert spared(now.snapshot(), means) == Savings(5, 1.0)
    assert spared(now.snapshot(), {}) == Savings(5, 0.0)


def test_a_hit_that_is_slower_than_a_miss_spares_no_time() -> None:
    tally = Tally(["eth_call"])
    called(tally, "eth_call", 1, AnswerSource.NODE, 0.01)
    called(tally, "eth_call", 1, AnswerSource.REDIS, 0.02)
    assert spared(tally.snapshot(), {}) == Savings(1, 0.0)


def test_a_point_tells_hits_and_misses_apart_and_what_each_node_did() -> None:
    tally = Tally(["eth_call"])
    called(tally, "eth_call", 3, AnswerSource.MEMORY, 1e-5)
    called(tally, "eth_call", 2, AnswerSource.NODE, 0.01)
    tally.refused("not JSON")
    tally.node("s0", "idle")
    node = tally.node("s0", "a")
    for _ in range(3):
        node.sent()
    node.answered(0.01)
    node.answered(0.03)
    node.failed("timeout")
    made = point(tally.snapshot(), Savings(3, 0.1), 2.0, 5.0)
    assert (made.spared_calls, made.spared_seconds) == (3, 0.1)
    assert (made.calls, made.hits, made.turned_away, made.hit.count, made.miss.count) == (5, 3, 1, 3, 2)
    assert made.hit_p99 is not None
    assert made.miss_p50 is not None
    assert made.hit_p99 < 1e-4 < made.miss_p50
    (found,) = made.nodes.values()
    assert (found.calls, found.failures, found.answers) == (3, 1, 2)
    assert found.seconds == pytest.approx(0.04)


def test_only_methods_that_were_called_have_a_point() -> None:
    tally = Tally(["eth_call", "eth_gasPrice"])
    tally.cell("s0", "eth_gasPrice", CacheClass.HEAD)
    called(tally, "eth_call", 2, AnswerSource.MEMORY, 1e-5)
    tally.cell("s0", "eth_call", CacheClass.BY_NUMBER).done(AnswerSource.NODE, 0.01)
    at, methods = method_points(tally.snapshot(), Savings(), 5.0, 9.0)
    assert at == 9.0
    assert methods.keys() == {("s0", "eth_call")}
    found = methods["s0", "eth_call"]
    assert (found.calls, found.hits, found.seconds) == (3, 2, 5.0)
