"""What the log says when nodes and heads change."""

from __future__ import annotations

from typing import Any

import pytest

from rpcaccel.controlplane.stats import snapshot
from rpcaccel.controlplane.stats.notices import LogNotice, changes, tier_changes
from rpcaccel.core.heads.examination import Examination, PeerAgreement
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead, Served
from rpcaccel.core.stats.counters import TallySnapshot, Tier

WELL: dict[str, Any] = {"head": 200, "chain_ok": True, "answering": True}
SILENT: dict[str, Any] = {"head": 200, "chain_ok": True, "answering": False, "note": "no connection to http://a"}
WRONG: dict[str, Any] = {"chain_ok": False, "answering": True, "note": "it serves chain id 1, not 2"}
UNSURE: dict[str, Any] = {"answering": True, "note": "it does not say which chain it serves"}


def heads(about: str = "", **node: Any) -> NetworkHeads:
    return NetworkHeads(network="n", served=Served(head=200, note=about), nodes=(NodeHead(id="a", **node),))


def said(before: NetworkHeads | None, now: NetworkHeads) -> list[LogNotice]:
    return list(changes(before, now))


def test_a_node_that_is_well_from_the_start_is_no_news() -> None:
    assert said(None, heads(**WELL)) == []
    assert said(heads(), heads(**WELL)) == []


def test_a_node_that_stops_answering_is_said_once_with_the_reason() -> None:
    assert said(heads(**WELL), heads(**SILENT)) == [LogNotice("warning", SILENT["note"], "a")]
    again = {**SILENT, "note": "no connection to http://a (2 times in a row)"}
    assert said(heads(**SILENT), heads(**again)) == []


def test_a_node_that_comes_back_is_said() -> None:
    (notice,) = said(heads(**SILENT), heads(**WELL))
    assert (notice.level, notice.node) == ("info", "a")
    assert "answers" in notice.text


def test_a_node_of_another_chain_and_one_that_does_not_say_its_chain_are_warned_of() -> None:
    assert said(None, heads(**WRONG)) == [LogNotice("warning", WRONG["note"], "a")]
    assert said(heads(**SILENT), heads(**UNSURE)) == [LogNotice("warning", UNSURE["note"], "a")]


def test_a_lag_is_not_written_down() -> None:
    assert said(heads(**WELL), heads(**{**WELL, "head": 190})) == []


def test_a_note_about_the_head_is_said_once_though_its_numbers_change() -> None:
    first, later = heads("no new block for 46 s", **WELL), heads("no new block for 47 s", **WELL)
    assert said(heads(**WELL), first) == [LogNotice("warning", "no new block for 46 s")]
    assert said(first, later) == []
    (notice,) = said(later, heads(**WELL))
    assert (notice.level, notice.text) == ("info", "the head is followed again, at block 200")


def frame(*notices: snapshot.Notice, name: str = "redis", up: bool = True, fault: str = "") -> snapshot.Frame:
    tiers = [Tier("memory"), Tier(name, shared=True, up=up, fault=fault)]
    return snapshot.Frame(snapshot=TallySnapshot(tiers=tiers), nodes=(), heads=(), workers=(), notices=notices)


def redis(*, up: bool = True, fault: str = "") -> snapshot.Frame:
    return frame(up=up, fault=fault)


def disk(*, up: bool = True, fault: str = "") -> snapshot.Frame:
    return frame(name="disk", up=up, fault=fault)


MISSES = "its calls count as misses until it is back"
ASKS, IN_TIME, FULL = "h:1: it asks for a password", "h:1: no answer in time", "no space left on the disk"
WARNED = frame(snapshot.Notice("warn", "disk", "it was set aside"), snapshot.Notice("warn", "redis", "no maxmemory"))


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        (None, redis(), []),
        (None, redis(up=False), [f"redis is not reached; {MISSES}"]),
        (redis(), redis(up=False, fault=IN_TIME), [f"redis is not reached ({IN_TIME}); {MISSES}"]),
        (redis(up=False, fault=IN_TIME), redis(up=False, fault=IN_TIME), []),
        (
            redis(up=False, fault=IN_TIME),
            redis(up=False, fault=ASKS),
            [f"redis is not reached ({ASKS}); {MISSES}"],
        ),
        (redis(), redis(fault=IN_TIME), [f"a part of redis is not reached ({IN_TIME})"]),
        (None, disk(up=False), [f"the disk tier is set aside; {MISSES}"]),
        (disk(), disk(up=False, fault=FULL), [f"the disk tier is set aside ({FULL}); {MISSES}"]),
        (disk(up=False), disk(fault="its file was damaged"), ["the disk tier: its file was damaged"]),
        (frame(), WARNED, ["it was set aside", "no maxmemory"]),
        (WARNED, WARNED, []),
        (frame(), frame(snapshot.Notice("warn", "rpcaccel", "waits for a restart")), []),
    ],
)
def test_a_tier_that_is_lost_and_a_warning_about_one_are_each_said_once_with_the_reason(
    before: snapshot.Frame | None, now: snapshot.Frame, lines: list[str]
) -> None:
    assert list(tier_changes(before, now)) == [LogNotice("warning", line) for line in lines]


@pytest.mark.parametrize(
    ("before", "now", "line"),
    [
        (redis(up=False), redis(), "redis is reached again"),
        (redis(fault=IN_TIME), redis(), "redis is reached again"),
        (disk(up=False, fault=FULL), disk(), "the disk tier is in use again"),
    ],
)
def test_a_tier_that_is_back_is_said(before: snapshot.Frame, now: snapshot.Frame, line: str) -> None:
    assert list(tier_changes(before, now)) == [LogNotice("info", line)]


def test_an_examination_that_begins_and_one_that_has_ended_are_said_once() -> None:
    examination = Examination(at=5.0, head=200, state_from=0, logs_from=0, calls=98, seconds=1.5)
    (begun,) = said(heads(**WELL), heads(**WELL, examining=True))
    assert (begun.level, begun.examination, begun.text) == (
        "info",
        True,
        "the node is examined by shadow calls before it gets calls",
    )
    assert said(heads(**WELL, examining=True), heads(**WELL, examining=True)) == []
    (ended,) = said(heads(**WELL, examining=True), heads(**WELL, examination=examination))
    assert (ended.level, ended.examination, ended.node) == ("info", True, "a")
    assert ended.text == (
        "the node is examined (98 calls in 1.5 s): it has the state of every block; it has the logs of every block"
    )
    assert said(heads(**WELL, examination=examination), heads(**WELL, examination=examination)) == []


def test_a_node_that_differs_from_others_is_warned_of() -> None:
    examination = Examination(at=5.0, agreement=PeerAgreement(10, 1, "eth_call at block 7: result: 0x1 against 0x2"))
    (notice,) = said(heads(**WELL), heads(**WELL, examination=examination))
    assert notice.level == "warning"
    assert "9 of 10 answers agree with other nodes: eth_call at block 7" in notice.text
