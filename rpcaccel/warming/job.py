"""The job: which blocks are to be done, which come next, and what a later run has to know. Nothing here does I/O."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from rpcaccel.bench.report.statistics import HITS
from rpcaccel.core.wire.json_text import UNREADABLE

VERSION = 1
FINAL: Literal["final"] = "final"
"""In place of the last block: the newest block that is final when the job runs."""
MAX_FAILURE_KINDS = 5
"""Kinds of failures that are told apart; the others are counted."""
MAX_RANGES = 1000
"""Ranges of blocks that a job remembers at the most."""

BlockRange = tuple[int, int]
"""The first and the last block."""


def merged(ranges: Iterable[BlockRange]) -> list[BlockRange]:
    """The blocks of some ranges as at most MAX_RANGES ranges, lowest first and apart.

    When there would be more, those with the smallest gaps between them become one: some blocks that were in none are
    then among them, too.
    """
    found: list[BlockRange] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    if (over := len(found) - MAX_RANGES) > 0:
        gaps = sorted(range(1, len(found)), key=lambda place: found[place][0] - found[place - 1][1])
        for place in sorted(gaps[:over], reverse=True):
            found[place - 1 : place + 1] = [(found[place - 1][0], found[place][1])]
    return found


def number_of(ranges: Sequence[BlockRange]) -> int:
    """The number of blocks in ranges that are apart."""
    return sum(last - first + 1 for first, last in ranges)


class JobError(ValueError):
    """The job cannot begin, or not go on; the text is for the operator."""


class WarmingOrder(Struct, frozen=True):
    """What somebody asks for. A job is taken up again by an equal order alone."""

    proxy: str
    """Scheme, host and port: what one proxy has is not in the cache of another."""
    network: str
    first: int
    last: int | Literal["final"]
    calls: tuple[str, ...]
    """Each call as a text."""


class SavedJob(Struct, frozen=True):
    """A job in its file."""

    version: int
    order: WarmingOrder
    reached: int
    """The last block that was to be done; -1 before there was any."""
    left: tuple[BlockRange, ...]
    """The blocks up to `reached` that are not done, as ranges."""


def read(text: bytes) -> SavedJob:
    """The job in a file. Raises JobError."""
    try:
        saved = msgspec.json.decode(text, type=SavedJob)
    except UNREADABLE:
        saved = None
    if saved is None or [*saved.left] != merged(saved.left) or any(not 0 <= one <= two for one, two in saved.left):
        raise JobError("is no file of a job of `rpcaccel warm`")
    if saved.version != VERSION:
        raise JobError(f"has version {saved.version}, which this rpcaccel does not read")
    return saved


def check_same(saved: SavedJob | None, order: WarmingOrder) -> None:
    """Raise JobError, naming what differs, unless a saved job came from an equal order."""
    if saved is None:
        return
    before = saved.order
    pairs = (
        ("proxy was", before.proxy, order.proxy),
        ("network was", before.network, order.network),
        ("blocks were", f"{before.first}..{before.last}", f"{order.first}..{order.last}"),
        ("calls were", _methods(before.calls), _methods(order.calls)),
        ("calls were", "; ".join(before.calls), "; ".join(order.calls)),
    )
    for name, then, now in pairs:
        if then != now:
            raise JobError(f"is of another job, whose {name} {then}, and not {now}")


def _methods(calls: tuple[str, ...]) -> str:
    return ", ".join(dict.fromkeys(call.partition(" ")[0] for call in calls))


class FailedCalls(Struct):
    """Calls that failed alike."""

    method: str
    text: str
    first: int
    """The block that the first of them was about."""
    count: int = 1


class WarmingTally(Struct):
    """The figures of one run."""

    calls: int = 0
    """Calls that were answered well."""
    bytes: int = 0
    sources: Counter[str] = msgspec.field(default_factory=Counter)
    """Calls by the word that tells where their answer came from; empty where the proxy does not tell."""
    failed_calls: int = 0
    failures: dict[tuple[str, str], FailedCalls] = {}
    """The first few kinds of failures, by method and reason."""

    unwritten: int = 0
    """Answers that found no room in the queue of a tier behind the memory, those of other clients among them."""

    @property
    def there(self) -> int:
        """Calls whose answer the proxy had."""
        return sum(count for source, count in self.sources.items() if source in HITS)

    def answered(self, source: str, size: int) -> None:
        """Count a good answer of `size` bytes."""
        self.calls += 1
        self.bytes += size
        self.sources[source] += 1

    def failed(self, block: int, method: str, text: str) -> None:
        """Count a call that was given up."""
        self.failed_calls += 1
        kind = self.failures.get((method, text))
        if kind is not None:
            kind.count += 1
        elif len(self.failures) < MAX_FAILURE_KINDS:
            self.failures[method, text] = FailedCalls(method, text, block)


class WarmingJob:
    """The blocks of one job: some to be done, some done, some given up in this run."""

    def __init__(self, order: WarmingOrder, newest: int, saved: SavedJob | None = None) -> None:
        """`newest`: the last block that may be done now; `saved`: the job of an equal order, which is gone on with.
        Raises JobError when there is no block that may be done."""
        self.order = order
        self.end = newest if order.last == FINAL else min(order.last, newest)
        if order.first > self.end:
            raise JobError(f"block {order.first} is above {newest}, the newest block that the proxy keeps for good")
        reached = saved.reached if saved else -1
        new = [(max(order.first, reached + 1), self.end)] if self.end > reached else []
        self._ahead = deque(merged([*(saved.left if saved else ()), *new]))
        self._under_way: set[int] = set()
        self._failed: list[BlockRange] = []
        self.reached = max(reached, self.end)
        self.blocks = number_of(self._ahead)
        """The blocks that are to be done in this run."""
        self.done = 0
        self.given_up = 0
        self.failed_in_a_row = 0

    def __repr__(self) -> str:
        return f"<WarmingJob {self.done} of {self.blocks} blocks done, {self.given_up} given up>"

    def take(self) -> int | None:
        """The block to be done next; None when each was taken."""
        if not self._ahead:
            return None
        block, last = self._ahead.popleft()
        if block < last:
            self._ahead.appendleft((block + 1, last))
        self._under_way.add(block)
        return block

    def finish(self, block: int, *, well: bool) -> None:
        """Note that a block that was taken is done, or given up for this run: then a later run does it."""
        self._under_way.remove(block)
        if well:
            self.done += 1
            self.failed_in_a_row = 0
            return
        self._failed.append((block, block))
        if len(self._failed) > 2 * MAX_RANGES:
            self._failed = merged(self._failed)
        self.given_up += 1
        self.failed_in_a_row += 1

    @property
    def left(self) -> list[BlockRange]:
        """The blocks that a later run is to do: those that failed, are under way, or come next."""
        return merged([*self._failed, *((block, block) for block in self._under_way), *self._ahead])

    @property
    def complete(self) -> bool:
        """Will no later run of the order have anything to do?"""
        return not self.left and self.order.last == self.end

    def save(self) -> bytes:
        """The file from which a later run goes on."""
        saved = SavedJob(VERSION, self.order, self.reached, tuple(self.left))
        return msgspec.json.format(msgspec.json.encode(saved), indent=1)
