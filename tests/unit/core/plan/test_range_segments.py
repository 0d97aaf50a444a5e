"""Where a range is cut, and how its pieces become one result again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rpcaccel.core.plan import range_segments
from rpcaccel.core.plan.block_range import MOST_TRACES, Range
from rpcaccel.core.plan.range_segments import LOGS_A_STEP, MAX_SEGMENTS, Piece
from rpcaccel.core.plan.rules import RangeForm
from rpcaccel.core.stepwise import at_once


def span(first: int, last: int, settled: int = 10_000, way: RangeForm = "logs") -> Range:
    return Range(way=way, method="m", tag=b"t", first=first, last=last, settled=settled, final=settled,
                 depth=0, name=b"[\0,\1]", call=b'["\0","\1"]', by_block=way == "blocks")  # fmt: skip


def ends(settled: int, final: int = 0) -> Range:
    """A range of a chain that is settled and final up to there."""
    return replace(span(0, 1, settled), final=final or settled)


def share(way: RangeForm, result: bytes, pieces: Sequence[Piece]) -> list[bytes] | None:
    return at_once(range_segments.share(way, result, pieces))


def within(result: bytes, first: int, last: int) -> bytes | None:
    return at_once(range_segments.within(result, first, last))


def logs(*numbers: int) -> bytes:
    return range_segments.join(b'{"blockNumber":"0x%x","logIndex":"0x0"}' % number for number in numbers)


def test_blocks_are_pieces_of_their_own_up_to_what_is_settled() -> None:
    assert range_segments.cut(span(5, 7, way="blocks"), 128) == [Piece(5, 5), Piece(6, 6), Piece(7, 7)]
    assert range_segments.cut(span(5, 9, 6, "blocks"), 128) == [Piece(5, 5), Piece(6, 6), Piece(7, 9, open=True)]


def test_logs_are_cut_on_a_fixed_grid_and_an_edge_knows_its_segment() -> None:
    assert range_segments.cut(span(100, 300), 128) == [
        Piece(100, 127, whole=(0, 127)),
        Piece(128, 255),
        Piece(256, 300, whole=(256, 383)),
    ]


def test_a_segment_that_is_not_settled_yet_is_asked_for_exactly() -> None:
    assert range_segments.cut(span(128, 300, 350), 128) == [Piece(128, 255), Piece(256, 300)]


def test_everything_from_the_first_unsettled_segment_on_is_one_piece() -> None:
    assert range_segments.cut(span(128, 700, 300), 128) == [Piece(128, 255), Piece(256, 700, open=True)]
    assert range_segments.cut(span(400, 700, 300), 128) == [Piece(400, 700, open=True)]


def test_a_range_of_too_many_pieces_is_left_whole() -> None:
    assert len(range_segments.cut(span(0, MAX_SEGMENTS, 10**9, "blocks"), 1)) == MAX_SEGMENTS + 1
    assert range_segments.cut(span(0, MAX_SEGMENTS + 1, 10**9, "blocks"), 1) == []


@given(first=st.integers(0, 500), length=st.integers(1, 400), settled=st.integers(-1, 900), step=st.integers(1, 150),
       way=st.sampled_from(["blocks", "logs"]))  # fmt: skip
def test_pieces_cover_a_range_without_gap_or_overlap(
    first: int, length: int, settled: int, step: int, way: RangeForm
) -> None:
    last = first + length - 1
    cuts = range_segments.cut(span(first, last, settled, way), step)
    covered = [number for piece in cuts for number in range(piece.first, piece.last + 1)]
    assert covered == list(range(first, last + 1))
    assert not any(piece.open for piece in cuts[:-1])
    assert cuts[-1].open == (last > settled)
    assert all(piece.last <= settled for piece in cuts if not piece.open)


def test_missing_pieces_are_fetched_in_runs_over_short_gaps() -> None:
    cuts = range_segments.cut(span(0, 29, way="blocks"), 1)
    known = [number in {3, 4, *range(12, 25)} for number in range(30)]
    assert range_segments.missing(cuts, known, 32) == [(0, 11), (25, 29)]


def test_no_more_runs_than_allowed() -> None:
    cuts = range_segments.cut(span(0, 999, way="blocks"), 1)
    known = [number % 20 != 0 for number in range(1000)]
    assert len(range_segments.missing(cuts, known, 100)) == 50
    assert len(range_segments.missing(cuts, known, 10)) <= 10
    assert range_segments.missing(cuts, [True] * 1000, 10) == []


@given(count=st.integers(1, 300), parts=st.integers(1, 9))
def test_a_run_is_divided_evenly(count: int, parts: int) -> None:
    cuts = range_segments.cut(span(0, count - 1, way="blocks"), 1)
    divided = range_segments.divide(cuts, parts)
    assert [piece for part in divided for piece in part] == cuts
    assert len(divided) <= parts
    assert max(map(len, divided)) - min(map(len, divided)) <= parts


def test_the_edges_of_a_long_range_are_fetched_whole() -> None:
    run = range_segments.cut(span(100, 700), 128)
    assert range_segments.widen(run, span(100, 700), 128, 1024) == range_segments.cut(span(0, 767), 128)
    assert range_segments.widen(run[1:3], span(100, 700), 128, 1024) == run[1:3]
    assert range_segments.widen(run, span(100, 700), 128, 700) == run
    assert range_segments.widen(run, span(100, 700), 256, None) == run


def test_what_is_too_large_is_halved_down_to_one_block() -> None:
    assert range_segments.smaller([Piece(0, 127), Piece(128, 255)], ends(999), None) == [
        [Piece(0, 127)],
        [Piece(128, 255)],
    ]
    assert range_segments.smaller([Piece(0, 127)], ends(999), None) == [[Piece(0, 63)], [Piece(64, 127)]]
    assert range_segments.smaller([Piece(5, 5)], ends(999), None) == []
    ten = [Piece(at, at + 9) for at in (0, 10, 20)]
    assert range_segments.smaller(ten, ends(999), 20) == [ten[:2], ten[2:]]


def test_an_open_piece_is_divided_first_where_another_branch_cannot_reach() -> None:
    final, rest = range_segments.smaller([Piece(256, 700, open=True)], ends(250, 300), 100)
    assert (final, rest) == ([Piece(256, 300, open=True)], [Piece(301, 700, open=True)])
    assert range_segments.smaller(final, ends(250, 300), None) == [
        [Piece(256, 277, open=True)],
        [Piece(278, 300, open=True)],
    ]
    assert range_segments.smaller([Piece(256, 300, open=True)], ends(280, 300), 23) == [
        [Piece(256, 277)],
        [Piece(278, 300, open=True)],
    ]
    assert range_segments.smaller(rest, ends(250, 300), 200) == [
        [Piece(301, 500, open=True)],
        [Piece(501, 700, open=True)],
    ]


@given(
    st.integers(1, 300),
    st.integers(0, 999),
    st.integers(1, 999),
    st.integers(-1, 2000),
    st.none() | st.integers(0, 999),
)
def test_a_smaller_run_loses_no_block_and_is_as_long_as_pieces_allow(
    step: int, first: int, length: int, final: int, most: int | None
) -> None:
    asked = replace(span(first, first + length - 1, min(final, 1500)), final=final)
    pieces = range_segments.cut(asked, step)
    runs = range_segments.smaller(pieces, asked, most)
    assert [block for run in runs for piece in run for block in range(piece.first, piece.last + 1)] == (
        list(range(first, first + length)) if length > 1 else []
    )
    assert all(len(run) for run in runs)
    assert len(runs) != 1
    if most and len(pieces) > 1 and most < length:
        assert all(len(run) == 1 or run[-1].last - run[0].first < most for run in runs)


def test_the_blocks_of_a_run_are_shared_out_and_joined_byte_for_byte() -> None:
    result = b'[{"n":1e28},{"n": 2},{}]'
    run = [Piece(1, 1), Piece(2, 2), Piece(3, 3)]
    shares = share("blocks", result, run)
    assert shares == [b'[{"n":1e28}]', b'[{"n": 2}]', b"[{}]"]
    assert range_segments.merge(shares) == result


@pytest.mark.parametrize("result", [b"[{}]", b"[{},{},{}]", b"[]", b"null", b"{}", b"[{},", b'"0x"'])
def test_a_result_without_an_item_for_every_block_is_not_shared_out(result: bytes) -> None:
    assert share("blocks", result, [Piece(1, 1), Piece(2, 2)]) is None


def test_only_the_open_end_may_have_fewer_blocks() -> None:
    run = [Piece(1, 1), Piece(2, 9, open=True)]
    assert share("blocks", b"[{}]", run) == [b"[{}]", b"[]"]
    assert share("blocks", b"[{},1,2]", run) == [b"[{}]", b"[1,2]"]
    assert share("blocks", b"[]", run) is None


def test_logs_go_to_the_segment_of_their_block() -> None:
    run = [Piece(100, 127), Piece(128, 255), Piece(256, 300)]
    assert share("logs", logs(100, 127, 127, 300), run) == [logs(100, 127, 127), logs(), logs(300)]
    assert share("logs", b"[]", run) == [b"[]", b"[]", b"[]"]


@pytest.mark.parametrize(
    "result",
    [logs(300, 100), logs(99), logs(301), b"[{}]", b'[{"blockNumber":"x"}]', b'[{"blockNumber":null}]', b"null"],
)
def test_logs_that_do_not_say_where_they_belong_are_not_shared_out(result: bytes) -> None:
    assert share("logs", result, [Piece(100, 127), Piece(128, 300)]) is None


@pytest.mark.parametrize("pieces", [[Piece(0, 0)], [Piece(0, 0), Piece(1, 1)]])
def test_as_many_traces_as_were_asked_for_may_not_be_all(pieces: list[Piece]) -> None:
    trace = b'{"blockNumber":0}'
    assert share("traces", range_segments.join([trace] * (MOST_TRACES - 1)), pieces) is not None
    assert share("traces", range_segments.join([trace] * MOST_TRACES), pieces) is None


def test_the_logs_of_one_piece_need_not_tell_their_block_but_must_be_a_list() -> None:
    assert share("logs", b'[{"a":1}]', [Piece(1, 9)]) == [b'[{"a":1}]']
    assert share("logs", b"null", [Piece(1, 9)]) is None


def test_an_edge_is_taken_out_of_its_segment() -> None:
    assert within(logs(100, 110, 120, 127), 110, 120) == logs(110, 120)
    assert within(b"[]", 1, 2) == b"[]"
    assert within(b"[{}]", 1, 2) is None


ITEMS = st.lists(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=4), max_size=8)


@given(st.lists(ITEMS))
def test_merged_lists_are_the_list_a_node_would_have_written(parts: list[list[Any]]) -> None:
    def text(items: list[Any]) -> bytes:
        return json.dumps(items, separators=(",", ":")).encode()

    assert range_segments.merge(map(text, parts)) == text([item for part in parts for item in part])


def test_a_step_looks_at_no_more_logs_than_a_turn_of_the_loop_has_time_for() -> None:
    many = logs(*range(20 * LOGS_A_STEP))
    halves = [Piece(0, 10 * LOGS_A_STEP - 1), Piece(10 * LOGS_A_STEP, 20 * LOGS_A_STEP - 1)]
    assert len(list(range_segments.share("logs", many, halves))) >= 20
    assert len(list(range_segments.within(many, 0, 20 * LOGS_A_STEP))) >= 20


@pytest.mark.parametrize("odd", [b"[ ]", b" [1]", b"[1 ]", b"[ 1]", b"[1]\n", b"[\t]"])
def test_space_in_a_list_makes_no_difference_where_lists_are_joined(odd: bytes) -> None:
    expected = [1, 2] if b"1" in odd else [2]
    assert json.loads(range_segments.merge([odd, b"[2]"])) == expected
