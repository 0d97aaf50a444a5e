"""A replay of recorded calls, against one endpoint and against two."""

from __future__ import annotations

import pytest
from msgspec import Raw

from benchmarks.responder import HEAD, Responder
from rpcaccel.bench.load.client import parse
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.report import render
from rpcaccel.bench.runs.recording import Chosen, Line, RecordingHeader, choose
from rpcaccel.bench.runs.replaying import ReplayOptions, replay, schedule
from tests.support.serving import responding

LINES = [
    Line(at=4.0 + number / 100, method="eth_getBlockByNumber", params=Raw(b'["0x%x",false]' % number), head=100,
         block=number, source="memory", ms=1.5)
    for number in range(90, 100)
]  # fmt: skip
HERE = parse("http://127.0.0.1:1")


def chosen() -> Chosen:
    return choose(RecordingHeader(1), LINES)


def test_calls_are_due_as_they_were_recorded_or_faster_or_at_a_rate() -> None:
    asked = ReplayOptions(chosen(), (HERE,))
    assert [round(due.at, 3) for due in schedule(asked)][:3] == [0.0, 0.01, 0.02]
    assert [round(due.at, 3) for due in schedule(ReplayOptions(chosen(), (HERE,), speed=2))][:3] == [0.0, 0.005, 0.01]
    at_a_rate = schedule(ReplayOptions(chosen(), (HERE,), rate=10, duration=0.25))
    assert [round(due.at, 3) for due in at_a_rate] == [0.0, 0.1, 0.2]
    assert bytes(schedule(asked, head=1000)[0].call.params) == b'["0x3de",false]'


async def test_one_target_is_measured() -> None:
    responder = Responder(200)
    async with responding(responder) as url:
        report, well = await replay(ReplayOptions(chosen(), (parse(url),), rate=100, timeout=30.0), Watch())
    assert well
    assert responder.calls == 10
    shown = render.markdown(report)
    assert "Examples" not in shown
    assert report.data["targets"][parse(url).shown]["calls"] == 10


async def test_two_targets_are_compared_and_what_differs_is_no_success_unless_allowed() -> None:
    async with responding(Responder(200)) as url, responding(Responder(300)) as other:
        targets = (parse(url), parse(other))
        report, well = await replay(ReplayOptions(chosen(), targets, rate=100, timeout=30.0), Watch())
        allowed, fine = await replay(
            ReplayOptions(chosen(), targets, rate=100, timeout=30.0, allowed=("eth_*",)), Watch()
        )
    assert not well
    assert fine
    assert "10 of 10 answers differ" in report.remarks
    assert "10 of 10 answers differ, 10 of them where that is allowed" in allowed.remarks
    examples = next(table for table in report.tables if table.title == "Examples")
    assert examples.rows[0][:3] == ("eth_getBlockByNumber", '["0x5a",false]', "result.extraData")


async def test_a_target_where_every_call_failed_is_no_success(unused_tcp_port: int) -> None:
    gone = f"http://127.0.0.1:{unused_tcp_port}"
    report, well = await replay(ReplayOptions(chosen(), (parse(gone),), rate=100), Watch())
    assert not well
    assert f"every call to {gone} failed" in report.remarks


async def test_calls_follow_the_head_of_the_target() -> None:
    responder = Responder(200)
    async with responding(responder) as url:
        _, well = await replay(ReplayOptions(chosen(), (parse(url),), rate=100, follow_head=True), Watch())
    assert well
    assert b'["0x%x",false]' % (HEAD - 1) in responder.last


@pytest.mark.parametrize("same", [True, False])
async def test_a_pace_that_was_not_held_has_no_latencies_but_is_compared(same: bool) -> None:
    async with responding(Responder(200, latency=0.05)) as url, responding(Responder(200 if same else 300)) as other:
        asked = ReplayOptions(chosen(), (parse(url), parse(other)), rate=1000, connections=1, timeout=30.0)
        report, well = await replay(asked, Watch())
    assert well is same
    assert any("latencies are not reported" in remark for remark in report.remarks)
    assert report.tables[0].title == "Answers compared"
    assert any("alike" in remark for remark in report.remarks) is same


async def test_calls_that_failed_are_told_though_the_pace_was_not_held() -> None:
    responder = Responder(200, latency=0.05)
    responder.broken = {"eth_getBlockByNumber"}
    async with responding(responder) as url:
        report, _ = await replay(
            ReplayOptions(chosen(), (parse(url),), rate=1000, connections=1, timeout=30.0), Watch()
        )
    assert any("latencies are not reported" in remark for remark in report.remarks)
    assert f"{url}: failed: 10 (rpc -32000: 10)" in report.remarks
