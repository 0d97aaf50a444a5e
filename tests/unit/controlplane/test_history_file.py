"""The history over restarts: kept beside the state file, and never the reason why a start fails."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rpcaccel.controlplane.documents.series import PastQuestion, past
from rpcaccel.controlplane.history_file import MAX_HISTORY_BYTES, HistoryKeeper
from rpcaccel.controlplane.stats.buckets import Bucket
from rpcaccel.controlplane.stats.history import History
from rpcaccel.core.stats.histogram import BUCKETS, Histogram
from tests.support.described_answers import sent
from tests.support.sample_view import NETWORK, SampleView
from tests.support.waiting import until

NOW = 2000.0


def lived(seconds: int = 40) -> History:
    """A history that ended at NOW."""
    view, history = SampleView(), History()
    for second in range(seconds + 1):
        view.advance(1.0, load=0.05)
        view.fail(2)
        history.add(view.snapshot(), now=float(second), at=NOW - seconds + second)
    return history


def keeper(history: History, every: float = 3600.0) -> HistoryKeeper:
    return HistoryKeeper(history, wall=lambda: NOW + 60.0, every=every)


async def saved(history: History, path: Path) -> HistoryKeeper:
    one = keeper(history)
    one.open(path)
    one.start()
    await one.stop()
    return one


def taken_up(path: Path) -> tuple[History, str]:
    """What the next start makes of the file, and what it says."""
    history = History()
    one = keeper(history)
    one.open(path)
    return history, one.note


async def test_what_was_counted_before_a_restart_is_shown_after_it(tmp_path: Path) -> None:
    before = lived()
    await saved(before, tmp_path / "x.history")
    again, note = taken_up(tmp_path / "x.history")
    assert note == ""
    for over in ("1h", "24h", "7d"):
        assert again.buckets(over) == before.buckets(over)
        assert again.buckets(over, NETWORK) == before.buckets(over, NETWORK)
    assert again.buckets("1h", "dapp", "client") == before.buckets("1h", "dapp", "client") != []
    assert again.buckets("5m") == [], "the seconds are not kept"
    assert (tmp_path / "x.history").stat().st_mode & 0o077 == 0
    assert os.listdir(tmp_path) == ["x.history"]


async def test_the_time_that_the_program_was_down_is_a_gap_in_each_column(tmp_path: Path) -> None:
    await saved(lived(), tmp_path / "x.history")
    history, _ = taken_up(tmp_path / "x.history")
    view = SampleView()
    for second in range(20):
        history.add(view.snapshot(), now=float(second), at=NOW + 100.0 + second)
    document = sent(past(history, PastQuestion("1h", NETWORK)))
    gap = document["columns"]["calls_per_second"].index(None)
    assert NOW < document["columns"]["at"][gap] < NOW + 100.0
    assert document["outcomes"]["hits"][gap] is document["codes"]["-32603"][gap] is None
    assert document["latency"]["hits"][gap] == []
    assert {len(column) for column in document["columns"].values()} == {len(document["seconds"])}


async def test_it_is_saved_now_and_then_without_a_stop(tmp_path: Path) -> None:
    one = keeper(lived(), every=0.01)
    one.open(tmp_path / "x.history")
    one.start()
    await until((tmp_path / "x.history").exists)
    await one.stop()
    assert taken_up(tmp_path / "x.history")[0].buckets("1h")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is damaged"),
        (b"\xc1" * 50, "is damaged"),
        (b"\x92" * 100_000, "is damaged"),
        (msgspec.msgpack.encode([1, {"networks": {"1h": [b"no slice"]}}]), "is damaged"),
        (b"SQLite format 3\0" + b"\0" * 9000, "is damaged"),
    ],
)
async def test_a_file_that_cannot_be_used_is_said_and_set_aside_and_the_charts_begin_anew(
    tmp_path: Path, content: bytes, why: str
) -> None:
    path = tmp_path / "x.history"
    path.write_bytes(content)
    history, note = taken_up(path)
    assert why in note
    assert str(path) in note
    assert history.buckets("7d") == []
    one = await saved(lived(), path)
    assert one.note == ""
    assert (tmp_path / "x.history.lost").read_bytes() == content
    assert taken_up(path)[0].buckets("7d")


def test_a_file_that_is_too_large_or_no_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "x.history").open("wb") as opened:
        opened.truncate(MAX_HISTORY_BYTES + 1)
    assert "is larger than" in taken_up(tmp_path / "x.history")[1]
    assert "cannot be read" in taken_up(tmp_path)[1]


async def test_a_clock_that_is_behind_at_the_start_is_said_and_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.history"
    await saved(lived(), path)
    early = HistoryKeeper(History(), wall=lambda: 60.0)
    early.open(path)
    assert "tells of times after this clock's" in early.note
    early.start()
    await early.stop()
    assert taken_up(path)[0].buckets("7d"), "with the right clock everything is there"


def version_1(networks: dict[str, list[tuple[Bucket, dict[str, Bucket | None]]]]) -> bytes:
    encode = msgspec.msgpack.encode
    return encode([1, {"networks": {name: [encode(one) for one in slices] for name, slices in networks.items()}}])


def slice_of(at: float, seconds: float, calls: int = 1, **more: Any) -> tuple[Bucket, dict[str, Bucket | None]]:
    whole = Bucket(at=at, seconds=seconds, calls=calls, codes={"3": calls}, **more)
    return whole, {NETWORK: None, "s1": Bucket(at=at, seconds=seconds)}


def test_the_file_of_an_older_version_is_taken_over(tmp_path: Path) -> None:
    path, now = tmp_path / "x.history", 1_000_000.0
    fine = [slice_of(now - 15.0 * number, 15.0) for number in reversed(range(10))]
    coarse = [slice_of(now - 300.0 * number, 300.0, calls=20) for number in reversed(range(4))]
    path.write_bytes(version_1({"1h": fine, "24h": coarse}))
    history = History()
    one = HistoryKeeper(history, wall=lambda: now)
    one.open(path)
    assert one.note == ""
    for over, slices in (("1h", fine), ("24h", coarse)):
        assert [(found.at, found.calls, found.codes) for found in history.buckets(over, NETWORK)] == [
            (whole.at, whole.calls, whole.codes) for whole, _ in slices
        ]
        assert {found.calls for found in history.buckets(over, "s1")} == {0}
    assert history.buckets("7d") == []


@pytest.mark.parametrize(
    "spoilt",
    [
        {"miss": Histogram([-1] * BUCKETS, 0.0)},
        {"miss": Histogram([0] * BUCKETS, -1.0)},
        {"refused": -1},
        {"client_errors": 1 << 60},
    ],
)
def test_an_older_file_with_figures_that_no_program_counts_is_found_out(tmp_path: Path, spoilt: dict[str, Any]) -> None:
    (tmp_path / "x.history").write_bytes(version_1({"1h": [slice_of(NOW, 15.0, **spoilt)]}))
    history, note = taken_up(tmp_path / "x.history")
    assert "is damaged" in note
    assert history.buckets("7d") == []


async def test_a_file_that_cannot_be_written_is_said_until_it_can_be(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    one = await saved(lived(), folder / "x.history")
    assert "cannot be written" in one.note
    folder.mkdir()
    one = await saved(lived(), folder / "x.history")
    assert one.note == ""


async def test_without_a_state_file_nothing_is_kept(tmp_path: Path) -> None:
    one = keeper(lived())
    one.open(None)
    one.start()
    await one.stop()
    assert os.listdir(tmp_path) == []
    assert one.note == ""
    assert repr(one) == "<HistoryKeeper of None>"
