"""The pieces of a range: where it is split, which missing pieces are fetched together, and how results are joined.

Each block is a piece of its own. Logs are split on a fixed grid of segments, so that overlapping ranges share segments,
and so are the traces of some addresses; all traces of a block are a piece.
At the edges of a range the exact part of a segment is fetched, unless the range is long: then the whole segment costs
little more, and the next range finds it. Items stay the raw text that a node sent, and are joined with the separators
that nodes write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Raw, Struct

from rpcaccel.core.plan.block_range import MOST_TRACES, Range
from rpcaccel.core.plan.rules import RangeForm
from rpcaccel.core.stepwise import Steps
from rpcaccel.core.wire.json_text import UNREADABLE

MAX_SEGMENTS = 2048
"""Pieces that one call may have: looking up each piece takes one or two microseconds of the event loop."""
BRIDGE = 8
"""Known blocks in a gap that are fetched again to avoid a second call: some kilobytes instead of a round trip."""


LOGS_A_STEP = 64
"""Logs or traces that are looked at in one step."""
LONG = 4
"""Segments from which a range is long: fetching its edges whole costs a node at most half as much again."""


class Piece(Struct, frozen=True, gc=False):
    """Consecutive blocks of a range (inclusive) that are kept as one entry."""

    first: int
    last: int
    open: bool = False
    """The piece reaches beyond the settled blocks and is kept until the next head. Its blocks that are not final are
    fetched from one node in one call, so that a result never mixes two branches of a chain; what a node found too large
    is divided there as well, and not kept."""
    whole: tuple[int, int] | None = None
    """The segment of the grid of which this piece is a part, if the whole segment is settled."""

    @property
    def length(self) -> int:
        """Number of blocks."""
        return self.last - self.first + 1


class _Log(Struct, gc=False):
    blockNumber: str | int  # the node's own spelling


_OPEN, _SPACE = ord("["), frozenset(b" \t\r\n")
_items = msgspec.json.Decoder(list[Raw]).decode
_log = msgspec.json.Decoder(_Log).decode


def cut(span: Range, segment: int) -> list[Piece]:
    """Split a range into pieces, in order; [] when there are over MAX_SEGMENTS. `segment`: blocks in one on the
    grid."""
    step = 1 if span.by_block else segment
    if (span.last - span.first) // step > MAX_SEGMENTS:
        return []
    found = []
    first = span.first
    while first <= span.last:
        start = first - first % step
        end = start + step - 1
        if end > span.settled:  # the segment as a whole may not be kept yet
            found.append(Piece(first, span.last, open=span.last > span.settled))
            break
        last = min(end, span.last)
        found.append(Piece(first, last, whole=None if (first, last) == (start, end) else (start, end)))
        first = last + 1
    return found


def missing(pieces: Sequence[Piece], known: Sequence[bool], most: int) -> list[tuple[int, int]]:
    """The runs of pieces to fetch, as indexes (inclusive): at most `most` runs, with short gaps bridged."""
    bridge = BRIDGE
    while True:
        runs: list[tuple[int, int]] = []
        for position, is_known in enumerate(known):
            if is_known:
                continue
            if runs and pieces[position].first - pieces[runs[-1][1]].last - 1 <= bridge:
                runs[-1] = (runs[-1][0], position)
            else:
                runs.append((position, position))
        if len(runs) <= most:
            return runs
        bridge *= 2


def divide(pieces: Sequence[Piece], parts: int) -> list[Sequence[Piece]]:
    """Divide a run into at most `parts` parts with about the same number of blocks."""
    goal = sum(piece.length for piece in pieces) / max(1, parts)
    divided: list[Sequence[Piece]] = []
    begin, length = 0, 0
    for position, piece in enumerate(pieces):
        if length and length + piece.length / 2 > goal and len(divided) < parts - 1:
            divided.append(pieces[begin:position])
            begin, length = position, 0
        length += piece.length
    divided.append(pieces[begin:])
    return divided


def widen(run: Sequence[Piece], span: Range, segment: int, most: int | None) -> Sequence[Piece]:
    """Extend a run to whole segments at the edges of a long range.

    The run is unchanged when that does not pay, or when it would exceed `most`, the greatest difference of last and
    first block that nodes accept.
    """
    if span.length < LONG * segment:
        return run
    wide = [piece if piece.whole is None else Piece(*piece.whole) for piece in run]
    return run if most is not None and wide[-1].last - wide[0].first > most else wide


def smaller(pieces: Sequence[Piece], span: Range, most: int | None) -> list[Sequence[Piece]]:
    """Split a run that a node found too large: into runs of at most `most` blocks as far as pieces allow that, or into
    halves when `most` is None; [] when the run cannot be split."""
    if len(pieces) == 1:
        return _cut_piece(pieces[0], span, most)
    if most is None or most >= pieces[-1].last - pieces[0].first + 1:
        return [pieces[: len(pieces) // 2], pieces[len(pieces) // 2 :]]
    runs: list[list[Piece]] = []
    for piece in pieces:
        if runs and piece.last - runs[-1][0].first < most:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    return list(runs)


def _cut_piece(piece: Piece, span: Range, most: int | None) -> list[Sequence[Piece]]:
    """Split one piece: where the final blocks end if it reaches beyond them, else into about equal parts."""
    if piece.first <= span.final < piece.last:
        ends = [span.final, piece.last]
    else:
        parts = 2 if most is None or most >= piece.length else -(-piece.length // max(1, most))
        ends = [piece.first - 1 + piece.length * (number + 1) // parts for number in range(parts)]
    if not piece.first <= ends[0] < piece.last:
        return []
    firsts = [piece.first, *(end + 1 for end in ends[:-1])]
    return [[Piece(first, last, last > span.settled)] for first, last in zip(firsts, ends, strict=True)]


def share(way: RangeForm, result: bytes, pieces: Sequence[Piece]) -> Steps[list[bytes] | None]:
    """Split the result of a run into the results of its pieces.

    None when the result may not cover the whole run, or does not show which item belongs to which piece.
    """
    try:
        items = _items(result)
        yield
        if way == "blocks":
            return _share_blocks(items, pieces)
        if way == "traces" and len(items) >= MOST_TRACES:
            return None
        return [result] if len(pieces) == 1 else (yield from _share_logs(items, pieces))
    except (*UNREADABLE, ValueError):
        return None


def within(result: bytes, first: int, last: int) -> Steps[bytes | None]:
    """The logs of the blocks `first` to `last`, out of those of more blocks; None when a log does not name its
    block."""
    try:
        items = _items(result)
        kept: list[Raw] = []
        for at in range(0, len(items), LOGS_A_STEP):
            yield
            kept += [log for log in items[at : at + LOGS_A_STEP] if first <= _number(log) <= last]
    except (*UNREADABLE, ValueError):
        return None
    exact = join(kept)
    yield
    return exact


def join(items: Iterable[bytes | memoryview | Raw]) -> bytes:
    """Join items into one list, with the separators that nodes write."""
    return b"[" + b",".join(items) + b"]"


def merge(results: Iterable[bytes]) -> bytes:
    """Join lists into one; what is in them is copied once."""
    insides = (_inside(result) for result in results)
    return join(inside for inside in insides if inside)


def _inside(result: bytes) -> memoryview | bytes:
    """The items of a list, with the separators between them."""
    text = memoryview(result)[1:-1]
    compact = text and result[0] == _OPEN and not (text[0] in _SPACE or text[-1] in _SPACE or result[-1] in _SPACE)
    return text if compact else result.strip()[1:-1].strip()


def _share_blocks(items: list[Raw], pieces: Sequence[Piece]) -> list[bytes] | None:
    """The results of pieces of one item for each block; only the open piece may have fewer."""
    is_open = pieces[-1].open
    closed = len(pieces) - is_open
    if len(items) < closed or (len(items) > closed and not is_open):
        return None
    shares = [join((item,)) for item in items[:closed]]
    return [*shares, join(items[closed:])] if is_open else shares


def _share_logs(items: list[Raw], pieces: Sequence[Piece]) -> Steps[list[bytes] | None]:
    """The results of pieces of logs; the logs are in the order of their blocks."""
    shares: list[list[Raw]] = [[] for _ in pieces]
    at, before = 0, pieces[0].first
    for position, item in enumerate(items):
        if not position % LOGS_A_STEP:
            yield
        number = _number(item)
        if not before <= number <= pieces[-1].last:
            return None
        before = number
        while number > pieces[at].last:
            at += 1
        shares[at].append(item)
    joined = []
    for logs in shares:
        joined.append(join(logs))
        yield
    return joined


def _number(log: Raw) -> int:
    return int(str(_log(log).blockNumber), 0)
