"""The pieces of a range: where the cuts lie, which missing pieces are fetched together, and the way back to one result.

Blocks are pieces of their own. Logs are cut on a fixed grid, so that windows that shift share the segments they have in
common. What a range covers of a segment at its edge is asked for exactly, unless the range is long: then the whole
segment is little more, and the next window finds it. Items stay the raw text a node sent, and are put together with the
separators a node uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from rpcaccel.core.plan.block_range import Range
from rpcaccel.core.wire.json_text import UNREADABLE

MOST = 2048
"""Pieces that one call may have: looking each of them up takes a microsecond or two of everybody's time."""
BRIDGE = 8
"""Known blocks that are fetched once more rather than making two calls of one: some kilobytes against a round trip."""


LONG = 4
"""Segments from which a range is long: fetching its edges whole costs a node at most half as much again, once."""


class Piece(Struct, frozen=True, gc=False):
    """Some consecutive blocks (inclusive) of a range, kept together."""

    first: int
    last: int
    open: bool = False
    """The end of a range that reaches beyond what is settled, kept until the next head. What is not final of it is
    asked of one node in one piece, so that two branches of a chain never meet in one result."""
    whole: tuple[int, int] | None = None
    """The segment of the grid that this is an edge of, when all of it is settled."""

    @property
    def length(self) -> int:
        """Blocks in it."""
        return self.last - self.first + 1


class _Log(Struct, gc=False):
    blockNumber: str | int  # the node's own spelling


_items = msgspec.json.Decoder(list[Raw]).decode
_log = msgspec.json.Decoder(_Log).decode


def cut(span: Range, segment: int) -> list[Piece]:
    """The pieces of a range in order; [] when there are more than MOST. `segment`: blocks in a segment of logs."""
    step = segment if span.way == "logs" else 1
    if (span.last - span.first) // step > MOST:
        return []
    found = []
    first = span.first
    while first <= span.last:
        start = first - first % step
        end = start + step - 1
        if end > span.settled:  # nobody may keep this segment as a whole yet
            found.append(Piece(first, span.last, open=span.last > span.settled))
            break
        last = min(end, span.last)
        found.append(Piece(first, last, whole=None if (first, last) == (start, end) else (start, end)))
        first = last + 1
    return found


def missing(pieces: Sequence[Piece], known: Sequence[bool], most: int) -> list[tuple[int, int]]:
    """The runs of pieces to fetch, as positions (inclusive): at most `most` of them, short gaps bridged."""
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
    """A run in at most `parts` parts of about as many blocks."""
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
    """A run with whole segments at the edges of a long range; as it is when that is not worth it, or more than `most`
    (the greatest difference of last and first block that nodes take)."""
    if span.length < LONG * segment:
        return run
    wide = [piece if piece.whole is None else Piece(*piece.whole) for piece in run]
    return run if most is not None and wide[-1].last - wide[0].first > most else wide


def halves(pieces: Sequence[Piece], span: Range) -> tuple[Sequence[Piece], Sequence[Piece]] | None:
    """Two smaller runs in place of one that a node found too large; None when it cannot be made smaller."""
    if len(pieces) > 1:
        middle = len(pieces) // 2
        return pieces[:middle], pieces[middle:]
    (piece,) = pieces
    middle = span.final if piece.last > span.final else (piece.first + piece.last) // 2
    if not piece.first <= middle < piece.last:
        return None
    settled = span.settled
    return [Piece(piece.first, middle, middle > settled)], [Piece(middle + 1, piece.last, piece.last > settled)]


def share(way: Literal["blocks", "logs"], result: bytes, pieces: Sequence[Piece]) -> list[bytes] | None:
    """The result of each piece out of the result of a run; None when it is not the result of the whole run, or does
    not say which item belongs where."""
    try:
        items = _items(result)
        if way == "blocks":
            return _share_blocks(items, pieces)
        return [result] if len(pieces) == 1 else _share_logs(items, pieces)
    except (*UNREADABLE, ValueError):
        return None


def within(result: bytes, first: int, last: int) -> bytes | None:
    """The logs of some blocks, out of those of more; None when they do not tell their blocks."""
    try:
        return join(log for log in _items(result) if first <= _number(log) <= last)
    except (*UNREADABLE, ValueError):
        return None


def join(items: Iterable[bytes | Raw]) -> bytes:
    """One list, with the separators that nodes write."""
    return b"[" + b",".join(items) + b"]"


def merge(results: Iterable[bytes]) -> bytes:
    """The lists `results` as one."""
    insides = (result.strip()[1:-1].strip() for result in results)
    return join(inside for inside in insides if inside)


def _share_blocks(items: list[Raw], pieces: Sequence[Piece]) -> list[bytes] | None:
    """An item for each block; only the open end may have fewer."""
    is_open = pieces[-1].open
    closed = len(pieces) - is_open
    if len(items) < closed or (len(items) > closed and not is_open):
        return None
    shares = [join((item,)) for item in items[:closed]]
    return [*shares, join(items[closed:])] if is_open else shares


def _share_logs(items: list[Raw], pieces: Sequence[Piece]) -> list[bytes] | None:
    """Each log to the piece of its block, which come in order."""
    shares: list[list[Raw]] = [[] for _ in pieces]
    at, before = 0, pieces[0].first
    for item in items:
        number = _number(item)
        if not before <= number <= pieces[-1].last:
            return None
        before = number
        while number > pieces[at].last:
            at += 1
        shares[at].append(item)
    return [join(logs) for logs in shares]


def _number(log: Raw) -> int:
    return int(str(_log(log).blockNumber), 0)
