"""The report of a swarm, and what it says of differences."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rpcaccel.bench.report import render
from rpcaccel.bench.report.proxy_figures import NodeWork, ProcessUse, ProxyFigures, TierUse
from rpcaccel.bench.report.report import Table
from rpcaccel.bench.report.swarm import BINS, ProxySide, SeenCalls, SwarmRun, differences, report
from rpcaccel.core.stats.histogram import Histogram

BEGAN = 1_700_000_000.25
SEEN = SeenCalls("eth_call", 1000, 10, 0.020, 0.015, 0.2, 0.5)
RUN = SwarmRun(
    swarm="dapp", host="http://proxy:8888", began=BEGAN, seconds=60.0, users=50, workers=2,
    gates={"mean": "≤ 200 ms"}, calls=[SEEN], total=replace(SEEN, name="all"), sent=replace(SEEN, name="sent"),
    answers=1200, failures=[("eth_call", "Failed('rpc -32603')", 10)], pace={int(BEGAN) + 1: 30, int(BEGAN) + 59: 12},
    busiest=0.4, generator="Locust 2",
)  # fmt: skip


def histogram(*seconds: float) -> Histogram:
    found = Histogram()
    for one in seconds:
        found.observe(one)
    return found


FIGURES = ProxyFigures(
    version="1.2", seconds=60.0, requests=1005, outcomes={"ok": 1190, "error": 8, "client_error": 2},
    hit=histogram(*[0.0001] * 600), miss=histogram(*[0.030] * 600),
    nodes=[NodeWork("a", 450, histogram(*[0.03] * 450), {"timeout": 3}), NodeWork("b", 150, Histogram())],
    tiers=[TierUse("memory", 5000, 12_300_000, 256_000_000, 700, 600, 0)],
    processes=[ProcessUse("w1", 30.0, 90_000_000)],
)  # fmt: skip
PROXY = ProxySide("http://proxy:8889", FIGURES, pace={"by itself": [(BEGAN + 2, 1.0, 50.0), (BEGAN + 3, 1.0, None)]})


def table(title: str, run: SwarmRun = RUN, proxy: ProxySide = PROXY) -> dict[str, tuple[str, ...]]:
    found: list[Table] = [one for one in report(run, proxy, []).tables if one.title == title]
    return {row[0]: row[1:] for row in found[0].rows} if found else {}


def said(run: SwarmRun = RUN, **changed: Any) -> list[str]:
    return list(differences(run, replace(PROXY, figures=replace(FIGURES, **changed))))


def test_a_run_without_peculiarities_is_told_without_remarks() -> None:
    assert said() == []


def test_the_verdict_stands_on_top_with_each_reason() -> None:
    passed, failed = report(RUN, PROXY, []), report(RUN, PROXY, ["the mean is 300 ms", "<b>"])
    assert "✔ passed" in render.html(passed)
    page = render.html(failed)
    assert page.index("✘ failed") < page.index("the mean is 300 ms") < page.index("&lt;b&gt;") < page.index("<dl>")
    assert render.markdown(failed).splitlines()[2:5] == ["✘ failed", "- the mean is 300 ms", "- <b>"]
    assert '"passed": false' in render.as_json(failed)


def test_swarm_and_proxy_stand_side_by_side() -> None:
    rows = table("Swarm and proxy side by side")
    assert rows["requests"] == ("1,000", "1,005")
    assert rows["answers, each of a batch"] == ("1,200", "1,200")
    assert rows["failed"] == ("10", "10")
    assert rows["hit ratio"] == ("50.0 %", "50.0 %")
    assert rows["mean, ms"] == ("20.0", "15.0")
    assert table("What the swarm saw").keys() == {"eth_call", "all"}
    assert table("The proxy: nodes") == {
        "a": ("450", "75.0 %", "30.0", "25.0", "29.9", "timeout: 3"),
        "b": ("150", "25.0 %", "–", "–", "–", "0"),
    }
    assert table("The proxy: workers") == {"w1": ("50 %", "90.0")}


def test_without_the_proxys_figures_the_swarms_part_is_told_and_why_there_are_no_others() -> None:
    alone = report(RUN, ProxySide(why_not="The proxy's own figures are missing: nobody answers."), [])
    assert [one.title for one in alone.tables] == ["What the swarm saw", "Failures"]
    assert alone.remarks == ["The proxy's own figures are missing: nobody answers."]
    assert alone.data["proxy"] is None


@pytest.mark.parametrize(
    ("words", "run", "changed"),
    [
        ("fewer than the 990", RUN, {"requests": 900}),
        ("calls of other clients", RUN, {"requests": 1200}),
        ("started again", RUN, {"requests": 900, "restarted": True}),
        ("a process of the swarm used 97 % of a core", replace(RUN, busiest=0.97), {}),
        ("more than 90 % of a core for some seconds", replace(RUN, warned=True), {}),
        ("20.0 ms passed between them", replace(RUN, sent=replace(SEEN, mean=0.035)), {}),
        ("Worker w1 of the proxy used 95 % of a core", RUN, {"processes": [ProcessUse("w1", 57.0, 1)]}),
        ("2 workers of the proxy died", RUN, {"replaced": 2}),
    ],
)
def test_a_difference_that_matters_is_said_in_words(words: str, run: SwarmRun, changed: dict[str, Any]) -> None:
    (sentence,) = said(run, **changed)
    assert words in sentence


def test_whatever_comes_from_outside_is_text_in_the_page() -> None:
    nasty = "<script>alert(1)</script>"
    run = replace(RUN, swarm=nasty, host=nasty, calls=[replace(SEEN, name=nasty)], failures=[(nasty, nasty, 1)])
    figures = replace(FIGURES, version=nasty, nodes=[NodeWork(nasty, 1, Histogram(), {nasty: 1})])
    page = render.html(report(run, ProxySide(nasty, figures, pace={nasty: [(BEGAN + 1, 1.0, 1.0)]}), [nasty]))
    assert "<script" not in page
    assert "src=" not in page
    assert page.count("&lt;script&gt;") > 8


@pytest.mark.parametrize("seconds", [0.0, 0.4, 1.0, 23.5, 60.0, 86_400.0])
def test_a_chart_has_a_bounded_number_of_bars_and_every_call_in_one(seconds: float) -> None:
    pace = {int(BEGAN) + second: 6 for second in range(int(seconds) + 1)}
    (plot, *_) = report(replace(RUN, seconds=seconds, pace=pace), ProxySide(), []).plots
    assert 1 <= len(plot.groups) <= BINS
    width = max(1, -(-int(seconds + 0.999) // BINS))
    assert sum(value or 0.0 for value in plot.series["calls"]) * width == pytest.approx(sum(pace.values()))


def test_points_of_the_proxy_are_averaged_within_a_bar() -> None:
    points = [(BEGAN + second + 1, 1.0, float(second % 2) * 10) for second in range(48)]
    drawn = report(replace(RUN, seconds=48.0), replace(PROXY, pace={"by itself": points, "failed": []}), []).plots[1]
    assert drawn.series == {"by itself": [5.0] * 24}
