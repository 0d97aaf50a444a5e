"""Figures in words."""

from __future__ import annotations

import pytest

from rpcaccel.bench.report.report import count, failures, machine, milliseconds, percent
from rpcaccel.bench.report.statistics import Summary


@pytest.mark.parametrize(
    ("seconds", "written"), [(None, "–"), (0.0, "0.00"), (0.00123, "1.23"), (0.0123, "12.3"), (1.2345, "1234")]
)
def test_milliseconds_have_the_digits_that_mean_something(seconds: float | None, written: str) -> None:
    assert milliseconds(seconds) == written


def test_numbers_shares_and_failures() -> None:
    assert [count(value) for value in (None, 12345.6, 3.14159)] == ["–", "12,346", "3.14"]
    assert [percent(value) for value in (None, 0.0, 0.995, 1.0)] == ["–", "0 %", "99.5 %", "100 %"]
    assert failures(Summary(5, 0)) == "0"
    assert failures(Summary(5, 3, {"timeout": 2, "http 502": 1})) == "3 (timeout: 2, http 502: 1)"


def test_a_report_names_machine_and_versions() -> None:
    facts = machine()
    assert "cores" in facts["machine"]
    assert "rpcaccel" in facts["versions"]
