"""Takes the logs of each block of the followed branch to their subscribers, block by block.

The track is a queue of what is to be done in order: a block whose logs go out, a block that was abandoned, whose logs
go out again as removed, and subscriptions that join. A subscription joins behind what is queued at that moment, so that
it gets the logs of exactly those blocks that the branch takes afterwards. It is sent removed logs only of blocks whose
logs it was sent: blocks remember how many subscriptions had joined before them, and what a resumed subscription was
sent by itself is remembered for it (its `own` blocks).

One getLogs a block serves everybody; some blocks are fetched ahead. When a topic came meanwhile that the filter of a
fetched block does not cover, the block is fetched again. A block is never skipped: while many blocks wait the track is
full, and the branch waits for it; when the logs of a block cannot be had for long, all subscribers of logs are closed,
so that they come back and resume.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from rpcaccel.core.live.block import LiveBlock, Log
from rpcaccel.core.live.branch import WINDOW_BLOCKS
from rpcaccel.core.live.log_filter import EVERYTHING, LogFilter, covers
from rpcaccel.core.live.subscription import LOGS
from rpcaccel.core.stats.counters import CutReason, NetworkCell
from rpcaccel.dataplane.event_loop import report_bug
from rpcaccel.dataplane.live.block_source import BlockSource, NotFetched, pause
from rpcaccel.dataplane.live.held_logs import size_of
from rpcaccel.dataplane.live.live_session import LiveSubscription, cut
from rpcaccel.dataplane.live.topics import Topics

MAX_WAITING_BLOCKS = 64
"""Blocks that wait for their logs when the branch is held back."""
LOGS_SECONDS = 120.0
"""Seconds that the logs of one block may be asked for in vain."""
BLOCKS_AHEAD = 16
"""Blocks whose logs are fetched at once."""
REMEMBERED_BYTES = 16 * 1024 * 1024
"""Bytes of logs that are kept in case that their blocks are abandoned: those of all blocks, and those of the own blocks
of resumed subscriptions."""
_MAX_FILTERED_FETCHES = 3
"""Fetches of a block whose filter did not cover a new topic, after which all logs are asked for."""

LOGS_LATE = "the logs of a block could not be had from any node: subscribe again from the last block that you saw"
TOO_MANY_TAKEN_BACK = "more logs were taken back than are remembered: subscribe again"

Own = Sequence[tuple[LiveBlock, Sequence[Log] | None]]
"""Blocks of the branch, with the logs of each that one subscription was sent by itself; None: they were too many to
remember."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A block whose logs are to go out."""

    block: LiveBlock
    since: float
    logs: Sequence[Log] | None = None
    filter: LogFilter | None = None
    """The filter with which the logs were fetched, or are being fetched."""
    task: asyncio.Task[None] | None = None
    tries: int = 0
    """Failures in a row."""
    fetched: int = 0
    """Times that the logs were asked for with another filter than before."""
    asked_at: float | None = None
    """When the logs were first asked for."""
    rests_until: float = 0.0

    def forget(self) -> None:
        """Fetch the logs no further, or again."""
        if self.task is not None:
            self.task.cancel()
        self.task = self.logs = None


@dataclass(slots=True)
class _Gone:
    """A block was abandoned whose logs had gone out, to those that had `joined` then."""

    logs: Sequence[Log]
    joined: int
    since: float


@dataclass(slots=True)
class _OwnGone:
    """A block was abandoned whose logs one subscription had been sent by itself."""

    subscription: LiveSubscription
    logs: Sequence[Log]


@dataclass(slots=True)
class _Joining:
    """A subscription joins."""

    subscription: LiveSubscription


class _Remembered:
    """The logs that went out of each block of the window, and who had joined when they did. Of too many, those of the
    oldest blocks are forgotten."""

    def __init__(self) -> None:
        self._blocks: dict[str, tuple[Sequence[Log] | None, int]] = {}
        self._bytes = 0

    def add(self, block_hash: str, logs: Sequence[Log], joined: int) -> None:
        self._blocks[block_hash] = logs, joined
        self._bytes += size_of(logs)
        if len(self._blocks) > WINDOW_BLOCKS:
            self.pop(next(iter(self._blocks)))
        for other, (held, number) in self._blocks.items():
            if self._bytes <= REMEMBERED_BYTES:
                break
            if held:
                self._bytes -= size_of(held)
                self._blocks[other] = None, number

    def pop(self, block_hash: str) -> tuple[Sequence[Log] | None, int] | None:
        found = self._blocks.pop(block_hash, None)
        if found is not None and found[0]:
            self._bytes -= size_of(found[0])
        return found


class _OwnBlocks:
    """The blocks that resumed subscriptions were sent by themselves, as long as they are in the window and the
    subscriptions last."""

    def __init__(self) -> None:
        self._blocks: dict[str, tuple[int, dict[LiveSubscription, Sequence[Log] | None]]] = {}
        """By hash: the number of a block, and the logs of it that each subscription was sent; None: forgotten."""
        self._bytes = 0

    def add(self, subscription: LiveSubscription, own: Own) -> None:
        for block, logs in own:
            if logs or logs is None:
                kept = logs if logs and self._bytes + size_of(logs) <= REMEMBERED_BYTES else None
                self._bytes += size_of(kept or ())
                self._blocks.setdefault(block.hash, (block.number, {}))[1][subscription] = kept

    def pop(self, block_hash: str) -> dict[LiveSubscription, Sequence[Log] | None]:
        """Who was sent this block, and what of it."""
        _, held = self._blocks.pop(block_hash, (0, {}))
        self._bytes -= sum(size_of(logs or ()) for logs in held.values())
        return held

    def prune(self, number: int) -> None:
        """Forget the blocks up to this number."""
        for block_hash in [one for one, (old, _) in self._blocks.items() if old <= number]:
            self.pop(block_hash)

    def drop(self, subscription: LiveSubscription) -> None:
        """Forget what a subscription was sent: it has ended."""
        for block_hash, (_, held) in list(self._blocks.items()):
            self._bytes -= size_of(held.pop(subscription, None) or ())
            if not held:
                del self._blocks[block_hash]


class LogTrack:
    """The logs of one network, on their way to those who subscribe to some. `run` does the work."""

    def __init__(
        self,
        source: BlockSource,
        topics: Topics,
        cell: NetworkCell,
        clock: Callable[[], float],
        drained: Callable[[], None],
    ) -> None:
        """`drained` is called when the track is full no longer."""
        self._source = source
        self._topics = topics
        self._cell = cell
        self._clock = clock
        self._drained = drained
        self._items: deque[_Waiting | _Gone | _OwnGone | _Joining] = deque()
        self._waiting = 0
        """Blocks among the items."""
        self._sending = False
        self._sent = _Remembered()
        self._own = _OwnBlocks()
        self._woken = asyncio.Event()

    def __repr__(self) -> str:
        return f"<LogTrack {self._waiting} blocks waiting>"

    # -- what is to be done -------------------------------------------------------------------------------------------

    def append(self, block: LiveBlock, since: float) -> None:
        """Send the logs of a new block, which became the served head at `since` (monotonic seconds)."""
        self._items.append(_Waiting(block, since))
        self._waiting += 1
        self._own.prune(block.number - WINDOW_BLOCKS)
        for item in self._blocks():
            item.rests_until = 0.0
        self._woken.set()

    def abandon(self, block: LiveBlock, since: float) -> None:
        """Take back the logs of a block. What has not gone out yet never does."""
        queued = next((item for item in self._blocks() if item.block.hash == block.hash), None)
        if queued is not None:
            queued.forget()
            self._items.remove(queued)
            self._waiting -= 1
        elif (sent := self._sent.pop(block.hash)) is not None:
            logs, joined = sent
            if logs is None:
                self.cut(TOO_MANY_TAKEN_BACK, CutReason.RESTARTED)
            elif logs:
                self._items.append(_Gone(logs, joined, since))
        for subscription, own in self._own.pop(block.hash).items():
            if own is None:
                cut(subscription.session, self._cell, CutReason.RESTARTED, TOO_MANY_TAKEN_BACK)
            else:
                self._items.append(_OwnGone(subscription, own))
        self._woken.set()

    def join(self, subscription: LiveSubscription, own: Own = ()) -> None:
        """Let a subscription join behind everything that is queued; it was sent its `own` blocks before."""
        if not self._source.final_at_once:
            self._own.add(subscription, own)
        if self._items or self._sending:
            self._items.append(_Joining(subscription))
            self._woken.set()
        else:
            self._topics.add(subscription)

    def ended(self, subscription: LiveSubscription) -> None:
        """Forget a subscription that has ended."""
        self._own.drop(subscription)

    @property
    def full(self) -> bool:
        """Do so many blocks wait that the branch is to be held back?"""
        return self._waiting >= MAX_WAITING_BLOCKS

    @property
    def joining(self) -> bool:
        """Is there a subscription that is still to join?"""
        return any(isinstance(item, _Joining) and item.subscription.open for item in self._items)

    def cut(self, words: str, reason: CutReason) -> None:
        """Close the connections of all subscribers of logs, and forget everything."""
        items = list(self._items)
        self.clear()
        self._topics.cut(LOGS, reason, words)
        for item in items:
            if isinstance(item, _Joining):
                cut(item.subscription.session, self._cell, reason, words)
        self._drained()

    def clear(self) -> None:
        """Forget everything."""
        for item in self._blocks():
            item.forget()
        self._items.clear()
        self._waiting = 0
        self._sent, self._own = _Remembered(), _OwnBlocks()
        self._woken.set()

    # -- doing it -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send everything in order, for as long as somebody subscribes."""
        while True:
            self._woken.clear()
            self._fetch_ahead()
            item = self._items[0] if self._items else None
            if item is None or (isinstance(item, _Waiting) and not self._fetched(item)):
                await self._wait(item)
                continue
            self._items.popleft()
            self._sending = True
            try:
                await self._send(item)
            finally:
                self._sending = False

    async def _send(self, item: _Waiting | _Gone | _OwnGone | _Joining) -> None:
        topics = self._topics
        if isinstance(item, _Joining):
            if item.subscription.open:
                topics.add(item.subscription)
        elif isinstance(item, _OwnGone):
            item.subscription.logs(item.logs, removed=True)
        elif isinstance(item, _Gone):
            await topics.logs(item.logs, item.since, removed=True, joined=item.joined)
        else:
            self._waiting -= 1
            if self._waiting == MAX_WAITING_BLOCKS - 1:
                self._drained()
            logs = item.logs or ()
            if not self._source.final_at_once:  # before the first await: the block may be abandoned while it is sent
                self._sent.add(item.block.hash, logs, topics.joined)
            if logs:
                await topics.logs(logs, item.since)

    def _blocks(self) -> Iterator[_Waiting]:
        return (item for item in self._items if isinstance(item, _Waiting))

    def _fetched(self, item: _Waiting) -> bool:
        """Are the logs there for everybody who subscribes now? When nobody does, no logs are needed."""
        wanted = self._topics.logs_wanted
        if wanted is None:
            item.forget()
            return True
        return item.logs is not None and item.filter is not None and covers(item.filter, wanted)

    def _fetch_ahead(self) -> None:
        """Ask for the logs of the next blocks."""
        wanted, now = self._topics.logs_wanted, self._clock()
        if wanted is None:
            return
        for _, item in zip(range(BLOCKS_AHEAD), self._blocks(), strict=False):
            if item.filter is not None and not covers(item.filter, wanted):
                item.forget()
                item.rests_until = 0.0
            if item.logs is None and item.task is None and now >= item.rests_until:
                if item.filter is None or not covers(item.filter, wanted):
                    item.fetched += 1
                    item.filter = wanted if item.fetched <= _MAX_FILTERED_FETCHES else EVERYTHING
                item.asked_at = now if item.asked_at is None else item.asked_at
                item.task = asyncio.get_running_loop().create_task(self._fetch(item, item.filter))

    async def _fetch(self, item: _Waiting, wanted: LogFilter) -> None:
        try:
            item.logs = await self._source.logs(item.block, wanted, item.tries)
        except Exception as error:
            if not isinstance(error, NotFetched):
                report_bug("logs for subscriptions were not fetched", error)
            item.tries += 1
            item.rests_until = self._clock() + pause(item.tries)
        item.task = None
        self._woken.set()

    async def _wait(self, item: _Waiting | None) -> None:
        """Wait until something is to be done; close the subscribers when the first block has been waited for too
        long."""
        seconds = None
        if item is not None:
            now = self._clock()
            left = (now if item.asked_at is None else item.asked_at) + LOGS_SECONDS - now
            if left <= 0:
                self.cut(LOGS_LATE, CutReason.LATE)
                return
            seconds = left if item.task is not None else min(left, max(0.0, item.rests_until - now))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
