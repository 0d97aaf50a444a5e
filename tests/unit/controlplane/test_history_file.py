"""The history over restarts: kept beside the state file, and never the reason why a start fails."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpcaccel.controlplane.history_file import HistoryFile, HistoryKeeper, LostHistoryError
from rpcaccel.controlplane.stats.history import SPACING, History
from rpcaccel.controlplane.stats.series import PastQuestion, past
from tests.support.described_answers import sent
from tests.support.sample_view import NETWORK, SampleView

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


async def taken_up(file: HistoryFile) -> tuple[History, str]:
    """What the next start makes of the file, and what it says."""
    history = History()
    one = keeper(history)
    one.open(file)
    return history, one.note


async def test_what_was_counted_before_a_restart_is_shown_after_it(tmp_path: Path) -> None:
    file, before = HistoryFile(tmp_path / "x.history"), lived()
    first = keeper(before)
    first.open(file)
    first.start()
    await first.stop()
    again, note = await taken_up(file)
    assert note == ""
    for over in ("1h", "24h", "7d"):
        assert again.buckets(over) == before.buckets(over)
        assert again.buckets(over, NETWORK) == before.buckets(over, NETWORK)
    assert again.client("dapp") == before.client("dapp")
    assert again.buckets("5m") == [], "the seconds are not kept"
    assert file.path.stat().st_mode & 0o077 == 0
    assert os.listdir(tmp_path) == ["x.history"]


async def test_the_time_that_the_program_was_down_is_a_gap_in_each_column(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "x.history")
    file.save(lived().kept())
    history, _ = await taken_up(file)
    view = SampleView()
    for second in range(20):
        history.add(view.snapshot(), now=float(second), at=NOW + 100.0 + second)
    document = sent(past(history, PastQuestion("1h", NETWORK)))
    assert document is not None
    gap = document["columns"]["calls_per_second"].index(None)
    assert NOW < document["columns"]["at"][gap] < NOW + 100.0
    assert document["outcomes"]["hits"][gap] is document["codes"]["-32603"][gap] is None
    assert document["latency"]["hits"][gap] == []
    assert {len(column) for column in document["columns"].values()} == {len(document["seconds"])}


async def test_it_is_saved_now_and_then_without_a_stop(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "x.history")
    one = keeper(lived(), every=0.01)
    one.open(file)
    one.start()
    async with asyncio.timeout(20):
        while not file.path.exists():
            await asyncio.sleep(0.01)
    await one.stop()
    assert (await taken_up(file))[0].buckets("1h")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is damaged"),
        (b"\xc1" * 50, "is damaged"),
        (msgspec.msgpack.encode([1, {"networks": {"1h": [b"no slice"]}}]), "is damaged"),
        (msgspec.msgpack.encode([2, {"of": "tomorrow"}]), "has version 2"),
        (b"\x91" * 100_000, "is damaged"),
        (b"\0" * 300_000, "is larger than"),
    ],
)
async def test_a_file_that_cannot_be_used_is_said_and_the_charts_begin_anew(
    tmp_path: Path, content: bytes, why: str
) -> None:
    file = HistoryFile(tmp_path / "x.history", largest=200_000)
    file.path.write_bytes(content)
    history, note = await taken_up(file)
    assert why in note
    assert str(file.path) in note
    assert [history.buckets(over) for over in SPACING] == [[]] * 4


async def test_a_clock_that_is_behind_at_the_start_is_said_and_costs_no_file(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "x.history")
    file.save(lived().kept())
    saved = file.path.read_bytes()
    early = HistoryKeeper(History(), wall=lambda: 60.0, every=3600.0)
    early.open(file)
    assert str(file.aside) in early.note
    assert file.path.read_bytes() == saved, "a restart soon, with the right clock, finds everything"
    early.start()
    await early.stop()
    assert str(file.aside) in early.note, "it is still true after a write"
    assert file.aside.read_bytes() == saved
    assert sorted(os.listdir(tmp_path)) == ["x.history", "x.history.future"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(cut=st.integers(0, 5000), put=st.binary(max_size=30))
async def test_whatever_the_file_holds_the_start_goes_on_and_every_document_can_be_made(
    tmp_path: Path, cut: int, put: bytes
) -> None:
    file = HistoryFile(tmp_path / "x.history")
    file.save(lived(3).kept())
    content = file.path.read_bytes()
    cut %= len(content)
    file.path.write_bytes(content[:cut] + put + content[cut + len(put) :])
    history, _ = await taken_up(file)
    for over in SPACING:
        assert sent(past(history, PastQuestion(over))) is not None


def test_what_makes_the_file_too_large_is_left_out_the_finest_ranges_first(tmp_path: Path) -> None:
    kept = lived().kept()
    whole = HistoryFile(tmp_path / "whole")
    whole.save(kept)
    size = whole.path.stat().st_size
    small = HistoryFile(tmp_path / "small", largest=size - 1)
    small.save(kept)
    assert small.path.stat().st_size < size
    assert set(small.load()["networks"]) == {"24h", "7d"}
    tiny = HistoryFile(tmp_path / "tiny", largest=20)
    tiny.save(kept)
    assert tiny.path.stat().st_size <= 40


async def test_a_file_that_cannot_be_written_is_said_until_it_can_be(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    one = keeper(lived())
    one.open(HistoryFile(folder / "x.history"))
    one.start()
    await one.stop()
    assert "cannot be written" in one.note
    with pytest.raises(LostHistoryError, match="cannot be read"):
        HistoryFile(tmp_path).load()
    folder.mkdir()
    again = keeper(lived())
    again.open(HistoryFile(folder / "x.history"))
    again.start()
    await again.stop()
    assert again.note == ""


async def test_without_a_state_file_nothing_is_kept(tmp_path: Path) -> None:
    one = keeper(lived())
    one.open(None)
    one.start()
    await one.stop()
    assert os.listdir(tmp_path) == []
    assert one.note == ""
    assert repr(one) == "<HistoryKeeper None>"
