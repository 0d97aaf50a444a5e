"""Rings of time buckets: what they keep, by what part, and what a restart finds of it."""

from __future__ import annotations

import gc
import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rpcaccel.controlplane.stats.buckets import Bucket, NodeSums, TimeSlice, encoded, merged, sound
from rpcaccel.controlplane.stats.rings import Rings
from rpcaccel.core.stats.histogram import BUCKETS, Histogram

SMALL = {"fine": (0.0, 10), "middle": (4.0, 5), "coarse": (8.0, 5)}
NAMES = st.sampled_from(["s0", "s1", "mainnet"])
COUNTS = st.integers(0, 1000)


@st.composite
def buckets(draw: st.DrawFn) -> Bucket:
    """The counts of a second."""
    histogram = st.lists(COUNTS, min_size=BUCKETS, max_size=BUCKETS).map(lambda counts: Histogram(counts, 0.5))
    return Bucket(
        at=0.0,
        seconds=1.0,
        calls=draw(COUNTS),
        hits=draw(COUNTS),
        errors=draw(COUNTS),
        client_errors=draw(COUNTS),
        hit=draw(histogram),
        nodes=draw(st.dictionaries(st.tuples(NAMES, NAMES), st.builds(NodeSums, COUNTS, COUNTS), max_size=3)),
        codes=draw(st.dictionaries(st.sampled_from(["-32000", "3"]), COUNTS)),
    )


def slice_of(at: float, parts: dict[str, Bucket], whole: Bucket | None = None) -> TimeSlice:
    placed = {name: msgspec.structs.replace(part, at=at) for name, part in parts.items()}
    if whole is None:
        whole = Bucket(at=at, seconds=1.0, calls=sum(part.calls for part in placed.values()))
    return TimeSlice(msgspec.structs.replace(whole, at=at), placed)


def filled(seconds: int, calls: int = 3, begin: int = 1000) -> Rings[str]:
    rings: Rings[str] = Rings(SMALL)
    for second in range(begin, begin + seconds):
        rings.add(slice_of(float(second), {"s0": Bucket(at=0.0, seconds=1.0, calls=calls)}))
    return rings


def test_each_ring_is_filled_by_the_full_buckets_of_the_finer_one_and_shows_what_is_not_full_yet() -> None:
    rings = filled(11)
    assert [one.seconds for one in rings.buckets("fine")] == [1.0] * 10
    assert [(one.at, one.seconds, one.calls) for one in rings.buckets("middle")] == [
        (1003.0, 4.0, 12),
        (1007.0, 4.0, 12),
        (1010.0, 3.0, 9),
    ]
    assert [(one.at, one.calls) for one in rings.buckets("coarse", "s0")] == [(1007.0, 24), (1010.0, 9)]


def test_a_part_that_counted_nothing_has_an_empty_bucket_of_the_same_time() -> None:
    rings = filled(2)
    assert [(one.at, one.seconds, one.calls) for one in rings.buckets("fine", "s1")] == [
        (1000.0, 1.0, 0),
        (1001.0, 1.0, 0),
    ]


def test_the_sum_of_a_range_is_that_of_its_buckets_whatever_was_summed_up_before() -> None:
    rings = filled(3)
    for second in range(1003, 1080):
        rings.add(slice_of(float(second), {"s0": Bucket(at=0.0, seconds=1.0, calls=second)}))
        for name in SMALL:
            total = rings.total(name, "s0")
            assert total is not None
            assert total.calls == sum(one.calls for one in rings.buckets(name, "s0"))
    assert Rings(SMALL).total("coarse") is None


@given(st.lists(st.tuples(NAMES, buckets()), min_size=1, max_size=40))
def test_the_sum_of_a_range_has_every_figure_of_its_buckets(added: list[tuple[str, Bucket]]) -> None:
    rings: Rings[str] = Rings(SMALL)
    for second, (name, bucket) in enumerate(added):
        rings.add(slice_of(1000.0 + second, {name: bucket}, bucket))
    for over, name in itertools.product(SMALL, ("", "s0", "unheard-of")):
        total, whole = rings.total(over, name), merged(rings.buckets(over, name))
        assert total is not None
        assert total.node_calls == sum(node.calls for node in whole.nodes.values())
        for figure in set(Bucket.__struct_fields__) - {"at", "nodes", "codes", "limited", "hit", "miss"}:
            assert getattr(total, figure) == pytest.approx(getattr(whole, figure))
        for mine, theirs in ((total.hit, whole.hit), (total.miss, whole.miss)):
            assert mine.counts == theirs.counts
            assert mine.seconds == pytest.approx(theirs.seconds)


def test_points_of_full_slices_are_made_once_while_a_few_are_asked_for() -> None:
    rings = filled(11)
    first = rings.points("middle", "s0")
    rings.add(slice_of(1011.0, {}))
    again = rings.points("middle", "s0")
    assert len(again) == 3
    assert all(one is other for one, other in zip(first[:2], again[:2], strict=True))
    for name in ("", "s1", "s2"):
        rings.points("middle", name)
    assert rings.points("middle", "s0")[0] is not again[0], "what nobody asks for any more is not kept"
    assert rings.points("middle", "s0") == again


def test_of_many_parts_the_busiest_are_kept() -> None:
    rings: Rings[str] = Rings(SMALL, most=2)
    for second in range(8):
        parts = {f"c{number}": Bucket(at=0.0, seconds=1.0, calls=number) for number in range(5)}
        rings.add(slice_of(1000.0 + second, parts))
    assert [rings.buckets("coarse", f"c{number}")[0].calls for number in range(5)] == [0, 0, 0, 24, 32]


def test_the_finest_range_that_reaches_as_far_back_is_found() -> None:
    rings = filled(14)
    assert rings.covering("coarse") == "middle"  # the first of the ten seconds of the finest are gone
    assert rings.covering("coarse", 1008.0) == "fine"
    assert rings.covering("fine", 1000.0) == "middle"
    assert rings.covering("fine", 1.0) == "middle", "nothing is older"
    assert filled(5).covering("coarse") == "fine"
    assert Rings(SMALL).covering("coarse") == "coarse"


@given(st.lists(st.tuples(NAMES, buckets()), max_size=12), buckets())
def test_what_is_kept_is_what_is_found_again(added: list[tuple[str, Bucket]], whole: Bucket) -> None:
    rings, again = Rings(SMALL), Rings(SMALL)
    for second, (name, bucket) in enumerate(added):
        rings.add(slice_of(1000.0 + second, {name: bucket}, whole))
    again.restore(rings.kept(), 1000.0 + len(added))
    for over in ("middle", "coarse"):
        for name in ("", "s0", "s1", "mainnet", "unheard-of"):
            assert again.buckets(over, name) == rings.buckets(over, name)


def test_what_is_too_old_or_from_the_future_or_runs_backwards_is_not_taken_up() -> None:
    kept = {"middle": [encoded(slice_of(at, {})) for at in (900.0, 990.0, 985.0, 995.0, 1001.0)]}
    rings: Rings[str] = Rings(SMALL)
    assert rings.restore(kept, now=1000.0) == 1, "one is from the future"
    assert [one.at for one in rings.buckets("middle")] == [990.0, 995.0]


@pytest.mark.parametrize("jump", [700_000.0, 7.0, -7.0, -700_000.0])
def test_a_clock_that_is_wrong_for_a_while_takes_nothing_away_and_no_range_runs_backwards(jump: float) -> None:
    rings, clock = filled(24, begin=1_000_000), 1_000_024.0
    before = {over: [one.at for one in rings.buckets(over)][:-1] for over in SMALL}
    for second in range(8):
        rings.add(slice_of(clock + second + (jump if second < 4 else 0.0), {}))
        for over in SMALL:
            at = [one.at for one in rings.buckets(over)]
            assert at == sorted(set(at))
            total = rings.total(over)
            assert total is not None
            assert total.calls == sum(one.calls for one in rings.buckets(over))
    if abs(jump) > 1000.0:
        assert set(before["coarse"]) <= {one.at for one in rings.buckets("coarse")}


def test_slices_that_a_clock_made_too_old_are_still_saved() -> None:
    rings = filled(24)
    kept = rings.kept()["coarse"]
    rings.add(slice_of(900_000.0, {}))
    assert rings.kept()["coarse"][: len(kept) - 1] == kept[:-1]


def test_after_a_restart_there_is_a_gap_and_the_range_is_no_longer_than_its_name_says() -> None:
    rings: Rings[str] = Rings(SMALL)
    rings.restore(filled(11).kept(), now=1020.0)
    for second in range(1021, 1030):
        rings.add(slice_of(float(second), {}))
    found = rings.buckets("middle")
    assert [(one.at, one.seconds) for one in found] == [(1010.0, 3.0), (1024.0, 4.0), (1028.0, 4.0), (1029.0, 1.0)]


@given(st.binary(max_size=200))
def test_bytes_that_are_no_slice_are_found_out(content: bytes) -> None:
    with pytest.raises((ValueError, msgspec.MsgspecError)):
        sound(content)


@pytest.mark.parametrize(
    "spoilt",
    [
        Bucket(at=1.0, seconds=1.0, hit=Histogram([1, 2], 0.0)),
        Bucket(at=1.0, seconds=1.0, miss=Histogram([-1] * BUCKETS, 0.0)),
        Bucket(at=1.0, seconds=1.0, miss=Histogram([0] * BUCKETS, -1.0)),
        Bucket(at=1.0, seconds=0.0),
        Bucket(at=float("nan"), seconds=1.0),
        Bucket(at=1.0, seconds=1.0, calls=-1),
        Bucket(at=1.0, seconds=1.0, codes={"3": 1 << 60}),
    ],
)
def test_figures_that_no_program_counts_are_found_out(spoilt: Bucket) -> None:
    with pytest.raises((ValueError, msgspec.MsgspecError)):
        sound(encoded(TimeSlice(spoilt, {})))
    good = Bucket(at=1.0, seconds=1.0)
    assert sound(encoded(TimeSlice(good, {}))).whole == good
    with pytest.raises((ValueError, msgspec.MsgspecError)):
        sound(encoded(TimeSlice(good, {"s0": spoilt})))


def test_a_bucket_of_a_busy_network_is_one_small_object() -> None:
    nodes = {("s0", f"node-{number}"): NodeSums(100, 1, 99, 4.2) for number in range(3)}
    busy = Bucket(
        at=1.0, seconds=1.0, calls=500, hit=Histogram([300] * BUCKETS, 1.0), miss=Histogram([9] * BUCKETS, 9.0),
        nodes=nodes, codes={"-32000": 1},
    )  # fmt: skip
    kept = encoded(TimeSlice(busy, {"s0": busy}))
    assert len(kept) < 400, "1,164 of them are a week: under half a megabyte"
    assert not gc.is_tracked(kept)


def test_a_slice_that_an_earlier_version_saved_is_taken_up_with_nothing_sent_to_subscribers() -> None:
    one = Bucket(at=1.0, seconds=1.0, calls=5, notifications=7)
    written = [*msgspec.to_builtins(one)[:-1]]
    earlier = msgspec.msgpack.encode([written, {}])
    assert sound(earlier).whole == replace(one, notifications=0)
    assert sound(encoded(TimeSlice(one, {}))).whole == one
