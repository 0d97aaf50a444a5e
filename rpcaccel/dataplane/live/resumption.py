"""Sends a subscription what it missed since an older block, and lets it join the live ones without a seam.

Blocks below the window of the followed branch cannot be replaced any more: the window is extended down to the last
final block first, and holds the newest blocks at least. They are fetched by number, in chunks. Heights at which no node
has a block are passed over when the next block is the child of the one below them. What is in the window
may be replaced meanwhile: logs of blocks that were sent and are abandoned are taken back before others follow. All that
is sent waits for the client to read what came before. The last step waits for nothing: it sees that the subscription
was sent everything up to the tip, and lets it join behind the tip.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from rpcaccel.core.live.block import LiveBlock, Log
from rpcaccel.core.live.branch import BLOCKS_AT_ONCE, ROOT_BLOCKS, Appended, BranchMove, FollowedBranch, Want
from rpcaccel.core.live.subscription import HEADS
from rpcaccel.core.stats.counters import CutReason, NetworkCell
from rpcaccel.core.wire.websocket_frames import CloseCode
from rpcaccel.dataplane.event_loop import report_bug
from rpcaccel.dataplane.live.block_source import BlockSource, NotFetched, pause
from rpcaccel.dataplane.live.held_logs import HeldLogs, Portion, size_of
from rpcaccel.dataplane.live.live_session import LiveSubscription, cut
from rpcaccel.dataplane.live.log_track import TOO_MANY_TAKEN_BACK, Own

MAX_UNREAD_BYTES = 256 * 1024
"""Bytes that a client may leave unread while it is sent what it missed; or half of what it may leave unread at all,
when that is less."""
FETCH_TRIES = 6
"""Times in a row that blocks are asked for."""
WAIT_SECONDS = 60.0
"""Seconds that a subscription waits for a client to read, or for the followed branch."""
FIRST_RANGE_BLOCKS, MAX_RANGE_BLOCKS = 16, 256
"""Blocks of the first range of logs, and of the longest one. The length follows from what the last one came to."""
RANGE_GROWTH = 4
"""Times that a range may be as long as the one before; and the part of it that is tried next when it fails."""
_BLOCKS_AHEAD = 4
_LOOK_SECONDS = 0.05

FAILED = "what was missed could not be had from any node: subscribe again from the last block that you saw"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ResumptionContext:
    """What all resumed subscriptions of a network share."""

    branch: FollowedBranch
    source: BlockSource
    join: Callable[[LiveSubscription, Own], None]
    """Lets a subscription join behind the tip of the branch; it was sent its own blocks before."""
    wake: Callable[[], None]
    """Has the branch looked at: it is wanted further down."""
    step: Callable[[float], Awaitable[None]]
    """Waits until the branch has been looked at, or so many seconds."""
    gate: asyncio.Semaphore
    """Bounds how many fetch at once."""
    held: HeldLogs
    """Bounds the logs that they hold."""
    cell: NetworkCell
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]


class Resumption:
    """One subscription on its way to the tip."""

    def __init__(
        self,
        context: ResumptionContext,
        subscription: LiveSubscription,
        first: int,
        came: Want,
        turn: asyncio.Semaphore,
    ) -> None:
        """
        Args:
            first: the first block that the subscription missed.
            came: the served head when the client came.
            turn: bounds how many subscriptions of the client fetch, or hold logs, at once.
        """
        self._turn = turn
        self._context = context
        self._branch = context.branch
        self._to = subscription
        self._first = self._next = first
        self._sent = False
        """Was the subscription sent anything yet?"""
        self._came = came
        self._arrived = context.branch.reached(came)
        """Has the branch been at the head that was served when the client came?"""
        self._left = False
        """Has the branch another block in the place of that head?"""
        self._fork: int | None = None
        """The lowest height of the reorganisation that is under way: no block has been appended after it."""
        self._shared = came.number
        """The height up to which the branch is the one on which the client came."""
        self._seen: set[str] = set()
        """Blocks of the branch on which the client came that were abandoned. As many as the window holds at most."""
        self._ahead = first > came.number + 1
        """Has the client seen blocks that were not served here yet? It may know of a reorganisation, too."""
        self._room_bytes = min(MAX_UNREAD_BYTES, subscription.session.queue // 2)
        self._own: list[tuple[LiveBlock, Sequence[Log] | None]] = []
        """Blocks of the window that were sent, with their logs where logs are wanted; None: they were too many to
        remember."""
        self._gone: list[tuple[LiveBlock, Sequence[Log] | None]] = []
        """Blocks that were sent, at least in part, and abandoned: what was sent of them is to be taken back."""
        self._sending = ""
        """The hash of the block whose logs are being sent, until it is abandoned."""
        self._range_blocks = FIRST_RANGE_BLOCKS
        self._portion = context.held.portion
        """Bytes that the next portion of logs is thought to come to."""
        self._failures = 0
        """Times in a row that logs could not be had."""

    def followed(self, move: BranchMove) -> None:
        """Note a move of the branch. What replaces blocks that were served after the client came is sent from the fork
        on, also where the client wants to begin above."""
        block = move.block
        if isinstance(move, Appended):
            came = self._came
            if self._fork is not None and self._arrived:
                self._shared = min(self._shared, self._fork - 1)
            self._fork = None
            if block.hash in self._seen:  # the client need not be told of a branch that was left unsent
                self._shared = block.number
                if not self._sent:
                    self._next = max(self._next, min(self._first, block.number + 1))
            if block.number == came.number or (block.number > came.number and not came.hash):
                self._left = block.hash != came.hash and bool(came.hash)
                self._arrived = self._arrived or not self._left
            return
        self._fork = move.low if self._fork is None else min(self._fork, move.low)
        self._arrived = self._arrived or block.hash == self._came.hash  # it was below the window
        if self._arrived and not self._ahead:
            self._next = min(self._next, self._fork)
            if block.number <= self._shared:
                self._seen.add(block.hash)
        if block.hash == self._sending:
            self._sending = ""
        for place, (sent, _) in enumerate(self._own):
            if sent.hash == block.hash:
                self._gone.append(self._own.pop(place))
                self._next = min(self._next, move.low)
                break

    async def run(self) -> None:
        """Send what was missed and let the subscription join; close its connection when that cannot be done."""
        try:
            await self._reach()
            if self._to.topic.kind == HEADS:
                await self._send_heads()
            else:
                await self._send_logs()
        except Exception as error:
            if not isinstance(error, NotFetched):
                report_bug("resuming a subscription", error)
            if self._to.open:  # else the client has unsubscribed, and keeps its connection
                cut(self._to.session, self._context.cell, CutReason.LATE, FAILED)
        finally:
            for kept in (*self._own, *self._gone):
                self._drop(kept)

    async def _reach(self) -> None:
        """Wait until the branch has come to the head that was served when the client came, and until its window holds
        everything that may still be replaced. Before that, the tip may be of a branch that the client has left. Where
        the served head is below that one now, because nodes are gone, it is not left: it may be served again.

        The window holds the newest blocks in any case, also where they are final: their logs are asked for block by
        block, and held against what each block says of them. A node that is a little behind answers a range without
        the logs that it lacks, and without an error.
        """
        branch, source, came = self._branch, self._context.source, self._came
        if came.number < branch.lowest and not branch.reach(came.number):
            self._context.wake()
        await self._until(self._placed)
        self._arrived = self._arrived or (branch.reached(came) and not self._left)
        if not self._arrived:
            raise NotFetched("the head that was served when the client came was left before it was known", lacked=True)
        await self._until(lambda: branch.tip.number >= self._next - 1, math.inf)  # the chain takes its time
        floor = max(self._next, min(source.network.view.final + 1, branch.tip.number - ROOT_BLOCKS))
        if not branch.reach(floor):
            self._context.wake()
            await self._until(lambda: branch.reach(floor), math.inf if source.final_at_once else WAIT_SECONDS)

    def _placed(self) -> bool:
        """Is it known whether the head that was served when the client came is on the branch?"""
        branch, came = self._branch, self._came
        if self._arrived or (branch.reached(came) and not self._left):
            return True
        compared = self._left or branch.lowest <= came.number
        return compared and came.number <= branch.aimed.number and branch.reached(branch.aimed)

    async def _until(self, reached: Callable[[], bool], patience: float = WAIT_SECONDS) -> None:
        ends = self._context.clock() + patience
        while self._to.open and not reached():
            left = ends - self._context.clock()
            if left <= 0:
                raise NotFetched("the branch does not go on", lacked=False)
            await self._context.step(min(left, WAIT_SECONDS))

    async def _room(self) -> bool:
        """Wait until the client has read what it was sent; False when the subscription has ended. A client that does
        not read for long is closed."""
        ends = self._context.clock() + WAIT_SECONDS
        while self._to.open and self._to.unread > self._room_bytes:
            if self._context.clock() >= ends:
                words = f"too slow: {self._to.unread} bytes unread"
                cut(self._to.session, self._context.cell, CutReason.SLOW, words, CloseCode.TRY_LATER)
                break
            await self._context.sleep(_LOOK_SECONDS)
        return self._to.open

    async def _fetch(self, fetch: Callable[[int], Awaitable[T]]) -> T:
        """What `fetch` gives at one of several tries."""
        tries = 0
        while True:
            try:
                async with self._turn, self._context.gate:
                    return await fetch(tries)
            except NotFetched:
                tries += 1
                if tries >= FETCH_TRIES:
                    raise
            await self._context.sleep(pause(tries))

    # -- heads --------------------------------------------------------------------------------------------------------

    async def _send_heads(self) -> None:
        branch, last = self._branch, None
        while await self._room():
            await self._take_back()
            if self._next > branch.tip.number:
                self._context.join(self._to, ())
                return
            if self._next < branch.first.number:
                last = await self._send_old_heads(last)
                continue
            if last is not None and not branch.holds(last.number, last.hash):
                raise NotFetched("a block that was sent is not on the branch", lacked=True)
            last = None
            for block in branch.after(self._next - 1, 1):
                self._head(block)
                self._own.append((block, ()))
                self._went(block.number)

    async def _send_old_heads(self, last: LiveBlock | None) -> LiveBlock | None:
        """Send the next blocks below the window, of which `last` is the one before, if one was sent; the newest one
        that was sent."""
        top = self._branch.first
        blocks = await self._fetch(partial(self._linked, self._next, top, last))
        for block in blocks:
            if not await self._room():
                break
            self._head(block)
            self._went(block.number)
            last = block
        if not blocks:
            self._next = top.number
        return last

    async def _linked(self, first: int, top: LiveBlock, last: LiveBlock | None, tries: int) -> list[LiveBlock]:
        """The next final blocks from the height `first` on, below `top`, each linked to the one before and the first to
        `last`. None: no height up to `top` has a block."""
        source, blocks, low = self._context.source, list[LiveBlock](), first
        while not blocks and low < top.number:
            blocks = await source.present(range(low, min(low + BLOCKS_AT_ONCE, top.number)), tries)
            low += BLOCKS_AT_ONCE
        above = (blocks or [top])[0]
        if last is None and above.number > first:
            last = await source.block(above.number - 1, above.parent, tries)
            if last.number >= first:
                raise NotFetched(f"block {last.number} is there, and a node has none at its height", lacked=True)
        for block in blocks or [top]:
            if last is not None and block.parent != last.hash:
                raise NotFetched(f"block {block.number} does not link to the one before", lacked=True)
            last = block
        return blocks

    def _head(self, block: LiveBlock) -> None:
        self._sent = True
        self._to.head(block)

    def _went(self, number: int, blocks: int = 1) -> None:
        """Note that blocks up to this number were sent."""
        self._next = number + 1
        self._context.cell.replayed += blocks

    # -- logs ---------------------------------------------------------------------------------------------------------

    async def _send_logs(self) -> None:
        branch = self._branch
        while await self._room():
            await self._take_back()
            if not self._to.open:
                return
            if self._next > branch.tip.number:
                self._context.join(self._to, self._own)
                return
            try:
                async with self._turn:
                    with await self._context.held.reserve(self._portion) as portion:
                        await self._send_portion(portion)
                self._failures = 0
            except NotFetched:  # perhaps because a block was abandoned
                self._failures += 1
                if self._failures >= FETCH_TRIES:
                    if self._next <= branch.aimed.number:
                        raise
                    self._failures = 1  # the nodes that have the block are gone: it is served again, or replaced
                await self._context.sleep(pause(self._failures))

    async def _write(
        self, logs: Sequence[Log], stand: Callable[[], bool] = lambda: True, *, removed: bool = False
    ) -> int:
        """Send logs as the client reads them; how many of them were sent before the subscription ended, or they did not
        `stand` any more."""
        unlooked = 0
        for place, log in enumerate(logs):
            if not place or unlooked > self._room_bytes // 2:
                unlooked = 0
                if place:
                    await asyncio.sleep(0)
                if not await self._room() or not stand():
                    return place
            unlooked += len(log.text)
            self._sent = True
            self._to.logs((log,), removed=removed)
        return len(logs)

    async def _take_back(self) -> None:
        """Take back the logs of blocks that are no longer on the branch, the oldest first."""
        while self._gone and self._to.open:
            _, logs = self._gone[0]
            if logs is None:
                cut(self._to.session, self._context.cell, CutReason.RESTARTED, TOO_MANY_TAKEN_BACK)
                return
            await self._write(logs, removed=True)
            self._drop(self._gone.pop(0))
        while self._own and self._own[0][0].number < self._branch.first.number - 1:
            self._drop(self._own.pop(0))

    def _kept(self, block: LiveBlock, logs: Sequence[Log]) -> tuple[LiveBlock, Sequence[Log] | None]:
        """A block with the logs of it that were sent, if they can be remembered. Where blocks are final, they need not
        be."""
        if not self._context.source.final_at_once and self._context.held.keep(size_of(logs)):
            return block, logs
        return block, None

    def _drop(self, kept: tuple[LiveBlock, Sequence[Log] | None]) -> None:
        """Remember the logs of a block no longer."""
        self._context.held.forget(size_of(kept[1] or ()))

    async def _send_portion(self, portion: Portion) -> None:
        """Send the logs of the next blocks, below the window or in it."""
        if self._next < self._branch.first.number:
            await self._send_range(portion)
        else:
            await self._send_blocks(portion)

    async def _send_blocks(self, portion: Portion) -> None:
        """Send the logs of the next blocks of the window."""
        blocks = self._branch.after(self._next - 1, _BLOCKS_AHEAD)
        each, failed = await self._logs_of(blocks)
        while each and not portion.takes(sum(map(size_of, each))):
            self._portion = size_of(each.pop())
        for block, logs in zip(blocks, each, strict=False):
            if self._branch.after(self._next - 1, 1) != [block]:
                break  # a reorganisation began at it, or below
            if not await self._send_block(block, logs):
                break
            self._failures, self._portion = 0, self._context.held.portion
        if failed is not None:
            raise failed

    async def _logs_of(self, blocks: Sequence[LiveBlock]) -> tuple[list[tuple[Log, ...]], NotFetched | None]:
        """The logs of each block up to the first one whose logs could not be had, and why."""
        wanted = self._to.topic.filter
        assert wanted is not None
        asked = (self._context.source.logs(block, wanted, self._failures) for block in blocks)
        async with self._context.gate:
            found = await asyncio.gather(*asked, return_exceptions=True)
        each: list[tuple[Log, ...]] = []
        for logs in found:
            if isinstance(logs, NotFetched):
                return each, logs
            if isinstance(logs, BaseException):
                raise logs
            each.append(logs)
        return each, None

    async def _send_block(self, block: LiveBlock, logs: Sequence[Log]) -> bool:
        """Send the logs of one block of the branch; False when it was abandoned meanwhile, or the subscription has
        ended."""
        self._sending = block.hash
        sent = await self._write(logs, lambda: bool(self._sending))
        if not self._sending:
            self._gone.append(self._kept(block, logs[:sent]))
            return False
        self._sending = ""
        self._own.append(self._kept(block, logs))
        self._went(block.number)
        return self._to.open

    async def _send_range(self, portion: Portion) -> None:
        """Send the logs of the next blocks below the window. They are final: the branch may go on meanwhile."""
        wanted, source, first = self._to.topic.filter, self._context.source, self._next
        assert wanted is not None
        blocks = min(self._range_blocks, source.longest, self._branch.first.number - first)
        try:
            async with self._context.gate:
                logs = await source.logs_between(first, first + blocks - 1, wanted, self._failures)
        except NotFetched:  # perhaps because they are too many for one answer
            self._range_blocks = max(1, blocks // RANGE_GROWTH)
            raise
        size, most = size_of(logs), self._context.held.portion
        self._range_blocks = max(1, min(MAX_RANGE_BLOCKS, RANGE_GROWTH * blocks, blocks * most // max(1, size)))
        if not portion.takes(size):
            self._portion = most if blocks > 1 else size
            return
        self._portion = most
        await self._write(logs)
        if self._to.open:
            self._went(first + blocks - 1, blocks)
