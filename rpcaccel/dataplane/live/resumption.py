"""Sends a subscription what it missed since an older block, and lets it join the live ones without a seam.

Blocks below the window of the followed branch cannot be replaced any more: the window is extended down to the last
final block first, and holds the newest blocks at least. They are fetched by number, in chunks. What is in the window is
compared by hash, because the branch goes on meanwhile, and may reorganise: logs of blocks that were sent and are
abandoned are taken back before others follow. The last step waits for nothing: it sees that the subscription was sent
everything up to the tip, and lets it join behind the tip.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from rpcaccel.core.live.block import LiveBlock, Log
from rpcaccel.core.live.branch import CHUNK, ROOTS, WINDOW, Appended, FollowedBranch, Move, Want
from rpcaccel.core.live.subscription import HEADS
from rpcaccel.core.stats.counters import CutReason, NetworkCell
from rpcaccel.core.wire.websocket_frames import CloseCode
from rpcaccel.dataplane.live.block_source import BlockSource, NotFetched, pause
from rpcaccel.dataplane.live.live_session import cut
from rpcaccel.dataplane.live.log_track import Own
from rpcaccel.dataplane.live.topics import LiveSubscription

ROOM = 256 * 1024
"""Bytes that a client may leave unread while it is sent what it missed."""
TRIES = 6
"""Times in a row that blocks are asked for."""
PATIENCE = 60.0
"""Seconds that a subscription waits for a client to read, or for the followed branch."""
SHORTEST, LONGEST = 16, 256
"""Blocks of one range of logs."""
_AHEAD = 4
_LOOK_EVERY = 0.05

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
    cell: NetworkCell
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]


class Resumption:
    """One subscription on its way to the tip."""

    def __init__(self, context: ResumptionContext, subscription: LiveSubscription, first: int, came: Want) -> None:
        """
        Args:
            first: the first block that the subscription missed.
            came: the served head when the client came.
        """
        self._context = context
        self._branch = context.branch
        self._to = subscription
        self._number = first
        """The next block to send."""
        self._came = came
        self._arrived = context.branch.reached(came)
        """Has the branch been at the head that was served when the client came?"""
        self._ahead = first > came.number + 1
        """Has the client seen blocks that were not served here yet? It may know of a reorganisation, too."""

    def followed(self, move: Move) -> None:
        """Note a move of the branch. What replaces blocks that were served after the client came is sent from the fork
        on, also where the client wants to begin above."""
        block = move.block
        if isinstance(move, Appended):
            same = block.hash == self._came.hash if self._came.hash else block.number >= self._came.number
            self._arrived = self._arrived or same
        elif self._arrived and not self._ahead:
            self._number = min(self._number, block.number)

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
                told = {"message": "resuming a subscription", "exception": error}
                asyncio.get_running_loop().call_exception_handler(told)
            if self._to.open:  # else the client has unsubscribed, and keeps its connection
                cut(self._to.session, self._context.cell, CutReason.LATE, FAILED)

    async def _reach(self) -> None:
        """Wait until the branch has come to the head that was served when the client came, and until its window holds
        everything that may still be replaced. Before that, the tip may be of a branch that the client has left. Where
        the served head is below that one now, because nodes are gone, it is not left: it may be served again.

        The window holds the newest blocks in any case, also where they are final: their logs are asked for block by
        block, and held against what each block says of them. A node that is a little behind answers a range without
        the logs that it lacks, and without an error.
        """
        branch, source, came = self._branch, self._context.source, self._came
        await self._until(
            lambda: self._arrived or (branch.aimed.number >= came.number and branch.reached(branch.aimed))
        )
        if not (self._arrived or branch.reached(came)):
            raise NotFetched("the head that was served when the client came was left before it was known", lacked=True)
        await self._until(lambda: branch.tip.number >= self._number - 1, math.inf)  # the chain takes its time
        floor = max(self._number, min(source.network.view.final + 1, branch.tip.number - ROOTS))
        if not branch.reach(floor):
            self._context.wake()
            await self._until(lambda: branch.reach(floor))

    async def _until(self, reached: Callable[[], bool], patience: float = PATIENCE) -> None:
        ends = self._context.clock() + patience
        while self._to.open and not reached():
            left = ends - self._context.clock()
            if left <= 0:
                raise NotFetched("the branch does not go on", lacked=False)
            await self._context.step(min(left, PATIENCE))

    async def _room(self) -> bool:
        """Wait until the client has read what it was sent; False when the subscription has ended. A client that does
        not read for long is closed."""
        ends = self._context.clock() + PATIENCE
        while self._to.open and self._to.unread > ROOM:
            if self._context.clock() >= ends:
                words = f"too slow: {self._to.unread} bytes unread"
                cut(self._to.session, self._context.cell, CutReason.SLOW, words, CloseCode.TRY_LATER)
                break
            await self._context.sleep(_LOOK_EVERY)
        return self._to.open

    async def _fetch(self, fetch: Callable[[int], Awaitable[T]]) -> T:
        """What `fetch` gives at one of several tries."""
        tries = 0
        while True:
            try:
                async with self._context.gate:
                    return await fetch(tries)
            except NotFetched:
                tries += 1
                if tries >= TRIES:
                    raise
            await self._context.sleep(pause(tries))

    # -- heads --------------------------------------------------------------------------------------------------------

    async def _send_heads(self) -> None:
        branch, last = self._branch, ""
        while await self._room():
            if self._number >= branch.first.number:
                break
            numbers = range(self._number, min(self._number + CHUNK, branch.first.number))
            blocks = await self._fetch(partial(self._linked, numbers, last))
            if not await self._room():  # other subscriptions of the client may have been sent something meanwhile
                return
            for block in blocks:
                if not self._to.head(block):
                    return
                last = block.hash
            self._went(len(numbers))
        if not self._to.open:
            return
        # From here on nothing is awaited, so that the branch stands still.
        if last and not branch.holds(self._number - 1, last):
            raise NotFetched("a block that was sent is not on the branch", lacked=True)
        missed = branch.after(self._number - 1, WINDOW)
        for block in missed:
            if not self._to.head(block):
                return
        self._went(len(missed))
        self._context.join(self._to, ())

    async def _linked(self, numbers: Sequence[int], last: str, tries: int) -> list[LiveBlock]:
        """Final blocks, each linked to the one before and the first to the block with the hash `last`."""
        blocks = await self._context.source.blocks(numbers, tries)
        for block in blocks:
            if last and block.parent != last:
                raise NotFetched(f"block {block.number} does not link to the one before", lacked=True)
            last = block.hash
        return blocks

    def _went(self, blocks: int) -> None:
        self._number += blocks
        self._context.cell.replayed += blocks

    # -- logs ---------------------------------------------------------------------------------------------------------

    async def _send_logs(self) -> None:
        branch = self._branch
        own: list[tuple[LiveBlock, Sequence[Log]]] = []
        failures = 0
        while await self._room():
            self._take_back(own)
            if self._number < branch.first.number:
                await self._send_range()
                continue
            blocks = branch.after(self._number - 1, _AHEAD)
            if not blocks:
                self._context.join(self._to, own)
                return
            try:
                async with self._context.gate:
                    each = await self._logs_of(blocks, failures)
            except NotFetched:  # perhaps because the block was abandoned
                failures += 1
                if failures >= TRIES:
                    raise
                await self._context.sleep(pause(failures))
                continue
            failures = 0
            self._send_blocks(own, blocks, each)

    async def _logs_of(self, blocks: Sequence[LiveBlock], tries: int) -> list[tuple[Log, ...]]:
        wanted = self._to.topic.filter
        assert wanted is not None
        return await asyncio.gather(*(self._context.source.logs(block, wanted, tries) for block in blocks))

    def _send_blocks(
        self, own: list[tuple[LiveBlock, Sequence[Log]]], blocks: Sequence[LiveBlock], each: Sequence[Sequence[Log]]
    ) -> None:
        """Send the logs of blocks, as far as they and what was sent before are still on the branch."""
        if own and not self._branch.holds(own[-1][0].number, own[-1][0].hash):
            return
        if blocks[0].number != self._number:  # a reorganisation began below them
            return
        for block, logs in zip(blocks, each, strict=True):
            if not self._branch.holds(block.number, block.hash):
                return
            self._to.logs(logs)
            own.append((block, logs))
            self._went(1)

    def _take_back(self, own: list[tuple[LiveBlock, Sequence[Log]]]) -> None:
        """Take back the logs of blocks that are no longer on the branch, the oldest first."""
        lowest = self._branch.first.number
        while own and own[0][0].number < lowest - 1:
            del own[0]
        kept = len(own)
        while kept and not self._branch.holds(own[kept - 1][0].number, own[kept - 1][0].hash):
            kept -= 1
        gone = own[kept:]
        del own[kept:]
        for block, logs in gone:
            self._to.logs(logs, removed=True)
            self._number = min(self._number, block.number)

    async def _send_range(self) -> None:
        """Send the logs of the next blocks below the window."""
        wanted, source = self._to.topic.filter, self._context.source
        assert wanted is not None
        first, length = self._number, min(LONGEST, source.longest)
        while True:
            last = min(first + length, self._branch.first.number) - 1
            try:
                logs = await self._fetch(partial(source.logs_between, first, last, wanted))
                break
            except NotFetched:
                if length <= SHORTEST:
                    raise
                length = SHORTEST
        sent = ROOM  # other subscriptions of the client may have been sent something meanwhile
        for log in logs:  # these blocks are final: the branch may go on between two of them
            sent += len(log.text)
            if sent > ROOM:
                sent = 0
                if not await self._room():
                    return
            self._to.logs((log,))
        self._went(last - first + 1)
