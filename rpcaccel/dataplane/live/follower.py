"""Follows the served branch of one network for its subscribers, and sends them every block and log of it, in order.

Which block comes next is decided by core.live.branch; this drives it: fetches what it wants, and takes its moves to two
tracks, heads (here) and logs (dataplane.live.log_track). Both are queues in which subscriptions join behind what was
queued before, so that each gets exactly the blocks that the branch takes after it joined. Heads do not wait for the
logs of their blocks, unless the log track is full, as when the served head jumps by hundreds of blocks: then the branch
stands still until logs have gone out. Nothing is followed while nobody subscribes.

Errors and missing blocks are asked for again after a pause, which a new head ends. Nothing is asked for without a pause
twice, and no wait is without an end: a fetch has a deadline, and a branch at rest waits for the next head.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from rpcaccel.core.heads.served_head import Served
from rpcaccel.core.live.block import LiveBlock
from rpcaccel.core.live.branch import (
    BLOCK_TRIES,
    RESTARTED,
    ROOT_BLOCKS,
    Abandoned,
    BranchMove,
    FollowedBranch,
    Want,
)
from rpcaccel.core.live.header import NotABlock
from rpcaccel.core.live.subscription import HEADS, LOGS
from rpcaccel.core.messages import Announced
from rpcaccel.core.stats.counters import CutReason, NetworkCell
from rpcaccel.dataplane.engine.engine import Engine
from rpcaccel.dataplane.event_loop import report_bug
from rpcaccel.dataplane.live.block_source import BlockSource, NotFetched, pause
from rpcaccel.dataplane.live.held_logs import HeldLogs
from rpcaccel.dataplane.live.live_session import LiveSubscription, cut
from rpcaccel.dataplane.live.log_track import LogTrack, Own
from rpcaccel.dataplane.live.resumption import Resumption, ResumptionContext
from rpcaccel.dataplane.live.topics import Topics
from rpcaccel.dataplane.networks.build import same_chain
from rpcaccel.dataplane.networks.network import Network

MAX_FETCHING, MAX_FETCHING_OF_A_CLIENT = 16, 8
"""Resumed subscriptions that fetch at once, and those of one client: the others of that client wait for it alone."""
MAX_TRIED_BLOCKS = 512
"""Blocks of which the fetches are counted: more than a walk down a branch asks for."""
FALLEN_SECONDS = 30.0
"""Seconds that the served head may stay below the first block before that is known, or far (ROOT_BLOCKS) below the
window of a chain whose blocks are final at once."""
REREAD = "other blocks are final now by the settings: subscribe again from the last block that you saw"
BROKEN = "the proxy stumbled over a block: subscribe again from the last block that you saw"


class Follower:
    """The follower of one network, from the first subscription on until the last one has ended."""

    def __init__(
        self,
        network: Network,
        engine: Engine,
        topics: Topics,
        cell: NetworkCell,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        held: HeldLogs | None = None,
    ) -> None:
        self._source = BlockSource(network, engine)
        self._topics = topics
        self._cell = cell
        self._clock = clock
        self._sleep = sleep
        self._served = Served()
        self._looks: deque[tuple[int, float]] = deque(maxlen=64)
        """Served heads, each with the time at which it became that."""
        self._branch: FollowedBranch | None = None
        self._woken = asyncio.Event()
        self._stepped = asyncio.Event()
        self._logs = self._log_track()
        self._heads: deque[tuple[LiveBlock, float] | LiveSubscription] = deque()
        """Heads that are to be sent, and subscriptions that join behind them."""
        self._sending = False
        self._waiting: dict[LiveSubscription, Want] = {}
        """Subscriptions that began before the first block was known, each with the head that was served then."""
        self._resuming: dict[LiveSubscription, tuple[Resumption, asyncio.Task[None]]] = {}
        self._gate = asyncio.Semaphore(MAX_FETCHING)
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Semaphore] = WeakValueDictionary()
        """By client and kind: bounds how many of its subscriptions fetch, or hold logs, at once."""
        self._held = held or HeldLogs()
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._ending: set[asyncio.Task[None]] = set()
        self._comparing: asyncio.Task[None] | None = None
        self._fetches: dict[Want, asyncio.Task[None]] = {}
        self._tries: dict[Want, int] = {}
        """How often each block was fetched. One that did not fit is asked for anew, however much later."""
        self._rests: dict[Want, float] = {}
        """When blocks that were fetched lately may be fetched again."""

    def __repr__(self) -> str:
        return f"<Follower {self._source.network.name} {self._branch!r}>"

    # -- what comes in ------------------------------------------------------------------------------------------------

    def adopt(self, network: Network) -> None:
        """Go on with the network of a new revision of the settings."""
        before, final_at_once = self._source.network, self._source.final_at_once
        self._source.network = network
        if not same_chain(before.settings, network.settings):
            self._served = Served()
            self._looks.clear()
            self._source.forget()
            self._lose(RESTARTED)
        elif self._source.final_at_once is not final_at_once:
            self._lose(REREAD)
        self._woken.set()

    def begin(self, subscription: LiveSubscription) -> None:
        """Let a subscription join behind the tip, or behind what it missed."""
        if subscription.topic.kind not in (HEADS, LOGS):
            self._topics.add(subscription)
            return
        if not self._tasks:
            self._start()
        came = self._head()
        if self._branch is None or not self._branch.begun:
            self._waiting[subscription] = came
        else:
            self._let_in(self._branch, subscription, came)
        self._woken.set()

    def ended(self, subscription: LiveSubscription) -> None:
        """Send a subscription nothing more, and stop when nobody subscribes any more."""
        self._waiting.pop(subscription, None)
        self._logs.ended(subscription)
        if (resuming := self._resuming.pop(subscription, None)) is not None:
            self._end(resuming[1])
        self._stop_if_alone()

    def _stop_if_alone(self) -> None:
        if self._tasks and not self._anybody():
            self._stop()

    def look(self, served: Served) -> None:
        """Take the served head."""
        doubted = served.doubted > self._served.doubted
        if served.head != self._served.head or served.hash != self._served.hash:
            self._looks.append((served.head, served.since))
            self._rests.clear()
        self._served = served
        branch = self._branch
        if branch is not None:
            if doubted and served.head < branch.lowest:
                self._lose(RESTARTED)
            elif self._fell(branch) and not self._comparing:
                self._comparing = asyncio.create_task(self._guarded(self._compare(branch)))
        self._woken.set()

    def _fell(self, branch: FollowedBranch) -> bool:
        """Is the served head below the followed branch, where no hash of the head can tell why?"""
        return 0 <= self._served.head < branch.highest and (self._source.final_at_once or not branch.begun)

    def announced(self, header: Announced) -> None:
        """Take a header that a node pushed."""
        if self._branch is not None:
            with suppress(NotABlock):
                self._branch.announce(self._source.pushed(header.header))
                self._woken.set()

    async def close(self) -> None:
        """Stop. Connections are closed by others."""
        self._stop()
        await asyncio.gather(*self._ending, return_exceptions=True)

    # -- who is there -------------------------------------------------------------------------------------------------

    def _anybody(self) -> bool:
        return bool(
            self._waiting
            or self._resuming
            or self._topics.heads_wanted
            or self._topics.logs_wanted is not None
            or any(one.open for one in self._heads if isinstance(one, LiveSubscription))
            or self._logs.joining
        )

    def _let_in(self, branch: FollowedBranch, subscription: LiveSubscription, came: Want) -> None:
        """Let a subscription join, for which `came` was the served head when it began.

        Where the served head has fallen below the tip, because nodes are gone, the blocks between are new to the client
        and will be served again: it is sent them first. Below the window it is not known yet whether that head is on
        the branch.
        """
        first, lower = subscription.topic.from_block, came.number < branch.tip.number
        if first is None and lower and (came.number < branch.lowest or branch.reached(came)):
            first = came.number + 1
        self._aim(branch)
        if first is None:
            self._join(subscription, ())
            return
        context = ResumptionContext(
            branch=branch,
            source=self._source,
            join=self._join,
            wake=self._woken.set,
            step=self._step,
            gate=self._gate,
            held=self._held,
            cell=self._cell,
            clock=self._clock,
            sleep=self._sleep,
        )
        whose = subscription.session.holder, subscription.topic.kind
        turn = self._turns.setdefault(whose, asyncio.Semaphore(MAX_FETCHING_OF_A_CLIENT))
        resumption = Resumption(context, subscription, first, came, turn)
        task = asyncio.create_task(resumption.run())
        self._resuming[subscription] = resumption, task
        task.add_done_callback(partial(self._resumed, subscription))

    def _resumed(self, subscription: LiveSubscription, _task: asyncio.Task[None]) -> None:
        self._resuming.pop(subscription, None)
        self._stop_if_alone()

    def _join(self, subscription: LiveSubscription, own: Own) -> None:
        """Let a subscription join behind the tip."""
        if subscription.topic.kind == LOGS:
            self._logs.join(subscription, own)
        elif self._heads or self._sending:
            self._heads.append(subscription)
        else:
            self._topics.add(subscription)

    def _lose(self, words: str) -> None:
        """Close the connections of all subscribers of blocks and logs: the branch is not the one that they follow."""
        left = [*self._waiting, *self._resuming, *(one for one in self._heads if isinstance(one, LiveSubscription))]
        self._logs.cut(words, CutReason.RESTARTED)
        self._topics.cut(HEADS, CutReason.RESTARTED, words)
        for subscription in left:
            cut(subscription.session, self._cell, CutReason.RESTARTED, words)
        self._stop()

    # -- following ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._logs = self._log_track()
        self._tasks = tuple(asyncio.create_task(self._guarded(work)) for work in (self._follow(), self._logs.run()))
        self._begin_branch()

    def _log_track(self) -> LogTrack:
        return LogTrack(self._source, self._topics, self._cell, self._clock, drained=self._woken.set)

    def _begin_branch(self) -> None:
        """Follow from the served head on, if there is one."""
        head = self._head()
        if head.number >= 0:
            self._branch = FollowedBranch(head.number, head.hash, final_at_once=self._source.final_at_once)
            # To those who came before there was a head, it is the one at which they came.
            self._waiting = {one: came if came.number >= 0 else head for one, came in self._waiting.items()}

    def _head(self) -> Want:
        """The served head; its number is -1 while there is none."""
        if self._served.head < 0:
            return Want(self._source.network.view.head)
        return Want(self._served.head, "" if self._source.final_at_once else self._served.hash)

    def _stop(self) -> None:
        """Forget everything. What is under way ends by itself."""
        tasks = [*self._tasks, *(task for _, task in self._resuming.values()), *self._fetches.values()]
        if self._comparing is not None:
            tasks.append(self._comparing)
        self._tasks, self._branch, self._comparing = (), None, None
        self._logs.clear()
        self._heads.clear()
        self._waiting.clear()
        self._resuming.clear()
        self._fetches, self._tries, self._rests = {}, {}, {}
        for task in tasks:
            self._end(task)

    def _end(self, task: asyncio.Task[None]) -> None:
        task.cancel()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Work that, when it stumbles over a bug, leaves nobody waiting for ever."""
        try:
            await work
        except Exception as error:
            report_bug("following the chain for subscriptions", error)
            self._lose(BROKEN)

    async def _follow(self) -> None:
        me = asyncio.current_task()
        while self._tasks and self._tasks[0] is me:
            if self._heads:
                await self._send_next()
                continue
            self._woken.clear()
            if self._branch is None:
                self._begin_branch()
            if self._branch is not None and not self._advance(self._branch):
                return
            if not self._heads:
                await self._wait()

    def _advance(self, branch: FollowedBranch) -> bool:
        """Take the branch as far as is known, and fetch what is wanted next; False when it is lost."""
        if branch.begun:
            waiting, self._waiting = self._waiting, {}
            for subscription, came in waiting.items():
                if subscription.open:
                    self._let_in(branch, subscription, came)
            self._aim(branch)
        for move in () if self._logs.full else branch.moves():
            self._take(move)
            for resumption, _ in self._resuming.values():
                resumption.followed(move)
        if branch.lost:
            self._lose(branch.lost)
            return False
        if not self._logs.full:
            self._fetch(branch)
        self._stepped.set()
        self._stepped = asyncio.Event()
        return True

    def _aim(self, branch: FollowedBranch) -> None:
        if self._served.head >= 0:
            branch.aim(self._served.head, self._served.hash)

    def _take(self, move: BranchMove) -> None:
        block = move.block
        if isinstance(move, Abandoned):
            self._cell.abandoned += move.sent
            self._logs.abandon(block, self._clock())
            return
        since = self._since(block.number)
        self._heads.append((block, since))
        self._logs.append(block, since)
        if block.number < self._served.head and not move.announced:
            self._cell.filled += 1

    def _since(self, number: int) -> float:
        """When this block, or one above, became the served head."""
        while self._looks and self._looks[0][0] < number:
            self._looks.popleft()
        return self._looks[0][1] if self._looks else self._served.since

    async def _send_next(self) -> None:
        item = self._heads.popleft()
        if isinstance(item, LiveSubscription):
            if item.open:
                self._topics.add(item)
            return
        self._sending = True
        try:
            await self._topics.heads(*item)
        finally:
            self._sending = False

    # -- fetching -----------------------------------------------------------------------------------------------------

    def _fetch(self, branch: FollowedBranch) -> None:
        """Fetch what the branch wants, and end the fetches of what it wants no more."""
        wants, now = branch.wants(), self._clock()
        for want in self._fetches.keys() - set(wants):
            self._fetches.pop(want).cancel()
        self._rests = {want: until for want, until in self._rests.items() if until > now}
        for want in wants:
            if want not in self._fetches and want not in self._rests:
                self._fetches[want] = asyncio.create_task(self._get(branch, want))

    async def _get(self, branch: FollowedBranch, want: Want) -> None:
        tries = self._tries.get(want, 0)
        try:
            block = await self._source.block(want.number, want.hash, tries)
        except Exception as error:
            if not isinstance(error, NotFetched):
                report_bug("a block for subscriptions was not fetched", error)
            branch.failed(want, lacked=isinstance(error, NotFetched) and error.lacked)
        else:
            branch.take(want, block)
        self._fetches.pop(want, None)
        self._tries[want] = tries + 1
        if len(self._tries) > MAX_TRIED_BLOCKS:
            del self._tries[next(iter(self._tries))]
        self._rests[want] = self._clock() + pause(tries + 1)
        self._woken.set()

    async def _compare(self, branch: FollowedBranch) -> None:
        """See whether the chain began anew, after the served head fell below the tip, or below the first block before
        that was known: nodes are gone, or their blocks are others now. Blocks below the window cannot be compared."""
        fell_at, tries, others = self._clock(), 0, 0
        while branch is self._branch and self._fell(branch):
            head, tries = self._served.head, tries + 1
            below = branch.lowest - head
            if branch.begun and below <= 1:
                with suppress(NotFetched):
                    same = branch.holds(head, (await self._source.block(head, tries=tries)).hash)
                    if same and head == self._served.head:
                        break
                    others = 0 if same else others + 1
            far = below > ROOT_BLOCKS or not branch.begun
            if others >= BLOCK_TRIES or (far and self._clock() - fell_at >= FALLEN_SECONDS):
                self._lose(RESTARTED)
                return
            await self._sleep(pause(tries))
        self._comparing = None

    async def _wait(self) -> None:
        """Wait for a head, a block, or the end of a pause."""
        rests = () if self._logs.full else self._rests.values()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(rests) - self._clock()) if rests else None):
                await self._woken.wait()

    async def _step(self, seconds: float) -> None:
        """Wait until the branch has been looked at again, at most so many seconds."""
        stepped = self._stepped
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await stepped.wait()
