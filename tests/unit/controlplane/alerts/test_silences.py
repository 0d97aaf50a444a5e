"""Silences: what they are about, and for how long."""

from __future__ import annotations

import pytest

from rpcaccel.controlplane.alerts.silences import AlertSilence, in_force, silenced_by


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
