import orjson
import pytest

from rpcaccel.controlplane.stats.history import History
from rpcaccel.controlplane.stats.series import columns, method_past, past
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.core.stats.tally import Tally
from tests.support.sample_view import NETWORK, SampleView


@pytest.fixture
def told() -> History:
    view, history = SampleView(), History()
    for second in range(32):
        view.advance(1.0, load=0.2)
        history.add(view.snapshot(), now=float(second), at=1000.0 + second)
    return history


@pytest.mark.parametrize(("over", "points"), [("5m", 31), ("1h", 3), ("24h", 1)])
def test_each_range_sums_up_the_same_past(told: History, over: str, points: int) -> None:
    document = past(told, over)
    assert document is not None
    sums = document["sums"][over]
    assert {len(column) for column in document["columns"].values()} == {points}
    assert sums["window"] == 31.0
    assert sums["calls_per_second"] == pytest.approx(0.2 * 686, rel=0.2)
    assert 0.7 < sums["hit_ratio"] < 0.95
    assert sums["hit"]["p99"] < sums["miss"]["p50"]
    assert sums["spared_calls"] > sums["node_calls"] > 0
    assert sums["spared_seconds"] > 1.0
    assert {node["id"] for node in document["nodes"]} == {"a", "b"}
    assert {len(node["calls_per_second"]) for node in document["nodes"]} == {points}
    assert orjson.loads(orjson.dumps(document)) == document


def test_what_the_cache_saved_is_the_same_in_each_range_that_covers_the_same_past() -> None:
    history, tally = History(), Tally(["eth_call"])
    cell = tally.cell(NETWORK, "eth_call", CacheClass.HEAD)
    for second in range(100):
        # A miss takes longer and longer, and is seen in one second of ten: means over unlike whiles would be unlike.
        if second % 10 == 5:
            cell.done(AnswerSource.NODE, 0.001 * second, 10)
        cell.done(AnswerSource.MEMORY, 1e-5, 10)
        history.add(tally.snapshot(), now=float(second), at=1000.0 + second)
    document = past(history, "1h")
    assert document is not None
    saved = [sums["spared_seconds"] for sums in document["sums"].values() if sums]
    assert saved == [pytest.approx(saved[0])] * 3
    # from the sixth second on, each hit at the last miss before it; the first snapshot is no point
    assert saved[0] == pytest.approx(sum(0.001 * (second - (second - 5) % 10) - 1e-5 for second in range(5, 100)))


def test_another_range_is_no_range(told: History) -> None:
    assert past(told, "1y") is None


def test_nothing_seen_has_no_sums() -> None:
    document = past(History(), "1h")
    assert document is not None
    assert (document["sums"]["24h"], document["nodes"], document["columns"]["at"]) == (None, [], [])


def test_a_quiet_while_has_no_ratio_and_no_latency() -> None:
    history = History()
    for second in range(2):
        history.add(Tally().snapshot(), now=float(second), at=float(second))
    made = columns(history.buckets())
    assert made["calls_per_second"] == [0.0]
    assert made["hit_ratio"] == made["miss_p99"] == [None]


def test_a_methods_past_is_told_by_columns(told: History) -> None:
    document = method_past(told, NETWORK, "hmyv2_getBlocks")
    assert len(document["at"]) == len(document["calls_per_second"]) == len(document["miss_p99"]) == 6
    assert document["calls_per_second"][0] == pytest.approx(32, rel=0.3)
    assert document["hit_p99"][0] < document["miss_p50"][0]
    assert method_past(told, NETWORK, "unheard_of")["calls_per_second"] == [0.0] * 6


def test_a_nodes_line_is_the_mean_of_ten_seconds_and_only_the_busiest_have_one() -> None:
    history, tally = History(), Tally()
    names = [f"n{number}" for number in range(12)]
    for second in range(21):
        for number, name in enumerate(names):
            for _ in range(number if second % 10 == 0 else 0):
                tally.node("s0", name).calls += 1
                tally.node("s0", name).answered(0.01 * (number + 1))
        history.add(tally.snapshot(), now=float(second), at=float(second))
    document = past(history, "5m")
    assert document is not None
    assert [node["id"] for node in document["nodes"]] == sorted(names[4:])
    (last,) = (node for node in document["nodes"] if node["id"] == "n11")
    assert last["calls_per_second"][-1] == pytest.approx(1.1)
    assert last["latency"][-1] == pytest.approx(0.12, rel=0.01)
    assert last["latency"][0] is None
