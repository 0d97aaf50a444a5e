"""The values of the swarms' --gate options."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from locustfiles.gates import GATES, milliseconds, share, written


@pytest.mark.parametrize(("text", "found"), [("250ms", 250), ("1.5s", 1500), ("2m", 120_000), ("200", 200), ("1", 1)])
def test_a_time_is_read_in_milliseconds(text: str, found: float) -> None:
    assert milliseconds(text) == found


@pytest.mark.parametrize(("text", "found"), [("1.5%", 0.015), ("0%", 0), ("100 %", 1), ("0.001", 0.001), ("1", 1)])
def test_a_share_is_read_as_a_part_of_one(text: str, found: float) -> None:
    assert share(text) == pytest.approx(found)


@pytest.mark.parametrize("text", ["", "fast", "5x", "0.5ms", "1h", "-1", "nan", "inf", "1%"])
def test_what_is_no_time_within_the_bounds_is_said_with_what_was_expected(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=r"^found '.*', expected a time from 1ms to 10m such as 250ms"):
        milliseconds(text)


@pytest.mark.parametrize("text", ["", "few", "5", "101%", "-1%", "nan", "nan%", "1ms", "%"])
def test_what_is_no_share_is_said_with_what_was_expected(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=r"^found '.*', expected a share from 0% to 100% such as 1.5%"):
        share(text)


def test_each_default_is_what_its_help_says() -> None:
    for _, read, default, spelt, text in GATES:
        assert read(spelt) == pytest.approx(default)
        assert "such as" in text


def test_a_gate_is_told_with_its_sign_and_unit() -> None:
    told = {name: written(name, default) for name, _, default, *_ in GATES}
    assert told == {"mean": "≤ 200 ms", "p99": "≤ 2000 ms", "errors": "≤ 0.1 %", "hits": "≥ 0 %"}
