"""Silences, and the file that keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpcaccel.controlplane.alerts.silences import (
    AlertSilence,
    LostSilencesError,
    SilenceFile,
    in_force,
    silenced_by,
)


def silence(what: str, until: float = 100.0) -> AlertSilence:
    return AlertSilence(id=what, what=what, until=until, by="ann", reason="work", at=1.0)


@pytest.mark.parametrize(
    ("what", "covers"),
    [("all", True), ("1f", True), ("s0/a", True), ("s0", True), ("s", False), ("s0/b", False), ("2a", False)],
)
def test_a_silence_is_about_a_subject_an_alert_a_network_with_its_nodes_or_everything(what: str, covers: bool) -> None:
    assert (silenced_by([silence(what)], "1f", "s0/a") is not None) is covers


def test_of_several_the_longest_counts_and_what_has_ended_does_not() -> None:
    both = [silence("s0", 50), silence("all", 70)]
    assert silenced_by(in_force(both, 49), "x", "s0") == both[1]
    assert silenced_by(in_force(both, 70), "x", "s0") is None


def test_the_file_gives_back_what_was_saved_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    file = SilenceFile.beside(tmp_path / "rpcaccel.state.json")
    assert file.load() == ()
    file.save([silence("s0"), silence("all")])
    assert file.path.name == "rpcaccel.silences.json"
    assert file.load() == (silence("s0"), silence("all"))
    assert file.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "damaged"),
        (b'{"version":2,"silences":[]}', "version 2"),
        (b"x" * (1 << 20) + b"x", "damaged"),
        (b"\xff", "damaged"),
        (b'{"version":1,"silences":[{"id":"a","what":"all","until":1e300,"by":"ann","at":1}]}', "damaged"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "s").write_bytes(content)
    with pytest.raises(LostSilencesError, match=why):
        SilenceFile(tmp_path / "s").load()
