"""Finds out what a simulated node has to push: it looks at the node's head when a block is due and when something
changed, and tells of new blocks, reorganisations and pending transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from rpcaccel.simnode.chain.blocks import Tx
from rpcaccel.simnode.chain.sim_chain import Branch
from rpcaccel.simnode.methods import lookup
from rpcaccel.simnode.server.responder import Responder

SOONEST = 0.001
"""Seconds that a wait for the next block takes at the least: a timer may fire a moment before its time."""
MOST_SEEN = 4096
"""Pending transactions remembered as told."""


class ChainMove(Struct, frozen=True):
    """What a node saw happen."""

    heads: tuple[int, ...] = ()
    """The heights of the blocks to announce, on `branch`."""
    logs: tuple[int, ...] = ()
    """The heights whose logs are new, on `branch`."""
    removed: tuple[int, ...] = ()
    """The heights whose logs are taken back, on `abandoned`."""
    pending: tuple[Tx, ...] = ()
    branch: Branch | None = None
    abandoned: Branch | None = None


def move_between(old: Branch, old_head: int, new: Branch, head: int) -> ChainMove:
    """What a node announces when its head moves from one block to another.

    A reorganisation is told as geth does: of its new blocks only the last one is announced, with the logs of all.
    """
    common = min(old_head, head)
    while common and old.hash_of(common) != new.hash_of(common):
        common -= 1
    fresh = tuple(range(common + 1, head + 1))
    if common == old_head or old is new:
        return ChainMove(heads=fresh, logs=fresh, branch=new)
    gone = tuple(range(common + 1, old_head + 1))
    return ChainMove(heads=(head,), logs=fresh, removed=gone, branch=new, abandoned=old)


class BlockWatch:
    """Watches the head of one node while somebody listens. `told` is called with each move that is not empty."""

    def __init__(self, brain: Responder, told: Callable[[ChainMove], None]) -> None:
        self._brain = brain
        self._told = told
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._branch = brain.branch
        self._head = brain.head
        self._seen: dict[bytes, None] = {}

    def __repr__(self) -> str:
        return f"<BlockWatch at {self._head}>"

    def start(self) -> None:
        """Watch from the block that the node has now."""
        if self._task is None:
            self._branch, self._head = self._brain.branch, self._brain.head
            self._seen = dict.fromkeys(tx.hash for tx in lookup.pending(self._brain.view()))
            self._brain.chain.watchers.add(self._wake.set)
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End the watch."""
        task, self._task = self._task, None
        if task is not None:
            self._brain.chain.watchers.discard(self._wake.set)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            self._look()
            await self._wait(self._due())

    def _due(self) -> float | None:
        """Seconds until the node may see something new by the passing of time."""
        knobs = self._brain.knobs
        due = self._brain.chain.heads.due(knobs.skew)
        if knobs.gossip and any(tx.hash not in self._seen for tx in self._brain.chain.recent.values()):
            due = knobs.gossip if due is None else min(due, knobs.gossip)
        return due if due is None else max(SOONEST, due)

    async def _wait(self, due: float | None) -> None:
        """Return when something changed, or after `due` seconds."""
        waiting: list[asyncio.Future[object]] = [asyncio.ensure_future(self._wake.wait())]
        if due is not None:
            waiting.append(asyncio.ensure_future(self._brain.clock.sleep(due)))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()

    def _look(self) -> None:
        branch, head = self._brain.branch, self._brain.head
        if branch is not self._branch or head > self._head:
            move = move_between(self._branch, self._head, branch, head)
            self._branch, self._head = branch, head
            self._told(move)
        fresh = tuple(tx for tx in lookup.pending(self._brain.view()) if tx.hash not in self._seen)
        if fresh:
            self._seen |= dict.fromkeys(tx.hash for tx in fresh)
            while len(self._seen) > MOST_SEEN:
                del self._seen[next(iter(self._seen))]
            self._told(ChainMove(pending=fresh, branch=branch))
