"""From counts to suggested weights and to the report."""

from __future__ import annotations

from typing import Any

import pytest

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.admin.admin_routes import ROUTES, describe
from rpcaccel.controlplane.documents.node_report import report
from rpcaccel.controlplane.documents.worth import Gathered
from rpcaccel.controlplane.stats.snapshot import NodeView
from rpcaccel.core.nodes.limits import QuotaUse
from tests.support.described_answers import problems, sent
from tests.support.watched_nodes import AT, METHODS, NETWORK, WatchedNodes

DESCRIPTION = describe(ROUTES, lambda _: None)


def reported(watched: WatchedNodes, over: Any = "hour") -> Any:
    return sent(report(watched.gathered(), over))


def whys(watched: WatchedNodes) -> dict[str, str]:
    return {id: one.why for id, one in watched.gathered().suggestions()[NETWORK].weights.items()}


@pytest.mark.parametrize("minutes", [0, 1, 70])
@pytest.mark.parametrize("over", ["hour", "day"])
def test_a_report_is_as_it_is_described(minutes: int, over: str) -> None:
    watched = WatchedNodes({"a": 0.02, "b": 0.06}, price=25.0)
    watched.more["b"] = {"quota": (QuotaUse(window="day", used=9, limit=90, since=AT, renews=AT + 9e4),)}
    watched.live(minutes)
    assert problems(DESCRIPTION, "GET", "/api/v1/nodes/report", reported(watched, over)) == []


def test_a_report_tells_what_each_node_did_and_what_it_is_worth() -> None:
    watched = WatchedNodes({"a": 0.02, "b": 0.06}, price=25.0)
    watched.live(70)
    node = watched.tally.node(NETWORK, "b")
    node.failed("timeout")
    node.failed("overtaken")
    node.failed("reverted")
    node.compared, node.minority, node.disproved = 9, 1, 2
    watched.live(1)
    told = reported(watched)
    assert (told["over"], told["seconds"], told["currency"]) == ("hour", 3600.0, "USD")
    a, b = told["nodes"]
    assert a["calls"] + b["calls"] == 7200
    assert b["share"] == pytest.approx(0.5, abs=0.02)
    assert {key: value for key, value in b["agreement"].items() if value} == {
        "compared": 9, "minority": 1, "disproved": 2}  # fmt: skip
    assert (b["errors"], b["failed"], b["overtaken"]) == ({"timeout": 1, "reverted": 1}, 1, 1), (
        "a lost hedge is no error"
    )
    assert b["cost"] == b["calls"] * 25 / 1e6
    assert b["latency"]["ratio"] == pytest.approx(3.0, rel=0.05)
    assert b["latency"]["low"] < b["latency"]["ratio"] < b["latency"]["high"]
    assert {one["method"] for one in b["latency"]["methods"]} == set(METHODS)
    assert b["latency"]["methods"][0]["others"] == pytest.approx(0.02, rel=0.05)
    assert a["suggested_weight"]["value"] == 3 * b["suggested_weight"]["value"]
    assert "of a for the same 3 methods" in b["suggested_weight"]["why"]
    (network,) = told["networks"]
    assert network["network"] == NETWORK
    assert network["gain"] == pytest.approx(0.25, rel=0.05)


def billed(watched: WatchedNodes, **quotas: Any) -> WatchedNodes:
    """The same nodes with these quotas, by id."""
    network = watched.settings.model_dump(mode="json")["networks"][NETWORK]
    nodes = [{"id": id, "url": f"http://{id}.example", "quota": quotas.get(id, {})} for id in watched.seconds]
    document = {"networks": {NETWORK: {"price": network["price"], "nodes": nodes}}}
    return WatchedNodes(watched.seconds, Settings.model_validate(document))


def test_a_node_with_costs_is_reported_in_its_units_and_its_cost_is_that_of_the_units() -> None:
    watched = billed(WatchedNodes({"a": 0.02, "b": 0.02}, price=25.0), a={"costs": {"*": 8, METHODS[0]: 2}, "day": 1e6})
    watched.more["a"] = {"quota": (QuotaUse(window="day", used=9, limit=1e6, since=AT, renews=AT + 9e4),)}
    watched.live(61)
    told = reported(watched)
    a, b = told["nodes"]
    assert a["credits"] == pytest.approx(a["calls"] * 6, rel=0.05)
    assert (a["unit"], b["unit"], b["credits"]) == ("units", "calls", None)
    assert a["cost"] == a["credits"] * 25 / 1e6
    assert b["cost"] == b["calls"] * 25 / 1e6
    (quota,) = a["quota"]
    left = quota["renews"]
    assert left
    assert quota["projected"] == pytest.approx(9 + a["credits"] / 3600 * (AT + 9e4 - watched.at), rel=0.01)
    assert problems(DESCRIPTION, "GET", "/api/v1/nodes/report", told) == []


def test_a_node_whose_credits_run_out_before_they_renew_gets_fewer_calls() -> None:
    quota = QuotaUse(window="month", used=0, limit=1e6, since=AT, renews=AT + 5e5)
    cheap, dear = ({"month": 1e6, "costs": {"*": units}} for units in (1, 26))
    weights = {}
    for name, costs in (("cheap", cheap), ("dear", dear)):
        watched = billed(WatchedNodes({"a": 0.02, "b": 0.06}), a=costs)
        watched.more["a"] = {"quota": (quota,)}
        watched.live(70)
        suggestion = watched.gathered().suggestions()[NETWORK].weights
        weights[name] = suggestion["a"].value / suggestion["b"].value
        if name == "dear":
            assert "what is left of its quota of this month" in suggestion["a"].why
    assert weights["dear"] < 1 < weights["cheap"]


def test_nothing_seen_is_nothing_known() -> None:
    told = reported(WatchedNodes({"a": 0.02, "b": 0.06}))
    (a, _), (network,) = told["nodes"], told["networks"]
    assert (a["calls"], a["share"], a["cost"], a["suggested_weight"]) == (0, None, None, None)
    assert (a["latency"]["p50"], a["latency"]["ratio"], a["latency"]["methods"]) == (None, None, [])
    assert network["gain"] is None
    assert network["why"].startswith("too early to compare: 2,000 calls or 20 min are needed of each node")


def test_a_quota_is_projected_to_its_end_at_the_pace_of_the_report() -> None:
    watched = WatchedNodes({"a": 0.02, "b": 0.06})
    watched.live(60)
    use = QuotaUse(window="day", used=5000, limit=50_000, since=AT, renews=watched.at + 36_000)
    watched.more["a"] = {"quota": (use,)}
    (quota,) = reported(watched)["nodes"][0]["quota"]
    assert quota["projected"] == pytest.approx(5000 + 36_000, rel=0.03), "one of two calls a second"


def test_heavy_calls_count_as_many_in_a_quota_as_the_settings_say() -> None:
    quota = {"day": 1e6, "heavy": 20.0}
    nodes = [{"id": "a", "url": "http://a.example", "quota": quota}, {"id": "b", "url": "http://b.example"}]
    watched = WatchedNodes({"a": 0.02, "b": 0.06}, nodes=nodes)
    cell = watched.tally.node(NETWORK, "a")
    cell.calls += 200
    cell.answered(0.02, count=200, methods=[*["hmyv2_getBalance"] * 100, *["hmyv2_getBlocks"] * 100])
    watched.live(1, calls=0)
    use = QuotaUse(window="day", used=0, limit=1e6, since=AT, renews=watched.at + 60.0)
    watched.more["a"] = {"quota": (use,)}
    (told,) = reported(watched)["nodes"][0]["quota"]
    assert told["projected"] == pytest.approx(100 * 20 + 100)


@pytest.mark.parametrize(
    ("used", "window", "why"),
    [
        (49_000, "day", "(what is left of its quota of this day)"),
        (999_000, "month", "(what is left of its quota of this month)"),
    ],
)
def test_a_node_gets_no_more_than_its_quota_lasts_for(used: float, window: Any, why: str) -> None:
    watched = WatchedNodes({"a": 0.02, "b": 0.06})
    watched.live(60)
    use = QuotaUse(window=window, used=used, limit=used + 1000, since=AT, renews=watched.at + 10_000)
    watched.more["a"] = {"quota": (use,)}
    suggestion = watched.gathered().suggestions()[NETWORK]
    assert whys(watched)["a"].endswith(f"takes at most 0.095 calls a second {why}")
    share = suggestion.weights["a"].value / sum(one.value for one in suggestion.weights.values())
    assert share == pytest.approx(0.25, abs=0.001), "one step halves it"
    assert suggestion.why.startswith("a gets more calls than it can take; ")


def test_a_node_that_refuses_calls_for_their_rate_is_given_what_it_has_taken() -> None:
    watched = WatchedNodes({"a": 0.02, "b": 0.06, "c": 0.2})
    watched.live(30)
    node = watched.tally.node(NETWORK, "a")
    for _ in range(400):
        node.calls += 1
        node.failed("rate-limited")
    watched.live(1)
    assert whys(watched)["a"].endswith("calls a second (it refused 24% of its calls)")


def test_refusals_of_calls_that_were_sent_before_the_hour_are_no_more_than_those_of_the_hour() -> None:
    watched = WatchedNodes({"a": 0.02, "b": 0.06})
    watched.live(1, calls=0)
    watched.tally.node(NETWORK, "a").failed("rate-limited")
    watched.live(1, calls=0)
    assert watched.gathered().suggestions()[NETWORK].why.startswith("too early to compare")


def test_idle_time_is_not_counted() -> None:
    """What is left of a quota is spent in busy minutes alone, and minutes without calls are no evidence."""
    limits, found = {0: "0.5", 40: "1.5"}, {}
    for idle in limits:
        watched = WatchedNodes({"a": 0.02, "b": 0.06})
        watched.live(15)
        watched.live(idle, calls=0)
        assert whys(watched) == {}, "seen in 15 minutes"
        watched.live(5)
        use = QuotaUse(window="day", used=0, limit=1000 / 0.95, since=AT, renews=watched.at + 2000.0)
        watched.more["a"] = {"quota": (use,)}
        found[idle] = whys(watched)["a"].partition("takes at most ")[2].partition(" calls")[0]
    assert found == limits


def test_a_quota_of_a_second_is_filled_and_no_more() -> None:
    nodes = [{"id": "a", "url": "http://a.example", "quota": {"second": 0.5}}, {"id": "b", "url": "http://b.example"}]
    watched = WatchedNodes({"a": 0.02, "b": 0.06}, nodes=nodes)
    watched.live(60)
    assert whys(watched)["a"].endswith("takes at most 0.5 calls a second (its quota a second)")


def test_where_a_balancer_looks_at_more_than_weights_the_sentence_says_so() -> None:
    watched = WatchedNodes({"a": 0.02, "b": 0.06}, balancer="peak_ewma")
    watched.more = {id: {"share_aim": "shares by latency"} for id in "ab"}
    watched.live(60)
    why = watched.gathered().suggestions()[NETWORK].why
    assert why.endswith("; peak_ewma aims at shares by latency, so it may come otherwise")


def test_a_suspected_node_is_told_as_such_and_is_given_no_further_calls() -> None:
    watched = WatchedNodes({"a": 0.02, "b": 0.06, "c": 0.06})
    watched.live(60)
    assert whys(watched)["a"].startswith("19.9 ms against 60 ms of c")
    watched.more["a"] = {"suspect": True}
    assert whys(watched) == {}
    told = sent(report(watched.gathered(), "hour"))
    assert [node["agreement"]["suspect"] for node in told["nodes"]] == [True, False, False]


def test_a_cordoned_node_has_no_suggested_weight_and_a_drained_one_keeps_its_own_beside_the_others() -> None:
    watched = WatchedNodes({"a": 0.02, "b": 0.06, "c": 0.02})
    watched.live(60)
    watched.more["c"] = {"state": "drained"}
    assert whys(watched)["c"].startswith("not judged, because it is drained: 2 is beside")
    watched.more["a"] = {"weight": 0, "state": "cordoned"}
    assert whys(watched) == {}


def test_a_fault_in_one_network_costs_the_others_nothing() -> None:
    nodes = {"nodes": [{"id": "a", "url": "http://a.example"}, {"id": "b", "url": "http://b.example"}]}
    settings = Settings.model_validate({"networks": {NETWORK: nodes, "other": {"chain": "ethereum", **nodes}}})
    watched = WatchedNodes({"a": 0.02, "b": 0.06}, settings)
    watched.live(30)
    broken = NodeView(network="other", id="a", weight=1, quota=(None,))  # type: ignore[arg-type]
    gathered = Gathered(watched.history.nodes, [*watched.views(), broken], settings, watched.at)
    found = gathered.suggestions()
    assert found[NETWORK].weights
    assert found["other"].why == "these weights could not be judged because of an error: the log has it"
