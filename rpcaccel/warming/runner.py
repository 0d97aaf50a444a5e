"""Runs a job: makes its calls, a few at once, and judges what became of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from math import isfinite
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from rpcaccel.bench.load.client import LoadReply, Outcome
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.core.wire.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, LIMIT_EXCEEDED, METHOD_NOT_FOUND
from rpcaccel.warming.block_calls import BlockCall, BlockParts, read_block
from rpcaccel.warming.job import WarmingJob, WarmingTally
from rpcaccel.warming.warming_limits import Pace, QuotaGuard, backoff

MAX_TRIES = 4
"""The times a call is made that fails, before the job goes on without it."""
MAX_WAIT_SECONDS = 900.0
"""Seconds for which one call is put off because the proxy is busy or away."""
MAX_FAILED_BLOCKS_IN_A_ROW = 50
"""Blocks in a row that fail until the whole job is given up."""
QUOTA_WAIT_SECONDS = 0.5
"""Seconds between two looks whether the quotas allow another call."""
SHOW_SECONDS = 0.5
"""Seconds between two updates of the progress."""
SAVE_SECONDS = 5.0
"""Seconds between two writes of the job's file."""
MAX_REASON_CHARACTERS = 200
"""Characters of a proxy's words that are shown."""
_RECENT = 60
"""Updates of the progress over which a rate is taken."""

Post = Callable[[bytes], Awaitable[Outcome]]
Save = Callable[[bytes], None]


Next = Literal["done", "slower", "again", "give-up", "gone"]
"""done: the answer is there; slower: call again, and the whole job slower; again: call again later; give-up: it would
not help; gone: nobody answers at that address."""


class CallVerdict(Struct, frozen=True):
    """What follows for the job from one reply."""

    next: Next
    result: bytes = b""
    text: str = ""
    """Why there is no answer."""
    pause: float | None = None
    """Seconds after which the proxy wants to be asked again, where it says so."""


class _Error(Struct):
    code: int = 0
    message: str = ""


class _Envelope(Struct):
    result: Raw = Raw()
    error: _Error | None = None


_decode = msgspec.json.Decoder(_Envelope).decode
_HOPELESS = frozenset({INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND})
"""Codes of errors that come again however often a call is repeated."""


def judge(outcome: Outcome) -> CallVerdict:
    """The verdict on a reply, or on its absence."""
    if isinstance(outcome, str):
        return CallVerdict("gone" if outcome in ("connect", "closed") else "again", text=outcome)
    busy, pause = outcome.status in (429, 503), _seconds(outcome.retry_after)
    try:
        envelope = _decode(outcome.body)
    except RecursionError:  # only results nest so deeply: traces of calls within calls
        return CallVerdict("done" if outcome.status == 200 else "again", text=f"HTTP {outcome.status}")
    except UNREADABLE:
        return CallVerdict("slower" if busy else "again", text=f"HTTP {outcome.status}", pause=pause)
    if (error := envelope.error) is not None:
        text = f"{error.code} {error.message}"[:MAX_REASON_CHARACTERS]
        if error.code == LIMIT_EXCEEDED or busy:
            return CallVerdict("slower", text=text, pause=pause)
        return CallVerdict("give-up" if error.code in _HOPELESS else "again", text=text)
    result = bytes(envelope.result)
    if result in (b"", b"null"):
        return CallVerdict("again", text="the answer is null, which the proxy does not keep" if result else "no answer")
    return CallVerdict("done", result)


def _seconds(text: str) -> float | None:
    """The seconds in a Retry-After header (RFC 9110 section 10.2.3); None for a date, which rpcaccel never sends."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if isfinite(found) and found >= 0 else None


class _StoppedJob(Exception):
    """The job is to end; the block under way is not done."""


class WarmingRunner:
    """One run of a job. Belongs to the running loop."""

    def __init__(
        self,
        job: WarmingJob,
        calls: Mapping[BlockCall, BlockCall | None],
        post: Post,
        *,
        pace: Pace | None = None,
        guard: QuotaGuard | None = None,
        watch: Watch | None = None,
        show: Callable[[WarmingRunner], None] = lambda _runner: None,
        save: Save = lambda _file: None,
    ) -> None:
        """`calls` are made about each block, each with the one that fetches the block out of which it takes hashes,
        where it takes any. `show` is called now and then to tell the progress, `save` with what the job's file is to
        hold; it may block."""
        self.job = job
        self.tally = WarmingTally()
        self.trouble = ""
        """Why the proxy is asked less just now; empty while nothing is wrong."""
        self.broken = ""
        """Why the job was given up; empty when it was not."""
        self._calls = calls
        self._post = post
        self._pace = pace or Pace()
        self._guard = guard
        self._watch = watch or Watch()
        self._show = show
        self._save = save
        self._loop = asyncio.get_running_loop()
        self._seen: deque[tuple[float, int, int]] = deque(maxlen=_RECENT)

    def __repr__(self) -> str:
        return f"<WarmingRunner of {self.job!r}>"

    async def run(self, at_once: int) -> None:
        """Do the job with so many calls at once, until it is done, given up or stopped. The job is not saved at the
        end: that is left to the caller."""
        if self._guard is not None:
            await self._guard.look()
        beside = [asyncio.create_task(self._tell()), asyncio.create_task(self._keep())]
        if self._guard is not None:
            beside.append(asyncio.create_task(self._guard.watch()))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(at_once):
                    group.create_task(self._work())
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            self._show(self)

    def slow_down(self, seconds: float, why: str) -> None:
        """Make no call for so long."""
        self.trouble = why
        self._pace.hold(seconds, self._loop.time())

    @property
    def paused(self) -> str:
        """Why no call is made at all, or fewer; empty while all is well."""
        return (self._guard.why if self._guard is not None else "") or self.trouble

    @property
    def rates(self) -> tuple[float, float]:
        """Calls and blocks a second in the last half minute; 0 while nothing is known."""
        if len(self._seen) < 2:
            return 0.0, 0.0
        (began, calls, blocks), (now, calls_now, blocks_now) = self._seen[0], self._seen[-1]
        return (calls_now - calls) / (now - began), (blocks_now - blocks) / (now - began)

    async def _tell(self) -> None:
        while True:
            handled = self.job.done + self.job.given_up
            self._seen.append((self._loop.time(), self.tally.calls + self.tally.failed_calls, handled))
            self._show(self)
            await asyncio.sleep(SHOW_SECONDS)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            try:
                self._save(self.job.save())  # nobody is held up but the job itself
            except OSError as error:
                self._break(f"the job's file cannot be written: {error.strerror}")

    def _break(self, why: str) -> None:
        self.broken = self.broken or why
        self._watch.stop.set()

    async def _work(self) -> None:
        """Do one block after the other."""
        while not self._watch.stopped and (block := self.job.take()) is not None:
            try:
                well = await self._block(block)
            except _StoppedJob:
                return
            self.job.finish(block, well=well)
            if self.job.failed_in_a_row >= MAX_FAILED_BLOCKS_IN_A_ROW:
                self._break(f"{MAX_FAILED_BLOCKS_IN_A_ROW} blocks in a row failed")

    async def _block(self, number: int) -> bool:
        """Make all calls about a block, none of them twice; whether each was answered."""
        fetched: dict[BlockCall, BlockParts | None] = {}
        for fetching in filter(None, dict.fromkeys(self._calls.values())):
            fetched[fetching] = await self._parts(number, fetching)
        well = None not in fetched.values()
        for call, source in self._calls.items():
            parts = BlockParts() if source is None else fetched[source]
            if call not in fetched and parts is not None:
                well &= await self._all(number, call, parts)
        return well

    async def _parts(self, number: int, fetching: BlockCall) -> BlockParts | None:
        """What stands in a block; None when it was not answered, or not with a block."""
        (params,) = fetching.texts(number)
        result = await self._ask(number, fetching, params)
        parts = None if result is None else read_block(result)
        if result is not None and parts is None:
            self.tally.failed(number, fetching.method, "the answer is no block with hashes")
        return parts

    async def _all(self, number: int, call: BlockCall, parts: BlockParts) -> bool:
        well = True
        for params in call.texts(number, parts):
            well &= await self._ask(number, call, params) is not None
        return well

    async def _ask(self, number: int, call: BlockCall, params: str) -> bytes | None:
        """The result of a call, which is repeated as long as that may help; None when it was given up."""
        body = LoadCall(call.method, params.encode()).body(1)
        tries = waits = 0
        waited = 0.0
        while True:
            await self._turn()
            outcome = await self._post(body)
            found = judge(outcome)
            if found.next == "done":
                self._answered(outcome)
                return found.result
            if found.next in ("slower", "gone"):
                waits += 1
                if waited < MAX_WAIT_SECONDS:
                    waited += self._put_off(found, waits)
                    continue
                if found.next == "gone":
                    self._break(f"nobody answers: {found.text}")
                    raise _StoppedJob
            tries += 1
            if tries >= MAX_TRIES or found.next in ("slower", "give-up"):
                self.tally.failed(number, call.method, found.text)
                return None
            self.trouble = found.text
            await self._watch.pause(backoff(tries))

    def _answered(self, outcome: Outcome) -> None:
        assert isinstance(outcome, LoadReply)
        there = self.tally.there
        self.tally.answered(outcome.cache.partition(";")[0], len(outcome.body))
        if self._guard is not None and self.tally.there > there:
            self._guard.spend(-1)

    def _put_off(self, found: CallVerdict, waits: int) -> float:
        """Hold the whole job for as long as the proxy says, or longer each time; for how many seconds."""
        pause = backoff(waits) if found.pause is None else max(1.0, found.pause)
        self.slow_down(pause, found.text)
        return pause

    async def _turn(self) -> None:
        """Wait until a call may be made. Raises _StoppedJob when the job is to end."""
        while not self._watch.stopped:
            if self._guard is not None and not self._guard.free:
                await self._watch.pause(QUOTA_WAIT_SECONDS)
                continue
            now = self._loop.time()
            if (wait := self._pace.wait(now)) > 0:
                await self._watch.pause(wait)
                continue
            # No await between the checks above and what follows: another task would take the same turn.
            self._pace.take(now)
            self.trouble = ""
            if self._guard is not None:
                self._guard.spend()
            return
        raise _StoppedJob
