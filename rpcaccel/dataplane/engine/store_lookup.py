"""One call's question to the tiers behind memory, and what is read ahead from the disk after a start.

A lookup asks the disk, then Redis, and says who asks a node where neither has anything. Where fetching costs a node
much (core.dispatch.sole_fetch), one process of several holds a lease and asks; the others wait for what it puts.

Answers that are hits in memory are not looked up on the disk, so that they would look unused there. A part of memory is
therefore looked through at a time, and what was a hit is named to the disk tier. After a start those are read ahead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.cache.recent_purges import RecentPurges
from rpcaccel.core.dispatch import sole_fetch
from rpcaccel.core.dispatch.sole_fetch import Claim, Mode
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.proof.received_answer import Standing
from rpcaccel.core.stats.counters import AnswerSource, Step
from rpcaccel.dataplane.engine.answer_check import judged_alone
from rpcaccel.dataplane.engine.fetch_context import FetchContext
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.chooser import PROXY
from rpcaccel.stores.base import Lease

if TYPE_CHECKING:
    from rpcaccel.stores.disk.disk_store import DiskStore

OnLookup = Callable[[Entry | None, Lease | None], None]
"""Called with what the tiers have of the call. Where they have nothing, a node is to be asked, and the lease, if there
is one, is to be released once the answer was put."""


class StoreLookup:
    """The lookup of one call. Either `done` or `failed` is called, once, unless the lookup is cancelled."""

    __slots__ = ("_done", "_ends", "_entry", "_failed", "_key", "_looks", "_mode", "_network", "_open", "_plan",
                 "_shared", "_started", "_task", "source", "timed")  # fmt: skip

    def __init__(
        self,
        shared: FetchContext,
        network: Network,
        plan: Plan,
        done: OnLookup,
        failed: Callable[[Exception], None],
        *,
        ends: float,
        mode: Mode | None,
    ) -> None:
        """The lookup of `plan`, which a tier may hold; `begin` begins it.

        Args:
            failed: called with an unforeseen exception.
            ends: when the call must be over (monotonic seconds).
            mode: whether one process is to ask a node for all (core.dispatch.sole_fetch); None: no node will be asked.
        """
        self._shared = shared
        self._network = network
        self._plan = plan
        self._done = done
        self._failed = failed
        self._ends = ends
        self._mode = mode
        self._started = shared.clock()
        self.source = AnswerSource.SHARED
        """The tier that is asked now, or that had the entry."""
        self.timed: tuple[tuple[Step, float], ...] = ()
        """The tiers that were asked, and how long each took (seconds)."""
        self._open = True
        self._entry: Entry | None = None
        self._key = b""
        """The key of the entry that was accepted."""
        self._looks = 1
        """Questions without an answer: for the entry, and whether another host sent the transaction."""
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<lookup of {self._plan.method}{'' if self._open else ', over'}>"

    def begin(self) -> None:
        """Ask the tiers; `done` may be called before this returns. They are not asked while they are being purged of
        what is left of a chain that began anew."""
        shared, plan = self._shared, self._plan
        if self._network.sight.forgetting:
            self._found(None)
            return
        if plan.rule.names_transaction is not None:
            self._looks += 1
            if not shared.sends.look(self._network, plan, self._answered):
                self._looks -= 1
        key = plan.lasting_key if shared.on_disk else None
        if key is not None:
            self.source = AnswerSource.DISK
            if shared.disk.look((key,), self._accepts, self._read):
                return
        self._look_further()

    def _read(self, entry: Entry | None) -> None:
        """Take what the disk has of the call."""
        self._time(Step.DISK)
        if entry is not None:
            self._found(entry)
        elif self._open:
            self._look_further()

    def _look_further(self) -> None:
        """Ask Redis."""
        self.source = AnswerSource.SHARED
        shared, plan = self._shared, self._plan
        asked = shared.shared and bool(plan.shared_keys)
        if not asked or not shared.store.look(plan.shared_keys, self._accepts, self._said):
            self._found(None)

    def _said(self, entry: Entry | None) -> None:
        """Take what Redis has of the call."""
        self._time(Step.SHARED)
        self._shared.store_pace.add(self.timed[-1][1], self._started)
        self._found(entry)

    def _time(self, step: Step) -> None:
        now = self._shared.clock()
        self.timed += ((step, now - self._started),)
        self._started = now

    def cancel(self) -> None:
        """End the lookup without an answer."""
        self._open = False
        if self._task is not None:
            self._task.cancel()

    def _accepts(self, key: bytes, entry: Entry) -> bool:
        try:
            accepted = self._open and self._shared.accepts(self._plan, key, entry)
        except Exception as error:
            self._failed(error)
            return False
        if accepted:
            self._key = key
        return accepted

    def _found(self, entry: Entry | None) -> None:
        self._entry = entry
        self._answered()

    def _answered(self) -> None:
        self._looks -= 1
        if not self._open or self._looks:
            return
        shared, plan, entry = self._shared, self._plan, self._entry
        if entry is not None and shared.sends.doubts(self._network, plan, entry.result):
            entry = None
        if entry is not None and self._is_to_be_proved:
            self._task = asyncio.get_running_loop().create_task(self._prove(entry))
        else:
            self._end(entry)

    @property
    def _is_to_be_proved(self) -> bool:
        """Must what is stored be proved, because others may write there?"""
        return self._plan.rule.fully

    async def _prove(self, entry: Entry) -> None:
        try:
            found = await self._proved(entry)
        except Exception as error:
            self._failed(error)
            return
        self._task = None
        self._end(found)

    async def _proved(self, entry: Entry) -> Entry | None:
        """The entry with the block by which it was proved; None where it is not to be given."""
        shared, network, plan = self._shared, self._network, self._plan
        judgement = await judged_alone(shared, network, plan, entry.result, PROXY, self._ends)
        standing = judgement.standing
        poisoned = standing is Standing.DISPROVED or (judgement.false and not judgement.lasting)
        network.cell(plan).judged("poisoned" if poisoned else standing.name.lower())
        by_headers = not network.chain.provable.transactions and standing in (Standing.PROVED, Standing.CONSISTENT)
        taken = judgement.block or by_headers or (standing is Standing.NOT_PROVABLE and judgement.lasting)
        return replace(entry, proved=judgement.block) if taken else None

    def _end(self, entry: Entry | None) -> None:
        """Tell what was found, or who is to ask a node."""
        shared, plan = self._shared, self._plan
        claim = None
        if entry is not None:
            shared.take(plan, self._key, entry, self.source)
        elif self._mode is not None and shared.shared and plan.shared_keys:
            network, redis = self._network, shared.store_pace.ewma
            if self.timed:  # an average that a slow beginning or a stall has left takes seconds to come down
                redis = min(redis, self.timed[-1][1])
            priced = network.settings.price > 0
            claim = sole_fetch.claim(plan.rule, network.pool.nodes, redis, self._mode, priced=priced)
        if claim is None:
            self._done(entry, None)
        else:
            self._task = asyncio.get_running_loop().create_task(self._claim(claim))

    async def _claim(self, claim: Claim) -> None:
        shared, plan = self._shared, self._plan
        self._key = b""  # of what the holder of the lease put
        try:
            left = self._ends - shared.clock()
            claimed = await shared.leasing.claim(
                plan.shared_keys[0], self._takes, self._look_again, claim.patience, within=left
            )
            if isinstance(claimed, Entry) and self._key:
                claimed = await self._proved(claimed) if self._is_to_be_proved else claimed
                if claimed is not None:
                    shared.take(plan, self._key, claimed, self.source)
        except Exception as error:
            self._failed(error)
            return
        self._task = None
        if isinstance(claimed, Entry):
            self._done(claimed, None)
        else:
            self._done(None, claimed)

    def _takes(self, entry: Entry) -> bool:
        """Decide whether what stands under the key of the lease answers the call, as of any other entry."""
        doubted = self._shared.sends.doubts(self._network, self._plan, entry.result)
        return not doubted and self._accepts(self._plan.shared_keys[0], entry)

    async def _look_again(self) -> Entry | None:
        """What Redis has of the call now."""
        return (await stored(self._shared, self._network, self._plan))[0]


async def stored(shared: FetchContext, network: Network, plan: Plan) -> tuple[Entry | None, AnswerSource]:
    """The entry that the tiers behind memory have of a call, and the tier that had it; it is put into memory."""
    found: asyncio.Future[Entry | None] = asyncio.get_running_loop().create_future()

    def done(entry: Entry | None, _lease: Lease | None) -> None:
        if not found.done():
            found.set_result(entry)

    def failed(error: Exception) -> None:
        if not found.done():
            found.set_exception(error)

    ends = shared.clock() + network.settings.deadline
    lookup = StoreLookup(shared, network, plan, done, failed, ends=ends, mode=None)
    lookup.begin()
    return await found, lookup.source


LOOK_SECONDS = 5.0
"""Seconds between two looks."""
ENTRIES_A_LOOK = 2000
"""Entries that one look covers; it takes less than a millisecond."""
READ_AHEAD_SHARE = 0.5
"""Part of the memory tier that is read ahead at the most."""


class HotAnswers:
    """Names what is hot in the memory tier of one worker to the disk tier, and fetches it from there after a start."""

    def __init__(
        self,
        memory: MemoryTier,
        disk: DiskStore,
        purges: RecentPurges,
        clock: Callable[[], float],
        believes: Callable[[Entry], bool],
    ) -> None:
        """`believes`: may memory have this entry of the disk before it was proved?"""
        self._memory = memory
        self._disk = disk
        self._purges = purges
        self._clock = clock
        self._believes = believes
        self._place = 0

    async def run(self) -> None:
        """Read ahead, then name what is hot for ever."""
        room = int(self._memory.max_bytes * READ_AHEAD_SHARE)
        ahead: int | None = None
        while True:
            if ahead is None:  # not as long as the file cannot be read
                ahead = await self._disk.read_ahead(room, self._keep)
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def _keep(self, key: bytes, entry: Entry) -> None:
        now = self._clock()
        if self._believes(entry) and not self._purges.cover(key, entry.stored_at, now):
            self._memory.put(key, entry, now)

    def look(self) -> None:
        """Name the hot entries of the next part of memory."""
        if self._place >= len(self._memory):
            self._place = 0
        hot = self._memory.used(self._place, ENTRIES_A_LOOK)
        self._place += ENTRIES_A_LOOK
        if hot:
            self._disk.notice(hot)
