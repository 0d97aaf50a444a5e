import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.counters import (
    OTHER,
    AnswerSource,
    ClientCell,
    NetworkCell,
    NodeCell,
    Step,
    TallySnapshot,
    Tier,
    bump,
)
from rpcaccel.core.stats.tally import Tally, delta, ended, merge

METHODS = ("hmyv2_getBlocks", "hmyv2_getBalance", "eth_call")

Deeds = list[tuple[str, str, CacheClass, AnswerSource, int, bool]]
DEEDS = st.lists(
    st.tuples(
        st.sampled_from(["s0", "s1"]),
        st.sampled_from([*METHODS, "made_up"]),
        st.sampled_from(list(CacheClass)),
        st.sampled_from(list(AnswerSource)),
        st.integers(0, 64),
        st.booleans(),
    ),
    max_size=40,
)


def perform(tally: Tally, deeds: Deeds) -> None:
    for network, method, cache, source, size, failed in deeds:
        tally.requests += 1
        cell = tally.cell(network, method, cache)
        # Powers of two add up exactly, so that sums can be compared in any order.
        cell.done(source, size / 1024, size, failed)
        if source is AnswerSource.NODE:
            bump(cell.misses, "not-there")
            tally.node(network, f"n{size % 3}").calls += 1
            tally.node(network, f"n{size % 3}").retries += failed
            tally.node(network, f"n{size % 3}").answered(size / 1024, size, methods=[cell.method])
            tally.step(Step.FORWARD, size / 1024)
        if source is AnswerSource.REFUSED:
            tally.refused("busy")


def worked(*parts: Deeds) -> TallySnapshot:
    tally = Tally(METHODS)
    for deeds in parts:
        perform(tally, deeds)
    return tally.snapshot()


def figures(snapshot: TallySnapshot) -> object:
    """The snapshot without order and without what counts nothing."""
    plain = msgspec.to_builtins(snapshot)
    plain["cells"] = sorted(
        (cell for cell, live in zip(plain["cells"], snapshot.cells, strict=True) if live.calls), key=repr
    )
    plain["nodes"] = sorted((node for node in plain["nodes"] if node["calls"]), key=repr)
    return plain


def test_ten_thousand_invented_methods_share_one_cell() -> None:
    tally = Tally(METHODS)
    for number in range(10_000):
        tally.cell("s0", f"invented_{number}", CacheClass.NEVER).done(AnswerSource.NODE, 0.01)
    (cell,) = tally.snapshot().cells
    assert (cell.method, cell.calls, repr(tally)) == (OTHER, 10_000, "<Tally 1 cells, 0 nodes, 0 requests>")


def test_a_method_becomes_known_when_settings_bring_its_rule() -> None:
    tally = Tally()
    assert tally.cell("s0", "eth_call", CacheClass.HEAD).method == OTHER
    tally.know(["eth_call"])
    assert tally.cell("s0", "eth_call", CacheClass.HEAD).method == "eth_call"


def test_a_snapshot_does_not_change_while_counting_goes_on() -> None:
    tally = Tally(METHODS)
    perform(tally, [("s0", "eth_call", CacheClass.HEAD, AnswerSource.NODE, 8, False)])
    snapshot = tally.snapshot()
    before = figures(snapshot)
    perform(tally, [("s0", "eth_call", CacheClass.HEAD, AnswerSource.NODE, 8, True)])
    tally.refused("parse")
    assert figures(snapshot) == before


@given(DEEDS)
def test_a_snapshot_survives_the_way_to_the_supervisor(
    deeds: Deeds,
) -> None:
    snapshot = worked(deeds)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(snapshot), type=TallySnapshot) == snapshot


@given(DEEDS, DEEDS)
def test_two_workers_merged_are_one_worker_that_did_both(one: Deeds, two: Deeds) -> None:
    assert figures(merge([worked(one), worked(two)])) == figures(worked(one, two))
    assert figures(merge([worked(two), worked(one)])) == figures(worked(one, two))


@given(DEEDS, DEEDS)
def test_the_difference_of_two_snapshots_is_what_happened_between(one: Deeds, two: Deeds) -> None:
    assert figures(delta(worked(one, two), worked(one))) == figures(worked(two))


def test_what_was_not_called_meanwhile_is_neither_copied_nor_told() -> None:
    idle, busy = (
        ("s0", "eth_call", CacheClass.HEAD, AnswerSource.NODE, 8, False),
        ("s0", "eth_getLogs", CacheClass.HEAD),
    )
    tally = Tally([idle[1], busy[1]])
    tally.network("s0")
    perform(tally, [idle, (*busy, AnswerSource.NODE, 8, False)])
    before = tally.snapshot()
    perform(tally, [(*busy, AnswerSource.NODE, 8, False)])
    now = tally.snapshot()
    assert [cell is was for cell, was in zip(now.cells, before.cells, strict=True)] == [True, False]
    (called,) = delta(now, before).cells
    assert (called.method, called.calls, called.size) == (busy[1], 1, 8)
    travelled = msgspec.msgpack.decode(msgspec.msgpack.encode(now), type=TallySnapshot)
    assert [cell.method for cell in delta(travelled, before).cells] == [busy[1]]
    assert [cell.network for cell in delta(now, before).networks] == ["s0"]
    assert [cell.calls for cell in before.cells] == [1, 1]


def test_a_counter_that_began_anew_counts_as_all_new() -> None:
    deed = ("s0", "eth_call", CacheClass.HEAD, AnswerSource.NODE, 8, True)
    passed = delta(worked([deed]), worked([deed] * 5))
    assert passed.cells[0].calls == 1
    assert passed.cells[0].errors == 1
    assert passed.refusals == {}


def test_gauges_of_workers_add_up_and_are_not_subtracted() -> None:
    one, two = Tally(), Tally()
    one.in_flight, two.in_flight = 3, 4
    one.node("s0", "a").in_flight, two.node("s0", "a").in_flight = 1, 2
    total = merge([one.snapshot(), two.snapshot()])
    assert (total.in_flight, total.nodes[0].in_flight) == (7, 3)
    assert delta(total, total).in_flight == 7
    assert delta(total, total).nodes[0].in_flight == 3


def test_own_tiers_add_up_and_a_shared_tier_is_counted_once() -> None:
    workers = (Tally(), Tally())
    for tally in workers:
        own, shared = tally.tier("memory"), tally.tier("redis", shared=True)
        own.entries = shared.entries = 10
        own.hits = shared.hits = 5
    memory, redis = merge(tally.snapshot() for tally in workers).tiers
    assert (memory.entries, memory.hits) == (20, 10)
    assert (redis.entries, redis.hits) == (10, 10)


def test_of_a_tally_that_has_ended_the_counters_stay_and_no_gauge() -> None:
    tally = Tally(["eth_call"])
    tally.in_flight, tally.connections, tally.requests = 3, 7, 100
    tally.cell("s0", "eth_call", CacheClass.HEAD).done(AnswerSource.NODE, 0.1)
    node, network, tier, client = tally.node("s0", "a"), tally.network("s0"), tally.tier("memory"), tally.client("c")
    node.calls, node.in_flight, node.connections_open, node.connections_idle = 5, 2, 4, 1
    network.forced, network.in_room = 6, 2
    tier.hits, tier.entries, tier.bytes, tier.limit, tier.up, tier.fault = 8, 90, 900, 1000, False, "no answer"
    client.calls, client.in_flight, client.seen_at = 9, 1, 12.5
    snapshot = tally.snapshot()
    past = ended(snapshot)
    assert (past.in_flight, past.connections, past.requests, past.cells) == (0, 0, 100, snapshot.cells)
    assert past.nodes == [NodeCell("s0", "a", calls=5)]
    assert past.networks == [NetworkCell("s0", forced=6)]
    assert past.tiers == [Tier("memory", hits=8)]
    assert past.clients == [ClientCell("c", calls=9, seen_at=12.5)]
    assert (snapshot.in_flight, snapshot.nodes[0].in_flight) == (3, 2), "the snapshot itself is left as it is"


def test_a_tier_is_up_only_where_every_worker_reaches_it() -> None:
    one, two = Tally(), Tally()
    one.tier("redis", shared=True).up = True
    two.tier("redis", shared=True).up = False
    two.tier("redis").fault = "no answer in time"
    assert [tier.up for tier in merge([one.snapshot(), two.snapshot()]).tiers] == [False]
    assert [tier.up for tier in merge([two.snapshot(), one.snapshot()]).tiers] == [False]
    for parts in ((one, two), (two, one)):
        (tier,) = merge(part.snapshot() for part in parts).tiers
        assert tier.fault == "no answer in time"


def test_clients_are_added_up_and_seen_at_the_latest_moment() -> None:
    one, other = Tally(), Tally()
    for tally, seen in ((one, 5.0), (other, 9.0)):
        cell = tally.client("dapp")
        cell.calls, cell.seen_at = 2, seen
        cell.refused("rate")
    before = one.snapshot()
    total = merge((before, other.snapshot()))
    assert [(cell.calls, cell.seen_at, cell.limited) for cell in total.clients] == [(4, 9.0, {"rate": 2})]
    assert [(cell.calls, cell.seen_at) for cell in delta(total, before).clients] == [(2, 9.0)]
