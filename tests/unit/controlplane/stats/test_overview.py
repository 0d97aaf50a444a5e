"""The overview: what a node is doing, in a word and a sentence, and sums that never fall."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from rpcaccel import balancers
from rpcaccel.config.model import Settings
from rpcaccel.controlplane.stats.snapshot import SupervisorView
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead, Served
from rpcaccel.core.messages import NodeReport, WorkerReport
from rpcaccel.core.nodes.limits import QuotaUse
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.tally import Tally

NOW = 100.0


class Told:
    """A link of which only the report matters."""

    def __init__(self, report: WorkerReport | None) -> None:
        self._report = report
        self.asked = 0

    def report(self) -> WorkerReport | None:
        self.asked += 1
        return self._report


def node_report(**more: Any) -> NodeReport:
    plain = {"network": "n", "id": "a", "head": 10, "in_flight": 0, "breaker": "closed"}
    return NodeReport(**{**plain, "latency": None, "parked": 0.0, "refusal": "", **more})  # type: ignore[arg-type]


def report(*nodes: NodeReport, calls: int = 0, warnings: tuple[tuple[str, str], ...] = ()) -> WorkerReport:
    tally = Tally(["eth_call"])
    for _ in range(calls):
        tally.cell("n", "eth_call", CacheClass.BY_NUMBER).done(1, 0.001)
    return WorkerReport(
        worker="w1",
        pid=7,
        revision=3,
        uptime=5.0,
        port=80,
        tally=tally.snapshot(),
        nodes=nodes,
        flights=0,
        warnings=warnings,
    )


def overview(
    node: dict[str, Any],
    head: NodeHead | None,
    *reports: WorkerReport,
    served: int = 10,
    clock: Callable[[], float] = lambda: NOW,
) -> SupervisorView:
    settings = Settings.model_validate(
        {"networks": {"n": {"nodes": [{"id": "a", "url": "http://user:secret@h.example:1/key", **node}]}}}
    )
    heads = {}
    if head is not None:
        heads["n"] = NetworkHeads(network="n", served=Served(head=served, final=served, since=NOW - 2), nodes=(head,))
    links: Any = [Told(made) for made in reports] or [Told(None)]
    return SupervisorView(
        lambda: settings,
        heads.get,
        links,
        clock=clock,
        quotas=lambda _network, _node, told: tuple(use for report in told for use in report.quota),
    )


def told(**more: Any) -> NodeHead:
    return NodeHead(**{"id": "a", "head": 10, "chain_ok": True, "answering": True, "seen_at": NOW - 1, **more})


SPENT = QuotaUse(window="day", used=50, limit=50, since=0, renews=86_400)


@pytest.mark.parametrize(
    ("node", "head", "reported", "state", "word"),
    [
        ({}, told(), {}, "serving", ""),
        ({}, told(chain_ok=False, note="it serves chain 5"), {}, "wrong-chain", "it serves chain 5"),
        ({"drain": True}, told(), {}, "drained", "until draining is switched off"),
        ({"weight": 0}, told(), {}, "cordoned", "until it has a weight"),
        ({}, None, {}, "unknown", "has not told its head"),
        ({}, told(head=-1), {}, "unknown", "has not told its head"),
        (
            {},
            told(answering=False, note="no connection"),
            {},
            "failing",
            "no connection; it gets calls until those fail too",
        ),
        (
            {},
            told(answering=False, chain_ok=None, note="no connection"),
            {"refusal": "has not said which chain it serves"},
            "failing",
            "no connection; it gets trials only, and calls without a better node",
        ),
        (
            {},
            told(answering=False, barred="HTTP 401", note="it does not let us in: HTTP 401"),
            {"refusal": "look at its key: HTTP 401"},
            "failing",
            "look at its key: HTTP 401",
        ),
        ({}, told(), {"breaker": "open", "refusal": "it failed too often"}, "failing", "it failed too often"),
        ({}, told(), {"breaker": "half-open"}, "failing", "trials show whether it is well again"),
        ({}, told(), {"parked": 3.0, "refusal": "it limits our rate"}, "parked", "it limits our rate"),
        ({}, told(examining=True), {"refusal": "it is examined"}, "examining", "it gets calls once that has ended"),
        ({}, told(), {"rests": "it limits the rate of m"}, "serving", "it limits the rate of m"),
        ({}, told(head=7, behind=True), {}, "behind", "3 blocks behind: it gets no calls about newer blocks until"),
        (
            {},
            told(head=7, behind=True, note="its head has not moved for 60 s"),
            {},
            "behind",
            "it is 3 blocks behind (its head has not moved for 60 s)",
        ),
        ({}, told(head=9, behind=True), {}, "behind", "it is 1 block behind:"),
        ({}, told(head=10, behind=True, late=1.94), {}, "behind", "new blocks reach it 1.9 s after the others"),
        ({}, told(head=10, behind=True), {}, "behind", "it has caught up a moment ago: it counts again once"),
        ({}, told(head=9), {}, "serving", ""),
        ({}, told(), {"ejected": 7.0, "refusal": "it is much slower than the others"}, "failing", "it is much slower"),
        ({}, told(), {"quota": (SPENT,), "refusal": "it has used up its quota"}, "parked", "it has used up its quota"),
    ],
)
def test_a_nodes_state_is_a_word_and_a_sentence(
    node: dict[str, Any], head: NodeHead | None, reported: dict[str, Any], state: str, word: str
) -> None:
    (seen,) = overview(node, head, report(node_report(**reported))).frame().nodes
    assert seen.state == state
    assert word in seen.why


def test_a_node_takes_calls_though_it_lacks_the_newest_block_until_the_probes_call_it_behind() -> None:
    (brief,) = overview({}, told(head=9), report(node_report())).frame().nodes
    assert (brief.state, brief.eligible, brief.lag) == ("serving", True, 1)
    (lasting,) = overview({}, told(head=9, behind=True), report(node_report())).frame().nodes
    assert (lasting.state, lasting.eligible, lasting.lag) == ("behind", False, 1)


def test_a_node_takes_no_calls_before_its_head_is_known_or_where_a_worker_would_not_ask_it() -> None:
    well, parked = node_report(), node_report(parked=3.0, refusal="it limits our rate")
    assert not overview({}, None, report(well)).frame().nodes[0].eligible
    assert not overview({}, told()).frame().nodes[0].eligible
    assert not overview({}, told(), report(well), report(parked)).frame().nodes[0].eligible
    assert overview({}, told(), report(well), report(well)).frame().nodes[0].eligible


@pytest.mark.parametrize(
    ("settings", "measured", "shown"),
    [
        ({}, None, None),
        ({}, 6.0, 6.0),
        ({"block_time": 3.0}, None, 3.0),
        ({"block_time": 3.0}, 6.0, 3.0),
    ],
)
def test_the_block_time_is_the_operators_else_the_measured_one(
    settings: dict[str, Any], measured: float | None, shown: float | None
) -> None:
    made = Settings.model_validate({"networks": {"n": {"nodes": ["http://a.example"], **settings}}})
    heads = {"n": NetworkHeads(network="n", served=Served(head=10), block_time=measured)}
    assert SupervisorView(lambda: made, heads.get, []).frame().heads[0].block_time == shown


def test_an_address_shows_neither_user_nor_key() -> None:
    (seen,) = overview({}, told(), report(node_report())).frame().nodes
    assert seen.address == "h.example:1"
    assert "secret" not in str(overview({}, told()).settings())


def test_a_frame_is_made_of_one_account_of_each_worker() -> None:
    settings = Settings.model_validate({"networks": {"n": {"nodes": ["http://a.example"]}}})
    links: Any = [Told(report(calls=2)), Told(report(calls=3)), Told(None)]
    looking = SupervisorView(lambda: settings, {}.get, links)
    frame = looking.frame()
    assert [link.asked for link in links] == [1, 1, 1]
    assert (sum(cell.calls for cell in frame.snapshot.cells), len(frame.workers), len(frame.nodes)) == (5, 2, 1)
    looking.frame()
    assert [link.asked for link in links] == [2, 2, 2]


def test_the_address_that_calls_are_taken_on_is_told() -> None:
    settings = Settings.model_validate({"listen": "127.0.0.1:0", "networks": {"n": {"nodes": ["http://a.example"]}}})
    assert (
        SupervisorView(lambda: settings, {}.get, [], listen=lambda: "127.0.0.1:80").settings()["listen"]
        == "127.0.0.1:80"
    )
    assert SupervisorView(lambda: settings, {}.get, []).settings()["listen"] == "127.0.0.1:0"


def test_a_node_that_was_removed_and_added_again_begins_anew() -> None:
    now, nodes = [NOW], ["a", "b"]

    def settings() -> Settings:
        listed = [{"id": name, "url": f"http://{name}"} for name in nodes]
        return Settings.model_validate({"networks": {"n": {"nodes": listed}}})

    view = SupervisorView(settings, {}.get, [], clock=lambda: now[0])
    assert [node.since for node in view.frame().nodes] == [0.0, 0.0]
    nodes.remove("b")
    now[0] += 60
    assert [node.since for node in view.frame().nodes] == [60.0]
    nodes.append("b")
    now[0] += 60
    assert [node.since for node in view.frame().nodes] == [120.0, 0.0]


def test_a_node_is_suspected_as_long_as_those_who_judge_nodes_say_so() -> None:
    heads = {"n": NetworkHeads(network="n", served=Served(), suspects={"b": ("m",)})}
    made = Settings.model_validate({"networks": {"n": {"nodes": ["http://h.example,id=a", "http://i.example,id=b"]}}})
    view = SupervisorView(lambda: made, heads.get, [])
    assert [node.suspect for node in view.frame().nodes] == [False, True]
    heads["n"] = NetworkHeads(network="n", served=Served())
    assert [node.suspect for node in view.frame().nodes] == [False, False]


def test_a_network_without_heads_is_shown_as_not_known() -> None:
    (head,) = overview({}, None).frame().heads
    assert (head.head, head.age, head.chain, head.shard) == (None, None, "harmony", 0)
    plain = Settings.model_validate({"networks": {"n": {"chain": "ethereum", "nodes": ["http://a.example"]}}})
    assert SupervisorView(lambda: plain, {}.get, []).frame().heads[0].shard is None, "it has no shards"
    (known,) = overview({}, told()).frame().heads
    assert (known.head, known.age) == (10, 2.0)


def test_a_node_is_shown_with_what_the_balancer_of_its_network_aims_at() -> None:
    listed = {name: {"balancer": name, "nodes": ["http://a.example"]} for name in ("peak_ewma", "smooth_weighted")}
    made = Settings.model_validate({"networks": listed})
    aims = [node.share_aim for node in SupervisorView(lambda: made, {}.get, []).frame().nodes]
    assert aims == [balancers.aim("peak_ewma"), ""]


def test_the_counts_of_a_worker_that_ended_stay_in_the_sums() -> None:
    looking = overview({}, told(), report(node_report(), calls=2))
    assert sum(cell.calls for cell in looking.frame().snapshot.cells) == 2
    looking.bury(report(calls=5))
    looking.bury(report(calls=1))
    assert sum(cell.calls for cell in looking.frame().snapshot.cells) == 8


def test_what_a_worker_that_ended_had_under_way_and_kept_is_gone_with_it() -> None:
    tally = Tally()
    tally.connections = tally.in_flight = 3
    memory, redis = tally.tier("memory"), tally.tier("redis", shared=True)
    memory.entries, memory.bytes, memory.limit, redis.up = 10, 1000, 2000, False
    last = structs.replace(report(), tally=tally.snapshot())
    looking = overview({}, told(), report())
    looking.bury(last)
    looking.bury(last)
    found = looking.frame().snapshot
    assert (found.in_flight, found.connections) == (0, 0)
    assert [(tier.name, tier.entries, tier.bytes, tier.limit, tier.up) for tier in found.tiers] == [
        ("memory", 0, 0, 0, True),
        ("redis", 0, 0, 0, True),
    ]


def test_workers_and_warnings_are_those_of_the_reports() -> None:
    one, other = (("redis", "no maxmemory"),), (("disk", "it was set aside"), ("redis", "no maxmemory"))
    looking = overview({}, told(), report(warnings=one), report(warnings=other))
    assert [(worker.id, worker.pid, worker.revision) for worker in looking.frame().workers] == [("w1", 7, 3)] * 2
    found = [(notice.subject, notice.text) for notice in looking.frame().notices]
    assert found == [("disk", "it was set aside"), ("redis", "no maxmemory")]


def test_the_quota_is_what_comes_of_all_reports() -> None:
    used = report(node_report(quota=(SPENT,), limit=64))
    (view,) = overview({"tier": 2}, told(pushes=True), used, used).frame().nodes
    assert (view.tier, view.limit, view.quota, view.pushes) == (2, 128, (SPENT, SPENT), True)
