"""Mutes: what they are about, for how long, and that they outlive a restart."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from structlog.testing import capture_logs

from rpcaccel.controlplane.alerts.mutes import MAX_MUTES, KeptMutes, Mutes
from rpcaccel.controlplane.settings.kept_file import KeptFile
from rpcaccel.controlplane.workers.operations import OperationRefused
from tests.support.manual_clock import ManualClock


def made(path: Path | None = None, clock: ManualClock | None = None) -> Mutes:
    mutes = Mutes((clock or ManualClock()).now)
    if path is not None:
        mutes.open(KeptFile(path, KeptMutes))
    return mutes


@pytest.mark.parametrize(
    ("what", "covers"),
    [("all", True), ("1f", True), ("s0/a", True), ("s0", True), ("s", False), ("s0/b", False), ("2a", False)],
)
async def test_a_mute_is_about_a_subject_an_alert_a_network_with_its_nodes_or_everything(
    what: str, covers: bool
) -> None:
    mutes = made()
    await mutes.mute(what, 100, "ann", "work")
    assert (mutes.covering("1f", "s0/a") is not None) is covers


async def test_of_several_the_longest_counts_and_what_has_ended_does_not() -> None:
    clock = ManualClock()
    mutes = made(clock=clock)
    await mutes.mute("all", 70, "ann")
    await mutes.mute("s0", 50, "ann")
    covering = mutes.covering("x", "s0")
    assert covering.what == "all"
    clock.advance(70)
    assert mutes.covering("x", "s0") is None
    assert mutes.in_force() == []


async def test_mutes_are_kept_over_a_restart_and_one_of_the_same_replaces_another(tmp_path: Path) -> None:
    mutes = made(tmp_path / "s")
    await mutes.mute("all", 60, "ann")
    await mutes.mute("s0", 60, "ann", "a")
    await mutes.mute("s0", 3600, "bob", "b")
    await mutes.mute("all", 0, "bob")
    assert [(one.what, one.by, one.reason) for one in made(tmp_path / "s").in_force()] == [("s0", "bob", "b")]


def test_silences_that_version_0_2_0_kept_are_mutes(tmp_path: Path) -> None:
    silence = {"id": "1a2b3c4d", "what": "s0", "until": 1e10, "by": "ann", "reason": "disks", "at": 5.0}
    (tmp_path / "s").write_bytes(orjson.dumps({"version": 1, "silences": [silence]}))
    (mute,) = made(tmp_path / "s").in_force()
    assert (mute.what, mute.until, mute.by, mute.reason) == ("s0", 1e10, "ann", "disks")


async def test_mutes_are_bounded_in_number() -> None:
    mutes = made()
    for number in range(MAX_MUTES):
        await mutes.mute(f"s0/{number}", 60, "ann")
    await mutes.mute("s0/1", 60, "ann", "again")
    with pytest.raises(OperationRefused, match="there are 200 mutes already"):
        await mutes.mute("one more", 60, "ann")


async def test_a_mute_that_is_not_there_cannot_be_ended() -> None:
    with pytest.raises(OperationRefused, match="s0 is not muted; what is: nothing"):
        await made().mute("s0", 0, "ann")


async def test_a_file_of_mutes_that_cannot_be_used_or_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("no JSON")
    with capture_logs() as lines:
        assert "is damaged: nothing is muted" in made(tmp_path / "s").note
    assert [line["event"] for line in lines] == ["mutes are lost"]
    mutes = made(tmp_path / "nowhere" / "s")
    await mutes.mute("all", 60, "ann")
    assert "mutes live until a restart" in mutes.note
    assert mutes.in_force()
