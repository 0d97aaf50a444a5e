"""What is found wrong in the streams of subscribers."""

from __future__ import annotations

from typing import Any

from locustfiles.live_stream import HeadSequence, LogSequence


def head(number: int, branch: str = "a", parent: str = "") -> dict[str, Any]:
    return {"number": hex(number), "hash": f"{branch}{number}", "parentHash": parent or f"{branch}{number - 1}"}


def log(number: int, index: int = 0, branch: str = "a", *, removed: bool = False) -> dict[str, Any]:
    place = {"blockNumber": hex(number), "blockHash": f"{branch}{number}", "logIndex": hex(index)}
    return {**place, "removed": removed}


def faults(stream: HeadSequence | LogSequence, *sent: dict[str, Any]) -> list[str]:
    return [stream.take(one) for one in sent]


def test_one_block_after_the_other_is_right_wherever_it_begins() -> None:
    stream = HeadSequence()
    assert faults(stream, head(7), head(8), head(9)) == ["", "", ""]
    assert (stream.tip, stream.heads, stream.branch) == (9, 3, {7: "a7", 8: "a8", 9: "a9"})


def test_a_block_left_out_is_a_gap_once_and_one_sent_again_is_a_double() -> None:
    stream = HeadSequence()
    assert faults(stream, head(7), head(9), head(10), head(10), head(9)) == ["", "gap", "", "double", "double"]


def test_a_reorganisation_goes_on_from_any_block_of_the_branch_but_not_from_an_abandoned_one() -> None:
    stream = HeadSequence()
    told = [head(7), head(8), head(9), head(8, "b", "a7"), head(9, "b"), head(10)]
    assert faults(stream, *told) == [""] * 5 + ["gap"]
    assert (stream.tip, stream.reorganisations) == (10, 1)
    assert faults(stream, head(8, "c", "a7")) == ["gap"]


def test_a_block_that_is_adopted_again_is_no_double() -> None:
    stream = HeadSequence()
    assert faults(stream, head(7), head(8), head(8, "b", "a7"), head(8), head(9)) == [""] * 5


def test_a_stream_that_resumes_is_sent_again_what_it_asked_for_and_nothing_else() -> None:
    stream = HeadSequence()
    stream.resume(5)
    faults(stream, head(7), head(8), head(9))
    stream.resume(8)
    assert faults(stream, head(8), head(9), head(9)) == ["", "", "double"]
    stream.resume(9)
    assert faults(stream, head(9, "b", "a8"), head(10, "b")) == ["", ""]  # reorganised while nobody listened
    stream.resume(11)
    assert faults(stream, head(12, "b")) == ["gap"]


def test_logs_come_in_the_order_of_blocks_and_of_their_index() -> None:
    stream = LogSequence()
    assert faults(stream, log(5, 0), log(5, 3), log(9, 1)) == ["", "", ""]
    assert faults(stream, log(9, 1), log(9, 0), log(8, 0), log(9, 2, "b")) == [
        "double",
        "out of order",
        "out of order",
        "",
    ]
    assert faults(LogSequence(), log(9, 1), log(9, 2, "b")) == ["", "out of order"]


def test_logs_are_taken_back_before_those_of_the_other_branch_come() -> None:
    stream = LogSequence()
    old = [log(5), log(6), log(7)]
    back = [log(6, removed=True), log(7, removed=True)]
    assert faults(stream, *old, *back, log(6, 0, "b"), log(7, 0, "b")) == [""] * 7
    assert (stream.taken, stream.removed, stream.tip) == (5, 2, 7)
    assert LogSequence().tip is None
    assert faults(stream, log(6, removed=True)) == ["gap"]
    assert faults(LogSequence(), *old, log(6, 0, "b")) == ["", "", "", "out of order"]


def test_a_stream_of_logs_that_resumes_is_sent_those_of_the_block_again() -> None:
    stream = LogSequence()
    faults(stream, log(5), log(6, 0), log(6, 1))
    stream.resume(6)
    assert faults(stream, log(6, 0), log(6, 1), log(6, 1), log(5)) == ["", "", "double", "double"]


def test_the_logs_of_the_chain_are_compared_by_their_place() -> None:
    stream = LogSequence()
    faults(stream, log(5), log(6))
    chain = [log(5, 0, "false"), log(6), log(6, 1)]
    assert (stream.missing(chain), stream.extra(chain), stream.extra(chain[:1])) == (1, 0, 1)


def test_what_is_remembered_is_bounded() -> None:
    heads, logs = HeadSequence(most=5), LogSequence(most=5)
    for number in range(1, 20):
        assert heads.take(head(number)) == logs.take(log(number)) == ""
    assert sorted(heads.branch) == [15, 16, 17, 18, 19]
    assert repr(logs) == "<LogSequence of 5 logs>"
    assert repr(heads) == "<HeadSequence at 19, 19 heads>"
