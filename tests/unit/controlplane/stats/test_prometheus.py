import math

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

import rpcaccel
from rpcaccel.controlplane.stats.prometheus import CONTENT_TYPE, CUT_REASONS, EXPOSED, render
from rpcaccel.controlplane.stats.snapshot import Frame, HeadView, NodeView, WorkerView
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.proof.received_answer import Standing
from rpcaccel.core.stats.counters import AnswerSource, Step
from rpcaccel.core.stats.tally import Tally, merge
from tests.support.sample_view import SampleView
from tests.unit.controlplane.stats.test_exposition import as_the_client_writes


def frame_of(tally: Tally, **parts: tuple[object, ...]) -> Frame:
    empty: dict[str, tuple[object, ...]] = {"nodes": (), "heads": (), "workers": ()}
    return Frame(snapshot=tally.snapshot(), **{**empty, **parts})  # type: ignore[arg-type]


def samples(frame: Frame) -> list[Sample]:
    return [sample for family in text_string_to_metric_families(render(frame).decode()) for sample in family.samples]


def value(found: list[Sample], name: str, **labels: str) -> float | None:
    for sample in found:
        if sample.name == name and sample.labels == labels:
            return sample.value
    return None


def test_exactly_the_metrics_of_the_table_are_exposed() -> None:
    view = SampleView()
    view.advance(5.0)
    view.tally.refused("not JSON")
    families = list(text_string_to_metric_families(render(view.frame()).decode()))
    told = {family.name + ("_total" if family.type == "counter" else ""): family for family in families}
    assert set(told) == {metric.name for metric in EXPOSED}
    for metric in EXPOSED:
        family = told[metric.name]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        assert family.samples, metric.name
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.labels), sample


def test_ten_thousand_invented_methods_do_not_make_ten_thousand_series() -> None:
    tally = Tally(["eth_call"])
    before = len(samples(frame_of(tally)))
    for number in range(10_000):
        cell = tally.cell("s0", f"invented_{number}", CacheClass.NEVER)
        cell.done(AnswerSource.NODE, 0.01, 10)
        cell.skipped(f"reason {number}")
    found = samples(frame_of(tally))
    assert value(found, "rpcaccel_calls_total", network="s0", method="other", outcome="ok") == 10_000
    assert len(found) - before < 100
    assert b"invented" not in render(frame_of(tally))


def test_outcomes_add_up_to_the_calls() -> None:
    tally = Tally(["eth_call"])
    cell = tally.cell("s0", "eth_call", CacheClass.HEAD)
    cell.done(AnswerSource.MEMORY, 1e-5)
    cell.done(AnswerSource.NODE, 0.2, failed=True)
    cell.done(AnswerSource.REFUSED, 1e-5, failed=True)
    tally.cell("s0", "eth_call", CacheClass.BY_NUMBER).done(AnswerSource.NODE, 0.1)
    found = samples(frame_of(tally))
    outcomes = {
        outcome: value(found, "rpcaccel_calls_total", network="s0", method="eth_call", outcome=outcome)
        for outcome in ("ok", "error", "refused")
    }
    assert outcomes == {"ok": 2, "error": 1, "refused": 1}


def test_judged_answers_are_counted_by_standing_over_all_classes_and_workers_with_their_cost() -> None:
    workers = [Tally(["eth_getLogs", "eth_call"]) for _ in range(2)]
    for tally in workers:
        tally.cell("s0", "eth_call", CacheClass.HEAD).done(AnswerSource.NODE, 0.1)
        for cache in (CacheClass.HEAD, CacheClass.BY_NUMBER):
            cell = tally.cell("s0", "eth_getLogs", cache)
            cell.judged(Standing.NOT_PROVABLE.name.lower())
            cell.proof_seconds += 0.25
    workers[0].cell("s0", "eth_getLogs", CacheClass.HEAD).judged(Standing.DISPROVED.name.lower())
    workers[0].node("s0", "a").disproved += 1
    whole = merge(tally.snapshot() for tally in workers)
    found = samples(Frame(snapshot=whole, nodes=(), heads=(), workers=()))
    judged = {(one.labels["method"], one.labels["standing"]): one.value for one in found if "proofs" in one.name}
    assert judged == {("eth_getLogs", "not_provable"): 4, ("eth_getLogs", "disproved"): 1}
    assert [one.value for one in found if one.name == "rpcaccel_proof_seconds_total"] == [1.0]
    assert value(found, "rpcaccel_node_disproved_total", network="s0", node="a") == 1


def test_latency_is_cumulative_by_method_and_source_over_all_classes() -> None:
    tally = Tally(["eth_call"])
    tally.cell("s0", "eth_call", CacheClass.HEAD).done(AnswerSource.NODE, 0.15)
    tally.cell("s0", "eth_call", CacheClass.BY_NUMBER).done(AnswerSource.NODE, 70.0)
    labels = {"network": "s0", "method": "eth_call", "source": "node"}
    found = samples(frame_of(tally))
    bucket = "rpcaccel_call_seconds_bucket"
    assert value(found, bucket, **labels, le="0.1") == 0
    assert value(found, bucket, **labels, le="0.2") == 1
    assert value(found, bucket, **labels, le="60.0") == 1
    assert value(found, bucket, **labels, le="+Inf") == 2
    assert value(found, "rpcaccel_call_seconds_count", **labels) == 2
    assert value(found, "rpcaccel_call_seconds_sum", **labels) == pytest.approx(70.15)
    assert value(found, bucket, **{**labels, "source": "memory"}, le="+Inf") is None


def test_what_is_not_known_has_no_sample() -> None:
    frame = frame_of(
        Tally(),
        nodes=(NodeView(network="s0", id="a"),),
        heads=(HeadView(network="s0", chain="harmony"),),
        workers=(WorkerView(id="gone", pid=2**22 + 1),),
    )
    found = samples(frame)
    names = {sample.name for sample in found}
    for name in ("head_block", "head_age_seconds", "node_head_block", "node_lag_blocks", "process_open_fds"):
        assert f"rpcaccel_{name}" not in names
    assert value(found, "rpcaccel_node_weight", network="s0", node="a") == 1
    assert value(found, "rpcaccel_workers") == 1


def test_what_redis_evicts_and_expires_by_itself_has_no_sample() -> None:
    tally = Tally()
    tally.tier("memory").evicted = 3
    tally.tier("disk", shared=True).evicted = 5
    tally.tier("redis", shared=True).purged = 2
    removed = {
        (sample.labels["tier"], sample.labels["reason"]): sample.value
        for sample in samples(frame_of(tally))
        if sample.name == "rpcaccel_tier_removed_total"
    }
    own = {("memory", "evicted"): 3, ("memory", "expired"): 0, ("memory", "purged"): 0}
    assert removed == {**own, ("disk", "evicted"): 5, ("disk", "purged"): 0, ("redis", "purged"): 2}


def test_what_the_disk_holds_and_how_long_its_reads_take_is_exposed() -> None:
    tally = Tally()
    disk = tally.tier("disk", shared=True)
    disk.entries, disk.bytes, disk.limit, disk.up = 3, 700, 1000, False
    disk.timeouts, disk.dropped = 4, 5
    tally.step(Step.DISK, 0.002)
    found = samples(frame_of(tally))
    told = [value(found, f"rpcaccel_tier_{name}", tier="disk") for name in ("up", "entries", "bytes", "limit_bytes")]
    assert told == [0, 3, 700, 1000]
    assert value(found, "rpcaccel_tier_failures_total", tier="disk", reason="timeout") == 4
    assert value(found, "rpcaccel_tier_failures_total", tier="disk", reason="dropped") == 5
    assert value(found, "rpcaccel_step_seconds_count", step="disk") == 1


def test_the_build_says_its_version() -> None:
    (build,) = [sample for sample in samples(frame_of(Tally())) if sample.name == "rpcaccel_build_info"]
    assert build.labels["version"] == rpcaccel.__version__
    assert CONTENT_TYPE.startswith("text/plain")


def test_no_sample_is_infinite_or_missing() -> None:
    view = SampleView()
    view.advance(1.0)
    assert all(math.isfinite(sample.value) for sample in samples(view.frame()))


def test_the_text_is_the_one_that_prometheus_client_writes() -> None:
    view = SampleView()
    view.advance(5.0)
    view.tally.client('my "dapp"\\').calls = 1_234_567
    text = render(view.frame())
    assert as_the_client_writes(text_string_to_metric_families(text.decode())) == text


def test_subscriptions_are_told_by_network_and_kind_and_every_reason_for_a_close_from_the_start() -> None:
    tally = Tally()
    tally.websockets, cell = 5, tally.network("s0")
    cell.subscriptions, cell.delivered, cell.topics = {"newHeads": 3, "logs": 2}, {"newHeads": 7}, 2
    cell.lateness.observe(0.25)
    cell.filled, cell.abandoned, cell.resumed, cell.replayed, cell.cut = 1, 2, 3, 4, {"slow": 6}
    nodes = (NodeView(network="s0", id="a", pushes=True), NodeView(network="s0", id="b"))
    found = samples(frame_of(tally, nodes=nodes))
    assert value(found, "rpcaccel_websockets") == 5
    assert value(found, "rpcaccel_subscriptions", network="s0", kind="logs") == 2
    assert value(found, "rpcaccel_subscription_topics", network="s0") == 2
    assert value(found, "rpcaccel_notifications_total", network="s0", kind="newHeads") == 7
    assert value(found, "rpcaccel_notification_lateness_seconds_bucket", network="s0", le="0.3") == 1
    blocks = ("gaps_filled", "blocks_abandoned", "blocks_replayed")
    assert [value(found, f"rpcaccel_subscription_{name}_total", network="s0") for name in blocks] == [1, 2, 4]
    assert value(found, "rpcaccel_subscriptions_resumed_total", network="s0") == 3
    cut = [value(found, "rpcaccel_subscribers_cut_total", network="s0", reason=reason) for reason in CUT_REASONS]
    assert dict(zip(CUT_REASONS, cut, strict=True)) == {"slow": 6, "late": 0, "restarted": 0, "drained": 0}
    assert [value(found, "rpcaccel_node_pushes", network="s0", node=node) for node in "ab"] == [1, 0]
