"""What was counted over time, in one SQLite table in memory: a row for each part, time slot and rollup.

A rollup is a table of slots of one length. What is counted is added to the current slot of every rollup of its group,
so that all of them tell the same of the same time, and the newest slot is merely not full yet. Slots are aligned to
1970. Sums are made by SQLite, which holds no interpreter lock meanwhile. The table may be used by any thread, by one
at a time: a sum of a day of 30 nodes takes up to a second, so the event loop leaves it to others.

The clock may be set while the program runs. A rollup keeps a number of slots until now, and as many after it: what a
clock that is behind for a while makes seem not yet due is kept, and shown again when the clock is right.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from rpcaccel.controlplane.stats.buckets import (
    COUNTERS,
    CREDITS,
    Bucket,
    NodeKey,
    NodeSpending,
    NodeSums,
    bucket_from,
)
from rpcaccel.core.stats.histogram import BUCKETS, Histogram


class Rollup(Struct, frozen=True):
    """One length of slots."""

    every: int
    """Seconds that a slot covers."""
    shown: int
    """Slots that the range covers."""
    kept: int
    """Slots that are kept: more than are shown, so that a clock which is ahead for a while has some to push out."""


ROLLUPS: dict[str, dict[str, Rollup]] = {
    "network": {"1h": Rollup(15, 240, 300), "24h": Rollup(300, 288, 360), "7d": Rollup(1800, 336, 420)},
    "client": {"1h": Rollup(60, 60, 75), "24h": Rollup(900, 96, 120)},
    "node": {"hour": Rollup(60, 60, 64), "day": Rollup(600, 144, 148)},
}
"""The rollups by group and range. Every length is a multiple of the shortest of all."""
MAX_TABLE_BYTES = 80_000_000
"""Beyond this, the older half of the rollup with the most rows is deleted."""
MAX_ROWS = {"network": 1000, "client": 200, "name": 1000, "node": 1000, "method": 2000, "credits": 4000}
"""Rows of a kind in one slot; those with the most calls are kept."""
TABLE_VERSION = 2
"""The version of a saved table. Version 1 was no SQLite database."""

WHOLE_KIND = "whole"
"""The kind of the row that every slot has: its time, and the sums of everything."""
KINDS = (WHOLE_KIND, "network", "client", "name", "node", "failure", "method", "lag", "agreement", "credits")
"""What a row may tell of. `name` counts the errors of a network by JSON-RPC code, or what was refused to a client by
reason; `credits` has those of a network or node by name (CREDITS), as its calls, and is there only where a node has
costs; the kinds from `failure` to `agreement` are parts of a node."""

Key = tuple[str, str, str, str]
"""Kind, network or client, node, and name (of a code, a reason, a method and so on)."""
Counted = Mapping[Key, Sequence[float]]
"""The numbers of each part, in the order of `numbers_of`; the rest of them is 0."""

_HIT = [f"hit_{bucket}" for bucket in range(BUCKETS)]
_MISS = [f"miss_{bucket}" for bucket in range(BUCKETS)]
_TYPES = dict.fromkeys(("spared_seconds", "hit_seconds", "miss_seconds"), "REAL")
_NUMBERS = (*COUNTERS, "hit_seconds", "miss_seconds", *_HIT, *_MISS)
_NOTHING = (0,) * len(_NUMBERS)
_KEY = "rollup, kind, slot, network, node, name"
_NAMES = ("rollup", "kind", "network", "node", "name")
_TABLE = f"""CREATE TABLE history (
    rollup TEXT NOT NULL, kind TEXT NOT NULL, slot INTEGER NOT NULL, network TEXT NOT NULL, node TEXT NOT NULL,
    name TEXT NOT NULL, at REAL NOT NULL CHECK (at BETWEEN 0 AND 1 << 48), seconds REAL NOT NULL,
    {", ".join(f"{one} {_TYPES.get(one, 'INTEGER')} NOT NULL CHECK ({one} BETWEEN 0 AND 1 << 48)" for one in _NUMBERS)},
    CHECK (seconds BETWEEN (kind = '{WHOLE_KIND}') * 1e-9 AND 1 << 48),
    CHECK (typeof(slot) = 'integer' AND {" AND ".join(f"typeof({one}) = 'text'" for one in _NAMES)}),
    PRIMARY KEY ({_KEY})) WITHOUT ROWID"""
_ADD = (
    f"INSERT INTO history VALUES ({', '.join('?' * (8 + len(_NUMBERS)))}) ON CONFLICT ({_KEY}) DO UPDATE SET "
    f"at = max(at, excluded.at), {', '.join(f'{one} = {one} + excluded.{one}' for one in ('seconds', *_NUMBERS))}"
)
_OF_KINDS = f"kind IN ({', '.join(map(repr, KINDS))})"
_IN_SPAN = "rollup = :rollup AND slot BETWEEN :first AND :last"


class Span(Struct, frozen=True):
    """The slots of a rollup that are shown."""

    group: str
    rollup: str
    first: int
    last: int
    began: float
    """When the first one began, in seconds since 1970."""
    seconds: float
    """What all of them cover."""


class HistoryTable:
    """The table. Its methods raise sqlite3.Error for what only a fault of this program or a lack of memory causes."""

    def __init__(self, max_bytes: int = MAX_TABLE_BYTES) -> None:
        self._max_bytes = max_bytes
        self.cut = 0
        """How often the older half of a rollup was deleted for want of room."""
        self.lock = threading.RLock()
        """Held by each method; also by whoever makes one step of several."""
        self._db = sqlite3.connect("file::memory:", check_same_thread=False, uri=True)
        self._db.text_factory = lambda text: text.decode(errors="replace")
        self._db.execute(_TABLE)
        self._db.execute(f"PRAGMA user_version = {TABLE_VERSION}")

    def __repr__(self) -> str:
        return f"<HistoryTable after {self._db.total_changes} changes>"

    def add(self, group: str, at: float, seconds: float, counted: Counted, only: str = "") -> None:
        """Add what was counted in the `seconds` until `at` (seconds since 1970) to every rollup of a group, or to the
        one of a range `only`."""
        parts = {(WHOLE_KIND, "", "", ""): (), **counted}
        with self.lock, self._db:
            for over, one in ROLLUPS[group].items():
                if only not in ("", over):
                    continue
                rollup, slot = f"{group} {over}", int((at - seconds / 2) // one.every)
                self._db.executemany(_ADD, (
                    (rollup, kind, slot, *key, *((at, seconds) if kind == WHOLE_KIND else (0, 0)),
                     *numbers, *_NOTHING[len(numbers):])
                    for (kind, *key), numbers in sorted(parts.items())
                ))  # fmt: skip
                self._bound_rows(rollup, slot, {kind for kind, *_ in counted})
                self._bound_slots(rollup, one.kept, at)
            self._bound_bytes()

    def _bound_rows(self, rollup: str, slot: int, kinds: set[str]) -> None:
        part = "rollup = :rollup AND kind = :kind AND slot = :slot"
        for kind in kinds & MAX_ROWS.keys():
            self._db.execute(
                f"DELETE FROM history WHERE {part} AND (network, node, name) IN (SELECT network, node, name "
                f"FROM history WHERE {part} ORDER BY calls DESC LIMIT -1 OFFSET :most)",
                {"rollup": rollup, "kind": kind, "slot": slot, "most": MAX_ROWS[kind]},
            )

    def _bound_slots(self, rollup: str, most: int, at: float) -> None:
        """Delete the oldest slots of those until now, and of those that seem to be yet to come."""
        for side in ("<=", ">"):
            surplus = self._rows(
                f"SELECT rollup, slot FROM history WHERE rollup = ? AND kind = '{WHOLE_KIND}' AND at {side} ? "
                "ORDER BY at DESC LIMIT -1 OFFSET ?", (rollup, at, most),
            )  # fmt: skip
            self._db.executemany(f"DELETE FROM history WHERE rollup = ? AND {_OF_KINDS} AND slot = ?", surplus)

    def _bound_bytes(self) -> None:
        pages, unused, size = (
            self._rows(f"PRAGMA {name}")[0][0] for name in ("page_count", "freelist_count", "page_size")
        )
        if (pages - unused) * size > self._max_bytes:
            self.cut += 1
            largest = self._rows("SELECT rollup FROM history GROUP BY rollup ORDER BY count(*) DESC LIMIT 1")[0][0]
            self._db.execute(
                f"DELETE FROM history WHERE rollup = :rollup AND {_OF_KINDS} AND slot <= "
                f"(SELECT avg(slot) FROM history WHERE rollup = :rollup AND kind = '{WHOLE_KIND}')",
                {"rollup": largest},
            )

    def span(self, group: str, over: str, until: float) -> Span | None:
        """The slots of a range that ends `until`, in seconds since 1970; None when there are none."""
        one, rollup = ROLLUPS[group][over], f"{group} {over}"
        now = until // one.every
        ((first, last, began, seconds),) = self._rows(
            "SELECT min(slot), max(slot), min(at - seconds), sum(seconds) FROM history "
            f"WHERE rollup = ? AND kind = '{WHOLE_KIND}' AND slot BETWEEN ? AND ?", (rollup, now - one.shown, now),
        )  # fmt: skip
        return None if first is None else Span(group, rollup, first, last, began, seconds)

    def buckets(self, span: Span, part: str) -> list[Bucket]:
        """The buckets of a network or client, or of everything for the empty name, oldest first. A part that counted
        nothing has empty ones."""
        named = "codes" if span.group == "network" else "limited"
        nodes, names = self._nodes_and_names(span, part)
        rows = self._part(span, part, "whole.slot, whole.at, whole.seconds", [f"part.{one}" for one in _NUMBERS])
        return [
            replace(bucket_from(at, seconds, numbers), nodes=nodes.get(slot, {}), **{named: names.get(slot, {})})
            for slot, at, seconds, *numbers in rows
        ]

    def total(self, span: Span, part: str) -> Bucket:
        """The sum of these buckets. It tells neither codes nor reasons apart, and has all its nodes in one."""
        ((at, seconds, *numbers),) = self._part(
            span, part, "max(whole.at), sum(whole.seconds)", [f"sum(part.{one})" for one in _NUMBERS]
        )
        ((calls,),) = self._rows(
            f"SELECT sum(calls) FROM history WHERE {_IN_SPAN} AND kind = 'node' AND (:part = '' OR network = :part)",
            {**asdict(span), "part": part},
        )
        return replace(bucket_from(at, seconds, numbers), nodes={(part, ""): NodeSums(calls or 0)})

    def spending(self, span: Span) -> dict[str, NodeSpending]:
        """The node calls of each network that were made, and those that were spared, over a span of networks."""
        credits = ", ".join(f"sum(iif(kind = 'credits' AND name = '{name}', calls, 0))" for name in CREDITS)
        rows = self._rows(
            f"SELECT network, sum(iif(kind = 'node', calls, 0)), sum(spared_calls), {credits} FROM history "
            f"WHERE {_IN_SPAN} AND kind IN ('network', 'node', 'credits') GROUP BY network",
            asdict(span),
        )
        return {network: NodeSpending(*found) for network, *found in rows}

    def _part(self, span: Span, part: str, times: str, numbers: Sequence[str]) -> list[Any]:
        return self._rows(
            f"SELECT {times}, {', '.join(numbers)} FROM history whole LEFT JOIN history part ON "
            "part.rollup = whole.rollup AND part.kind = :kind AND part.slot = whole.slot AND part.network = :part "
            f"AND part.node = '' AND part.name = '' WHERE whole.rollup = :rollup AND whole.kind = '{WHOLE_KIND}' "
            "AND whole.slot BETWEEN :first AND :last ORDER BY whole.at",
            {**asdict(span), "kind": span.group if part else WHOLE_KIND, "part": part},
        )

    def _nodes_and_names(
        self, span: Span, part: str
    ) -> tuple[dict[int, dict[NodeKey, NodeSums]], dict[int, dict[str, int]]]:
        """What is counted by node, and by the name of a code or reason, in each slot."""
        nodes: dict[int, dict[NodeKey, NodeSums]] = {}
        names: dict[int, dict[str, int]] = {}
        asked = {**asdict(span), "part": part}
        for slot, network, node, *sums in self._rows(
            f"SELECT slot, network, node, calls, errors, hits, miss_seconds FROM history "
            f"WHERE {_IN_SPAN} AND kind = 'node' AND (:part = '' OR network = :part)", asked,
        ):  # fmt: skip
            nodes.setdefault(slot, {})[network, node] = NodeSums(*sums)
        for slot, name, count in self._rows(
            f"SELECT slot, name, sum(calls) FROM history WHERE {_IN_SPAN} AND kind = 'name' "
            "AND (:part = '' OR network = :part) GROUP BY slot, name", asked,
        ):  # fmt: skip
            names.setdefault(slot, {})[name] = count
        return nodes, names

    def node_parts(self, span: Span) -> list[tuple[Key, int, Histogram]]:
        """The calls and the latency of each node, and of each part of one, over a span."""
        sums = ", ".join(f"sum({one})" for one in ("calls", "miss_seconds", *_MISS))
        rows = self._rows(
            f"SELECT kind, network, node, name, {sums} FROM history "
            f"WHERE {_IN_SPAN} AND kind IN ('node', 'failure', 'method', 'lag', 'agreement', 'credits') "
            "GROUP BY 1, 2, 3, 4",
            asdict(span),
        )
        return [(tuple(row[:4]), row[4], Histogram(list(row[6:]), row[5])) for row in rows]

    def newest(self) -> float:
        """When the newest slot ended, in seconds since 1970; 0 without any."""
        return self._rows(f"SELECT max(at) FROM history WHERE kind = '{WHOLE_KIND}'")[0][0] or 0.0

    def save(self, path: Path) -> None:
        """Copy the table into an empty file. Raises OSError. The lock is not held while the disk is written, which may
        hang."""
        try:
            with (
                contextlib.closing(sqlite3.connect(":memory:")) as copy,
                contextlib.closing(sqlite3.connect(path)) as file,
            ):
                with self.lock:
                    self._db.backup(copy)
                file.execute("PRAGMA journal_mode = OFF")
                copy.backup(file)
        except sqlite3.Error as error:
            raise OSError(str(error)) from None

    def load(self, path: Path) -> None:
        """Take over a saved file. Raises ValueError, and changes nothing, for any other."""
        with self.lock:
            try:
                # Row by row, so that each is held against the constraints of the table, and nothing else is taken over.
                self._db.execute("ATTACH ? AS saved", (f"{path.absolute().as_uri()}?mode=ro",))
                ((version,),) = self._rows("PRAGMA saved.user_version")
                if version not in (0, TABLE_VERSION):
                    raise ValueError(f"has version {version}, which this rpcaccel does not read")
                with self._db:
                    self._db.execute("DELETE FROM history")
                    self._db.execute("INSERT INTO history SELECT * FROM saved.history")
            except sqlite3.Error:
                raise ValueError("is damaged") from None
            finally:
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("DETACH saved")

    def _rows(self, sql: str, given: Any = ()) -> list[Any]:
        with self.lock:
            return self._db.execute(sql, given).fetchall()
