"""`bench steps`: read from what the proxy exposes."""

from __future__ import annotations

from rpcaccel.bench.runs.steps import passed, read, reported
from rpcaccel.controlplane.stats import prometheus
from rpcaccel.controlplane.stats.snapshot import Frame
from rpcaccel.core.stats.counters import Step
from rpcaccel.core.stats.tally import Tally


def exposed(*observed: tuple[Step, float]) -> str:
    """What /metrics says after these steps."""
    tally = Tally()
    for step, seconds in observed:
        tally.step(step, seconds)
    return prometheus.render(Frame(snapshot=tally.snapshot(), nodes=(), heads=(), workers=())).decode()


def test_only_what_was_counted_between_two_readings_is_told() -> None:
    before = read(exposed((Step.PARSE, 0.5), (Step.FORWARD, 0.5)))
    after = read(exposed((Step.PARSE, 0.5), (Step.FORWARD, 0.5), (Step.PARSE, 25e-6), (Step.FORWARD, 0.004)))
    report = reported(passed(before, after), 2.0, "here")
    assert [(row[0], row[1]) for row in report.tables[0].rows] == [("parse", "1"), ("forward", "1")]
    assert report.tables[0].rows[1][-1] == "71.4 %"  # of parsing one in 64 is timed: 4 ms against 64 * 25 µs
    assert report.remarks == ["nothing was counted for disk, redis, flight"]
    (shares,) = report.plots
    assert [row[:2] for row in shares.rows] == [("parse", "28.6"), ("forward", "71.4")]


def test_a_proxy_without_calls_is_said_to_have_none() -> None:
    report = reported(read(exposed()), 0.0, "here", stopped=True)
    assert report.facts["time"] == "since its start"
    assert ["interrupted" in report.remarks[0], "no call" in report.remarks[1]] == [True, True]
