from pathlib import Path
from typing import Any

import orjson
import pytest

from rpcaccel.config.model import NetworkSettings
from rpcaccel.config.resilience import RouteSettings
from rpcaccel.controlplane.documents.series import PastQuestion, client_past, columns, method_past, past
from rpcaccel.controlplane.stats.history import History
from rpcaccel.controlplane.stats.spared_costs import SparedCosts
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.counters import AnswerSource, bump
from rpcaccel.core.stats.histogram import BOUNDS
from rpcaccel.core.stats.tally import Tally
from tests.support.described_answers import sent
from tests.support.sample_view import NETWORK, SampleView


@pytest.fixture
def told() -> History:
    view, history = SampleView(), History()
    for second in range(32):
        view.advance(1.0, load=0.2)
        history.add(view.snapshot(), now=float(second), at=1000.0 + second)
    return history


@pytest.mark.parametrize("over", ["5m", "1h", "24h", "7d"])
def test_each_range_sums_up_the_same_past(told: History, over: str) -> None:
    points = 31  # of a young program, long ranges have the fine points, too
    document = sent(past(told, PastQuestion(over)))
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
    document = sent(past(history, PastQuestion("1h")))
    saved = [sums["spared_seconds"] for sums in document["sums"].values() if sums]
    assert saved == [pytest.approx(saved[0])] * 4
    # from the sixth second on, each hit at the last miss before it; the first snapshot is no point
    assert saved[0] == pytest.approx(sum(0.001 * (second - (second - 5) % 10) - 1e-5 for second in range(5, 100)))


def test_another_range_is_no_range(told: History) -> None:
    assert sent(past(told, PastQuestion("1y"))) is None


def test_nothing_seen_has_no_sums() -> None:
    document = sent(past(History(), PastQuestion("1h")))
    assert (document["sums"]["24h"], document["nodes"], document["columns"]["at"]) == (None, [], [])


def test_a_quiet_while_has_no_ratio_and_no_latency() -> None:
    history = History()
    for second in range(2):
        history.add(Tally().snapshot(), now=float(second), at=float(second))
    made = sent(columns(history.points()))
    assert made["calls_per_second"] == [0.0]
    assert made["hit_ratio"] == made["miss_p99"] == [None]


def test_a_methods_past_is_told_by_columns(told: History) -> None:
    document = sent(method_past(told, NETWORK, "hmyv2_getBlocks"))
    assert len(document["at"]) == len(document["calls_per_second"]) == len(document["miss_p99"]) == 6
    assert document["calls_per_second"][0] == pytest.approx(32, rel=0.3)
    assert document["hit_p99"][0] < document["miss_p50"][0]
    assert sent(method_past(told, NETWORK, "unheard_of"))["calls_per_second"] == [0.0] * 6


def test_a_nodes_line_is_the_mean_of_ten_seconds_and_only_the_busiest_have_one() -> None:
    history, tally = History(), Tally()
    names = [f"n{number}" for number in range(12)]
    for second in range(21):
        for number, name in enumerate(names):
            for _ in range(number if second % 10 == 0 else 0):
                tally.node("s0", name).calls += 1
                tally.node("s0", name).answered(0.01 * (number + 1))
        history.add(tally.snapshot(), now=float(second), at=float(second))
    document = sent(past(history, PastQuestion("5m")))
    assert [node["id"] for node in document["nodes"]] == sorted(names[4:])
    (last,) = (node for node in document["nodes"] if node["id"] == "n11")
    assert last["calls_per_second"][-1] == pytest.approx(1.1)
    assert last["latency"][-1] == pytest.approx(0.12, rel=0.01)
    assert last["latency"][0] is None


def lived(seconds: int = 30, networks: tuple[str, ...] = ("s0", "s1"), begin: float = 1000.0) -> History:
    """Two networks: the second one has twice the calls; of four, one is a hit and three are asked of a node."""
    history, tally = History(), Tally(["eth_call"])
    history.add(tally.snapshot(), now=0.0, at=begin)
    for second in range(1, seconds + 1):
        for times, network in enumerate(networks, 1):
            cell = tally.cell(network, "eth_call", CacheClass.HEAD)
            for _ in range(times):
                cell.done(AnswerSource.MEMORY, 1e-5)
                cell.done(AnswerSource.NODE, 0.1)
                cell.done(AnswerSource.NODE, 0.1, failed=True, by_client=True)
                cell.done(AnswerSource.NODE, 70.0, failed=True)
                cell.done(AnswerSource.REFUSED, 1e-5, failed=True)
                bump(tally.network(network).failed, "-32000")
                tally.node(network, "a").calls += 3
        history.add(tally.snapshot(), now=float(second), at=begin + second)
    return history


@pytest.mark.parametrize(("network", "times"), [("", 3), ("s0", 1), ("s1", 2)])
def test_a_network_by_itself_and_all_together_are_told_apart_by_how_calls_ended(network: str, times: int) -> None:
    document = sent(past(lived(), PastQuestion("5m", network)))
    assert {name: column[-1] for name, column in document["outcomes"].items()} == dict.fromkeys(
        ("hits", "nodes", "client_errors", "errors", "refused"), float(times)
    )
    assert document["columns"]["calls_per_second"][-1] == 5.0 * times
    assert {code: column[-1] for code, column in document["codes"].items()} == {"-32000": float(times)}
    assert document["columns"]["node_calls_per_second"][-1] == 3.0 * times
    assert {node["network"] for node in document["nodes"]} == ({network} if network else {"s0", "s1"})


def test_an_error_that_the_proxy_answered_itself_is_no_hit() -> None:
    history, tally = History(), Tally(["eth_call"])
    history.add(tally.snapshot(), now=0.0, at=1000.0)
    cell = tally.cell("s0", "eth_call", CacheClass.HEAD)
    cell.done(AnswerSource.LOCAL, 1e-5, failed=True, by_client=True)
    cell.done(AnswerSource.LOCAL, 1e-5)
    history.add(tally.snapshot(), now=1.0, at=1001.0)
    document = sent(past(history, PastQuestion()))
    assert (document["outcomes"]["hits"], document["outcomes"]["client_errors"]) == ([1.0], [1.0])
    assert document["outcomes"]["nodes"] == [0.0]


def test_latency_is_a_matrix_of_a_fixed_height_that_counts_every_answer_once() -> None:
    document = sent(past(lived(), PastQuestion("5m", "s0")))
    heat = document["latency"]
    assert len(heat["bounds"]) <= 20
    assert set(heat["bounds"]) <= set(BOUNDS)
    assert heat["hits"][-1][heat["bounds"].index(20e-6)] == 1
    assert heat["misses"][-1][heat["bounds"].index(0.1)] == 2
    assert heat["misses"][-1][-1] == 1, "what is longer than the last bound is in the last row"
    assert sum(heat["misses"][-1]) == 3


def test_a_part_of_the_past_is_told_by_the_finest_points_that_there_are_of_it() -> None:
    history = lived(seconds=700)
    recent = sent(past(history, PastQuestion("24h", since=1650.0, until=1660.0)))
    assert (recent["range"], recent["spacing"]) == ("5m", 1.0)
    assert recent["columns"]["at"] == [1650.0 + second for second in range(1, 11)]
    older = sent(past(history, PastQuestion("24h", since=1200.0, until=1260.0)))
    assert (older["range"], older["spacing"]) == ("1h", 15.0)
    assert 1200.0 < older["columns"]["at"][0] <= older["columns"]["at"][-1] < 1260.0 + 15.0
    before = sent(past(history, PastQuestion("24h", since=1.0, until=2.0)))
    assert before["columns"]["at"] == []
    assert before["sums"]["24h"]["calls"] > 0, "sums are of whole ranges"


def test_what_the_cache_saved_has_its_price_where_the_operator_said_one() -> None:
    history = lived()
    free = sent(past(history, PastQuestion("1h")))
    assert (free["sums"]["1h"]["spared_cost"], free["sums"]["1h"]["node_cost"]) == (None, None)
    for network, spared, made in (("", 60, 180), ("s1", 60, 180), ("s0", None, None)):
        document = sent(past(history, PastQuestion("1h", network), {"s0": 0.0, "s1": 2_000_000.0}, "EUR"))
        sums = document["sums"]["1h"]
        assert (sums["spared_cost"], sums["node_cost"], document["currency"]) == (
            None if spared is None else 2.0 * spared,
            None if made is None else 2.0 * made,
            "EUR",
        )


def networks(**nodes: list[dict[str, Any]]) -> dict[str, NetworkSettings]:
    return {
        name: NetworkSettings.model_validate(
            {
                "chain": "ethereum",
                "nodes": [{"id": f"n{i}", "url": "http://n.example", **one} for i, one in enumerate(some)],
            }
        )
        for name, some in nodes.items()
    }


def credited(history: History, tally: Tally, seconds: int = 40) -> History:
    """Each second two calls to a node of s0 that cost 26 units each, one to a node that costs none, and three hits."""
    history.add(tally.snapshot(), now=0.0, at=1000.0)
    for second in range(1, seconds + 1):
        billed, free = tally.node("s0", "billed"), tally.node("s0", "free")
        billed.calls, billed.credits, billed.credited = 2 * second, 52.0 * second, 2 * second
        free.calls = second
        for _ in range(3):
            tally.cell("s0", "eth_call", CacheClass.HEAD).done(AnswerSource.MEMORY, 1e-5)
        history.add(tally.snapshot(), now=float(second), at=1000.0 + second)
    return history


def test_credits_are_what_calls_cost_and_what_saved_calls_would_have_cost_by_the_weights(tmp_path: Path) -> None:
    history = History()
    history.cost(networks(s0=[{"weight": 3, "quota": {"costs": {"eth_call": 26}}}, {"weight": 1}], s1=[{}]))
    credited(history, Tally(["eth_call"]))
    history.save(tmp_path / "saved")
    again = History()
    again.table.load(tmp_path / "saved")
    again.until = history.until
    again.cost(history.costs.networks)
    for told, over in ((history, "5m"), (history, "1h"), (again, "1h")):
        sums = sent(past(told, PastQuestion("1h"), {"s0": 2e6}))["sums"][over]
        assert (sums["node_calls"], sums["node_credits"]) == (120, 40 * 52)
        assert (sums["spared_calls"], sums["spared_credits"]) == (120, 120 * 26 * 3 / 4)
        assert sums["node_cost"] == 2 * (40 * 52 + 40), "a call to a node without costs is one unit"
        assert sums["spared_cost"] == 2 * 120 * (26 * 3 + 1) / 4
    other = sent(past(history, PastQuestion("1h", "s1"), {"s0": 2e6}))["sums"]["1h"]
    assert (other["node_credits"], other["spared_credits"]) == (None, None)


def test_a_past_without_costs_is_reckoned_in_calls_once_there_are_some() -> None:
    history, tally = History(), Tally(["eth_call"])
    history.add(tally.snapshot(), now=0.0, at=960.0)
    tally.node("s0", "billed").calls = 10
    history.add(tally.snapshot(), now=1.0, at=961.0)
    history.cost(networks(s0=[{"quota": {"costs": {"eth_call": 26}}}]))
    tally.node("s0", "billed").calls = 11
    tally.node("s0", "billed").credits, tally.node("s0", "billed").credited = 26.0, 1
    history.add(tally.snapshot(), now=2.0, at=962.0)
    sums = sent(past(history, PastQuestion("1h"), {"s0": 1e6}))["sums"]["1h"]
    assert (sums["node_credits"], sums["node_cost"]) == (26, 36)


@pytest.mark.parametrize(
    ("nodes", "cost"),
    [
        ([{"quota": {"costs": {"*": 5}}}, {"quota": {"costs": {"*": 9}}}], (7.0, 1.0)),
        ([{"quota": {"costs": {"*": 5}}, "weight": 3}, {"quota": {"costs": {"*": 9}}, "weight": 1}], (6.0, 1.0)),
        ([{}, {"tier": 1, "quota": {"costs": {"*": 9}}}], (0.0, 0.0)),
        ([{"drain": True}, {"tier": 1, "quota": {"costs": {"*": 9}}}], (9.0, 1.0)),
        ([{"weight": 1}, {"weight": 0, "quota": {"costs": {"*": 9}}}], (0.0, 0.0)),
        ([{}, {}], (0.0, 0.0)),
    ],
)
def test_a_saved_call_would_have_gone_to_the_lowest_tier_by_its_weights(
    nodes: list[dict[str, Any]], cost: tuple[float, float]
) -> None:
    assert SparedCosts(networks(s0=nodes)).of("s0", "eth_call") == cost


def test_a_saved_call_that_is_routed_would_have_gone_to_the_nodes_with_the_tag() -> None:
    (made,) = networks(s0=[{}, {"tags": ["archive"], "quota": {"provider": "infura"}}]).values()
    routed = made.model_copy(update={"routes": (RouteSettings(methods=("eth_getLogs",), tag="archive"),)})
    costs = SparedCosts({"s0": routed})
    assert costs.of("s0", "eth_getLogs") == (255.0, 1.0)
    assert costs.of("s0", "eth_call") == (40.0, 0.5)
    assert repr(costs) == "<SparedCosts of 1 networks>"


def test_of_many_error_codes_the_most_frequent_have_a_column_and_the_rest_is_one() -> None:
    history, tally = History(), Tally()
    history.add(tally.snapshot(), now=0.0, at=1000.0)
    for code in range(12):
        for _ in range(code + 1):
            bump(tally.network("s0").failed, str(-code))
    history.add(tally.snapshot(), now=1.0, at=1001.0)
    document = sent(past(history, PastQuestion()))
    assert list(document["codes"]) == ["-11", "-10", "-9", "-8", "-7", "-6", "-5", "other"]
    assert document["codes"]["other"] == [15.0]


def test_a_clients_past_is_told_by_the_same_columns_and_what_was_refused_by_reason() -> None:
    history, tally = History(), Tally(["eth_call"])
    history.add(tally.snapshot(), now=0.0, at=1000.0)
    for second in range(1, 100):
        cell = tally.client("dapp")
        cell.calls += 2
        cell.answered("eth_call", AnswerSource.MEMORY, 1e-5)
        cell.refused("rate")
        history.add(tally.snapshot(), now=float(second), at=1000.0 + second)
    document = sent(client_past(history, "dapp", "1h"))
    assert document["seconds"] == [20.0, 60.0, 19.0]
    assert (document["outcomes"]["hits"], document["outcomes"]["refused"]) == ([1.0] * 3, [1.0] * 3)
    assert document["limited"] == {"rate": [1.0] * 3}
    assert (document["whole"]["calls"], document["whole"]["hit_ratio"]) == (198, 1.0)
    assert sent(client_past(history, "dapp", "5m")) is None
    quiet = sent(client_past(history, "nobody", "24h"))
    assert quiet["outcomes"]["hits"] == [0.0]


def test_notifications_are_a_column_of_their_network_in_every_range_though_nobody_calls() -> None:
    history, tally = History(), Tally()
    for second in range(40):
        tally.network("s0").delivered = {"newHeads": 6 * second, "logs": 4 * second}
        tally.network("s1").delivered = {"logs": second}
        history.add(tally.snapshot(), now=float(second), at=1000.0 + second)
    for network, rate in (("s0", 10.0), ("s1", 1.0), ("", 11.0)):
        for over in ("5m", "1h"):
            shown = sent(columns(history.buckets(over, network)))["notifications_per_second"]
            assert len(shown) >= 3
            assert set(shown) == {rate}, (network, over)
