import orjson
import pytest
from msgspec import structs

from rpcaccel.controlplane.documents import current_figures
from rpcaccel.controlplane.stats.history import History
from rpcaccel.controlplane.stats.snapshot import Frame, HeadView, NodeView, Notice
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.counters import AnswerSource, TallySnapshot
from rpcaccel.core.stats.tally import Tally
from tests.support.described_answers import sent
from tests.support.sample_view import NETWORK, SampleView


@pytest.fixture
def told() -> tuple[SampleView, Frame, History]:
    view, history = SampleView(), History()
    for second in range(8):
        view.advance(1.0, load=0.3)
        history.add(view.snapshot(), now=float(second), at=1000.0 + second)
    return view, view.frame(), history


def frame(nodes: tuple[NodeView, ...] = (), heads: tuple[HeadView, ...] = (), tally: Tally | None = None) -> Frame:
    snapshot = tally.snapshot() if tally else TallySnapshot()
    return Frame(snapshot=snapshot, nodes=nodes, heads=heads, workers=())


def test_no_document_holds_a_secret_of_the_settings(told: tuple[SampleView, Frame, History]) -> None:
    view, seen, history = told
    settings = view.settings()
    assert view.secret.encode() in orjson.dumps(settings)
    everything = (
        sent(current_figures.overview(seen, history, settings, 1.0, 1)),
        sent(current_figures.nodes(seen, history)),
        sent(current_figures.methods(seen, history)),
        sent(current_figures.cache(seen, history)),
    )
    assert view.secret.encode() not in orjson.dumps(everything)
    assert everything[0]["settings"]["admin.listen"] == "127.0.0.1:8889"
    assert everything[0]["settings"]["redis.prefix"] == "rpcaccel"


def test_the_overview_reads_like_the_traffic(told: tuple[SampleView, Frame, History]) -> None:
    view, seen, history = told
    document = sent(current_figures.overview(seen, history, view.settings(), 1007.0, 3))
    readings = document["readings"]
    assert readings["calls_per_second"] == pytest.approx(0.3 * 686, rel=0.2)
    assert 0.7 < readings["hit_ratio"] < 0.95
    assert readings["hit"]["p99"] < 0.005 < readings["miss"]["p99"]
    assert document["saved"]["node_calls"] > 0
    assert document["saved"]["seconds"] > 0
    assert document["revision"] == 3
    assert {len(column) for column in document["history"].values()} == {7}
    (network,) = document["networks"]
    assert (network["network"], network["state"], network["eligible"], network["nodes"]) == (NETWORK, "part", 2, 3)


def test_shares_wanted_follow_the_weights_of_eligible_nodes(told: tuple[SampleView, Frame, History]) -> None:
    _, seen, history = told
    a, b, c = sent(current_figures.nodes(seen, history))["nodes"]
    assert (a["share_wanted"], b["share_wanted"], c["share_wanted"]) == (5 / 7, 2 / 7, 0.0)
    assert a["share_got"] == pytest.approx(5 / 7, abs=0.1)
    assert a["share_got"] + b["share_got"] == pytest.approx(1.0)
    assert (c["calls_per_second"], c["calls_total"], c["latency"]) == (0.0, 0, None)
    assert a["latency"]["p50"] < b["latency"]["p50"]


def test_a_node_of_a_higher_tier_is_wanted_for_no_share_while_one_of_a_lower_tier_is_fit() -> None:
    def wanted(*nodes: NodeView) -> list[float]:
        view = SampleView()
        view.node_list = list(nodes)
        return [node["share_wanted"] for node in sent(current_figures.nodes(view.frame(), History()))["nodes"]]

    own = NodeView(network=NETWORK, id="own", weight=1)
    paid, dear = (NodeView(network=NETWORK, id=name, weight=3, tier=1) for name in ("paid", "dear"))
    assert wanted(own, paid) == [1.0, 0.0]
    assert wanted(structs.replace(own, eligible=False), paid, dear) == [0.0, 0.5, 0.5]


def test_every_method_called_is_told_once_with_its_classes(told: tuple[SampleView, Frame, History]) -> None:
    _, seen, history = told
    methods = sent(current_figures.methods(seen, history))["methods"]
    named = {method["method"]: method for method in methods}
    assert len(named) == len(methods) == 12
    blocks = named["hmyv2_getBlocks"]
    assert blocks["classes"] == ["by-number"]
    assert blocks["misses"].keys() == {"not there yet"}
    assert named["debug_storeHeaps"]["hit_ratio"] is None
    assert sum(method["share"] for method in methods) == pytest.approx(1.0)


def test_a_cell_without_a_call_is_not_a_method() -> None:
    tally = Tally(["eth_call"])
    tally.cell("s0", "eth_call", CacheClass.HEAD)
    assert sent(current_figures.methods(frame(tally=tally), History()))["methods"] == []


def test_before_the_first_minute_figures_are_absent_and_totals_there() -> None:
    tally = Tally(["eth_call"])
    tally.cell("s0", "eth_call", CacheClass.HEAD).done(AnswerSource.NODE, 0.1)
    (method,) = sent(current_figures.methods(frame(tally=tally), History()))["methods"]
    assert (method["calls_total"], method["calls_per_second"], method["hit"], method["share"]) == (1, None, None, None)
    document = sent(current_figures.overview(frame(tally=tally), History(), {}, 0.0, 1))
    assert document["readings"] is None
    assert document["settings"] == {}
    (node,) = sent(current_figures.nodes(frame(nodes=(NodeView(network="s0", id="a"),)), History()))["nodes"]
    assert (node["head"], node["share_got"], node["calls_per_second"]) == (None, None, None)


def test_tiers_and_classes_are_told(told: tuple[SampleView, Frame, History]) -> None:
    _, seen, history = told
    document = sent(current_figures.cache(seen, history))
    memory, redis = document["tiers"]
    assert (memory["name"], redis["name"], redis["shared"]) == ("memory", "redis", True)
    assert (memory["evicted"], memory["expired"], memory["purged"]) == (0, 0, 0)
    assert (redis["evicted"], redis["expired"], redis["purged"]) == (None, None, 0)
    assert 0.0 < memory["hit_ratio"] < 1.0
    assert {entry["class"] for entry in document["classes"]} == {"head", "by-number", "node", "never"}
    assert sent(current_figures.cache(seen, History()))["classes"] == []


def test_the_tier_on_disk_is_told_with_the_times_of_its_reads() -> None:
    view = SampleView(disk=True)
    view.advance(20.0, load=0.3)
    memory, disk, redis = sent(current_figures.cache(view.frame(), History()))["tiers"]
    assert (disk["name"], disk["shared"], disk["limit"]) == ("disk", True, 50_000_000_000)
    assert (disk["evicted"], disk["expired"], disk["purged"]) == (319_000, None, 812)
    assert disk["reads"]["count"] == disk["hits"] + disk["misses"] > 0
    assert 0.0 < disk["reads"]["p50"] < disk["reads"]["p99"] < 0.1
    assert redis["reads"]["count"] == redis["hits"]
    assert memory["reads"] is None


def test_a_tier_that_was_not_read_yet_has_no_times() -> None:
    tally = Tally()
    tally.tier("disk", shared=True)
    (disk,) = sent(current_figures.cache(frame(tally=tally), History()))["tiers"]
    assert (disk["reads"], disk["hit_ratio"]) == (None, None)


def test_what_redis_should_be_told_stands_beside_the_tiers() -> None:
    warned = Frame(
        snapshot=TallySnapshot(),
        nodes=(),
        heads=(),
        workers=(),
        notices=(Notice("warn", "redis", "Redis has no maxmemory"), Notice("warn", "w1", "was replaced")),
    )
    assert sent(current_figures.cache(warned, History()))["warnings"] == ["Redis has no maxmemory"]


@pytest.mark.parametrize(
    ("eligible", "state"), [((True, True), "ok"), ((True, False), "part"), ((False, False), "down"), ((), "down")]
)
def test_a_network_is_as_well_as_its_nodes(eligible: tuple[bool, ...], state: str) -> None:
    nodes = tuple(NodeView(network="s0", id=str(i), eligible=yes) for i, yes in enumerate(eligible))
    seen = frame(nodes, (HeadView(network="s0", chain="harmony"),))
    assert sent(current_figures.overview(seen, History(), {}, 0.0, 1))["networks"][0]["state"] == state


def test_subscriptions_are_told_by_network_with_their_last_minute(told: tuple[SampleView, Frame, History]) -> None:
    view, seen, history = told
    document = sent(current_figures.moment(seen, history))
    assert document["websockets"] == view.subscribers + 14
    (one,) = document["subscriptions"]
    assert (one["network"], one["kinds"]["newHeads"], one["topics"]) == (NETWORK, 120, 9)
    assert one["notifications"] == {"newHeads": 480, "logs": 960, "newPendingTransactions": 96}
    assert one["notifications_per_second"] == pytest.approx(192)
    assert 0.005 < one["lateness"]["p50"] < one["lateness"]["p99"] < 0.2
    assert (one["filled"], one["abandoned"], one["resumed"], one["replayed"]) == (3, 0, 17, 412)
    assert one["cut"] == {"slow": 2, "drained": 31}
    (before,) = sent(current_figures.moment(seen, History()))["subscriptions"]
    assert (before["notifications_per_second"], before["lateness"]) == (None, None)


def test_a_network_without_subscribers_is_told_of_only_if_it_had_some() -> None:
    tally = Tally()
    cell = tally.network("s0")
    cell.subscriptions = {"newHeads": 0}
    assert sent(current_figures.moment(frame(tally=tally), History()))["subscriptions"] == []
    cell.cut = {"drained": 1}
    (one,) = sent(current_figures.moment(frame(tally=tally), History()))["subscriptions"]
    assert (one["kinds"], one["cut"]) == ({}, {"drained": 1})
