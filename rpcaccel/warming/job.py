"""The job: which blocks are to be done, which come next, and what a later run has to know. Nothing here does I/O."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec
from msgspec import Struct

from rpcaccel.core.stats.counters import HITS
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.warming.block_set import BlockSet

VERSION = 1
FINAL: Literal["final"] = "final"
"""In place of the last block: the newest block that is final when the job runs."""
SHOWN = 5
"""Kinds of failures that are told apart; the others are counted."""
_HITS = frozenset(source.label for source in HITS)


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
    left: tuple[tuple[int, int], ...]
    """The blocks up to `reached` that are not done, as ranges."""


def read(text: bytes) -> SavedJob:
    """The job in a file. Raises JobError."""
    try:
        saved = msgspec.json.decode(text, type=SavedJob)
        BlockSet(saved.left)
    except (*UNREADABLE, ValueError):
        raise JobError("is no file of a job of `rpcaccel warm`") from None
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
        return sum(count for source, count in self.sources.items() if source in _HITS)

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
        elif len(self.failures) < SHOWN:
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
        self._ahead = BlockSet(saved.left if saved else ())
        self._under_way: set[int] = set()
        self._failed = BlockSet()
        reached = saved.reached if saved else -1
        if self.end > reached:
            self._ahead.append(max(order.first, reached + 1), self.end)
        self.reached = max(reached, self.end)
        self.blocks = len(self._ahead)
        """The blocks that are to be done in this run."""
        self.done = 0
        self.given_up = 0
        self.failed_in_a_row = 0

    def __repr__(self) -> str:
        return f"<WarmingJob {self.done} of {self.blocks} blocks done, {self.given_up} given up>"

    def take(self) -> int | None:
        """The block to be done next; None when each was taken."""
        block = self._ahead.pop()
        if block is not None:
            self._under_way.add(block)
        return block

    def finish(self, block: int, *, well: bool) -> None:
        """Note that a block that was taken is done, or given up for this run: then a later run does it."""
        self._under_way.remove(block)
        if well:
            self.done += 1
            self.failed_in_a_row = 0
        else:
            self._failed.add(block)
            self.given_up += 1
            self.failed_in_a_row += 1

    @property
    def left(self) -> BlockSet:
        """The blocks that a later run is to do: those that failed, are under way, or come next."""
        found = BlockSet(self._failed.ranges)
        for block in self._under_way:
            found.add(block)
        for first, last in self._ahead.ranges:  # all of them above
            found.append(first, last)
        return found

    @property
    def complete(self) -> bool:
        """Will no later run of the order have anything to do?"""
        return not len(self.left) and self.order.last == self.end

    def save(self) -> bytes:
        """The file from which a later run goes on."""
        saved = SavedJob(VERSION, self.order, self.reached, tuple(self.left.ranges))
        return msgspec.json.format(msgspec.json.encode(saved), indent=1)
