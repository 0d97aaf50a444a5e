"""The pool of workers: each listens on its own socket of the one port, is replaced when it dies or hangs, and is
renewed in turn.

The supervisor keeps the sockets open as long as the program runs: a connection that arrives while its worker is being
replaced waits in the socket's queue for the next worker and is not refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Annotated, Any, Literal

import structlog
from msgspec import Meta, Struct

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.workers.link import GONE, Link
from rpcaccel.core.heads.served_head import NetworkHeads
from rpcaccel.core.messages import Heads, WorkerReport

ACK_WITHIN = 5.0
"""Seconds in which a worker has to adopt a revision, or the revision is refused."""
ROLLBACK_WITHIN = 1.0
"""Seconds that a refusal waits for the other workers to go back to the previous revision; a slow worker does so later.
"""
SHORT_LIFE = 5.0
"""Seconds: a worker that dies younger than this is replaced after a pause that grows."""
MAX_RESTART_PAUSE_SECONDS = 10.0
REMEMBERED = 600.0
"""Seconds for which a worker's death is something to look at."""

WATCH_SECONDS = 0.5
"""Seconds between two looks."""
ASLEEP = 2.0
"""Seconds between two looks after which this process itself must have slept: silence then counts from its waking."""
GRACE = 1.0
"""Seconds that a silent worker gets to end by itself."""

log = structlog.get_logger("rpcaccel.workers")

WorkerEventKind = Literal["started", "ended", "draining"]
ProcessState = Literal["starting", "serving", "draining"]


class WorkerEvent(Struct, frozen=True):
    """An event in the life of a worker."""

    id: str
    pid: int
    what: WorkerEventKind
    at: float
    """Seconds since 1970."""
    text: str


class WorkerStanding(Struct, frozen=True, kw_only=True):
    """A worker process."""

    id: str
    pid: int
    revision: Annotated[int, Meta(description="Of the settings it runs.")]
    uptime: Annotated[float | None, Meta(description="Seconds; null before it has reported.")]
    longest_turn: Annotated[
        float | None, Meta(description="Seconds of the longest turn of its event loop in the last minute, or null.")
    ]
    state: ProcessState


class RunningWorker(Struct):
    """The state of one worker."""

    link: Link
    revision: int = 0
    """The revision that the worker acknowledged."""
    state: ProcessState = "starting"
    hung: bool = False
    """Whether the worker was ended because it no longer answered."""
    ended: bool = False
    """Whether the end of the worker was noticed and its counts were kept."""

    def standing(self) -> WorkerStanding:
        """The worker as the admin API shows it."""
        link, report = self.link, self.link.report()
        return WorkerStanding(
            id=link.name,
            pid=link.pid,
            revision=self.revision,
            uptime=None if report is None else report.uptime,
            longest_turn=None if report is None else report.longest_turn,
            state=self.state,
        )


MakeLink = Callable[[str, socket.socket], Link]


class Workers:
    """The pool of workers. `links` holds the links of the workers whose counts the overview still has to add."""

    def __init__(
        self,
        make: MakeLink,
        links: list[Link],
        *,
        heads: Callable[[], Sequence[NetworkHeads]] = tuple,
        bury: Callable[[WorkerReport], None] = lambda _report: None,
        heard: Callable[[WorkerEvent], None] = lambda _event: None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.links = links
        self.replaced: Counter[str] = Counter()
        """The number of replaced workers by reason: died, unresponsive."""
        self._make = make
        self._heads = heads
        self._bury = bury
        self._heard = heard
        self._clock = clock
        self._wall = wall
        self._sockets: dict[str, socket.socket] = {}
        self._slots: dict[str, RunningWorker] = {}
        self._coming: dict[str, asyncio.Lock] = {}
        """A lock for each place, held while a worker is put there: two workers must not serve in one place."""
        self._leaving: list[RunningWorker] = []
        self._watching: set[asyncio.Task[None]] = set()
        self._adopting = asyncio.Lock()
        self._short_lives: dict[str, int] = {}
        self._deaths: list[tuple[float, str]] = []
        self._failed: dict[str, str] = {}
        """By place, the reason why the last worker did not come up."""
        self._settings: Settings | None = None
        self._revision = 0
        self._stopping = False

    def __repr__(self) -> str:
        return f"<Workers {' '.join(f'{name} {one.state}' for name, one in self._slots.items())}>"

    @property
    def places(self) -> int:
        """The configured number of workers."""
        return len(self._sockets)

    def own(self, sockets: Sequence[socket.socket]) -> None:
        """Make a place for a worker on each of these bound sockets, and take over the sockets."""
        self._sockets = {f"w{number}": sock for number, sock in enumerate(sockets, 1)}
        self._coming = {name: asyncio.Lock() for name in self._sockets}

    async def start(self, settings: Settings, revision: int) -> None:
        """Start a worker in each place. Raises RuntimeError or OSError."""
        self._settings, self._revision = settings, revision
        await asyncio.gather(*(self._join(name) for name in self._sockets))

    async def adopt(self, settings: Settings, revision: int) -> str:
        """Have every worker adopt a revision; when one refuses, all go back, and the reason is returned."""
        async with self._adopting:
            serving = self.serving()
            answers = await asyncio.gather(*(_adopt(one, settings, revision, ACK_WITHIN) for one in serving))
            reason = next(filter(None, answers), "")
            if not reason:
                self._settings, self._revision = settings, revision
            elif self._settings is not None:
                before, number = self._settings, self._revision
                await asyncio.gather(*(_adopt(one, before, number, ROLLBACK_WITHIN) for one in serving))
            return reason

    async def renew(self, renewed: Callable[[], None] = lambda: None) -> None:
        """A new worker in every place, one place after the other: it listens before the old one drains.

        `renewed` is called when all calls go to new ones; the old ones may still finish what they have.

        Raises RuntimeError or OSError when a new one does not come up; the old one then serves on.
        """
        leaving = []
        for name in list(self._slots):
            async with self._coming[name]:
                old = self._slots[name]
                await self._join(name)
            leaving.append(asyncio.create_task(self._leave(old)))
        renewed()
        await asyncio.gather(*leaving)

    async def stop(self, timeout: float, linger: float = 0.0) -> None:
        """Drain all workers: calls on open connections are answered for `linger` seconds more, and running ones get
        `timeout` seconds to finish after that."""
        self._stopping = True
        for sock in self._sockets.values():
            sock.close()
        everyone = [*self._slots.values(), *self._leaving]
        await asyncio.gather(*(one.link.drain(timeout, linger) for one in everyone))
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)

    def states(self) -> list[WorkerStanding]:
        """The state of every worker, draining ones included."""
        return [one.standing() for one in (*self._slots.values(), *self._leaving)]

    def adopted(self) -> int:
        """The number of workers that serve with the revision in force."""
        return sum(one.state == "serving" and one.revision == self._revision for one in self._slots.values())

    def serving(self) -> list[RunningWorker]:
        """The workers that take calls."""
        return [one for one in self._slots.values() if one.state == "serving"]

    def notices(self) -> list[str]:
        """Sentences about workers that died or did not come up lately."""
        now = self._clock()
        self._deaths = [(at, text) for at, text in self._deaths if now - at < REMEMBERED]
        dead = [f"{text} ({now - at:.0f} s ago); it was replaced" for at, text in self._deaths[-3:]]
        return dead + [f"a new worker did not come up in place {name}: {why}" for name, why in self._failed.items()]

    # -- coming and going ----------------------------------------------------------------------------------------

    async def _join(self, name: str) -> None:
        """Start a worker in this place, which has the revision in force by the time it counts.

        Raises RuntimeError or OSError when it does not come up.
        """
        link = self._make(name, self._sockets[name].dup())
        one = RunningWorker(link, self._revision)
        if name not in self._slots:
            self._slots[name] = one
        settings, revision = self._settings, self._revision
        assert settings is not None
        try:
            await link.start(settings, revision, self._heads())
            refusal = await self._take_in(name, one, revision)
        except BaseException as error:
            self._failed[name] = str(error)
            await link.drain(0.0)
            raise
        self._watch(name, one)
        if refusal:
            self._failed[name] = refusal
            self._later(self._leave(one))  # the worker listened meanwhile, so its clients get their answers
            raise RuntimeError(refusal)
        self._failed.pop(name, None)
        self._tell(link, "started", f"worker {name} serves")

    async def _take_in(self, name: str, one: RunningWorker, revision: int) -> str:
        """Count a new worker as serving; or return the reason why it cannot: it refused a revision that the others
        adopted while it started."""
        async with self._adopting:
            if revision != self._revision and self._settings is not None:
                refusal = await _adopt(one, self._settings, self._revision, ACK_WITHIN)
                if refusal:
                    return f"{refusal} (revision {self._revision}, which the others have)"
            for heads in self._heads():
                one.link.tell(Heads(heads))
            one.state = "serving"
            self._slots[name] = one
            self.links.append(one.link)
            return ""

    async def _leave(self, one: RunningWorker) -> None:
        if one.ended:
            return
        one.state = "draining"
        self._leaving.append(one)
        self._tell(one.link, "draining", f"worker {one.link.name} finishes what it has and takes no new connections")
        timeout = self._settings.drain_timeout if self._settings else 0.0
        await one.link.drain(timeout, linger=timeout)

    def _watch(self, name: str, one: RunningWorker) -> None:
        self._later(self._see_off(name, one, self._clock()))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    async def _see_off(self, name: str, one: RunningWorker, since: float) -> None:
        """Wait for a worker's end, keep its counts, and replace the worker unless it was drained."""
        how = await one.link.ended()
        report, one.ended = one.link.report(), True
        # No await between these lines: the sums must neither miss the counts nor hold them twice.
        if report is not None:
            self._bury(report)
        if one.link in self.links:
            self.links.remove(one.link)
        if one in self._leaving:
            self._leaving.remove(one)
        if one.state == "draining" or self._slots.get(name) is not one:
            self._tell(one.link, "ended", f"worker {name} {how}")
            return
        if self._stopping:
            return
        text = f"worker {name} {how}"
        self._deaths.append((self._clock(), text))
        self._tell(one.link, "ended", f"{text} and is being replaced")
        log.error("a worker ended and is being replaced", worker=name, how=how)
        with contextlib.suppress(Exception):
            await one.link.drain(0.0)
        self._short_lives[name] = self._short_lives.get(name, 0) + 1 if self._clock() - since < SHORT_LIFE else 0
        await self._replace(name, one)

    async def _replace(self, name: str, dead: RunningWorker) -> None:
        dead.state = "starting"
        # One death is an accident and calls are waiting; one after the other is a fault that haste does not mend.
        pause = (
            min(MAX_RESTART_PAUSE_SECONDS, 0.25 * 2 ** (lives - 1)) if (lives := self._short_lives[name]) > 1 else 0.0
        )
        while not self._stopping:
            await asyncio.sleep(pause)
            try:
                async with self._coming[name]:
                    if self._slots[name] is dead:  # a renewal may have replaced the worker meanwhile
                        await self._join(name)
            except (OSError, RuntimeError) as error:
                log.exception("a worker could not be replaced and is tried again", worker=name, reason=str(error))
                pause = min(MAX_RESTART_PAUSE_SECONDS, max(0.25, 2 * pause))
            else:
                self.replaced["unresponsive" if dead.hung else "died"] += 1
                return

    def _tell(self, link: Link, what: WorkerEventKind, text: str) -> None:
        self._heard(WorkerEvent(link.name, link.pid, what, self._wall(), text))


async def _adopt(one: RunningWorker, settings: Settings, revision: int, within: float) -> str:
    """Have one worker adopt a revision; returns the reason why it did not, empty when it did or has ended."""
    try:
        async with asyncio.timeout(within):
            refusal = await one.link.adopt(settings, revision)
    except TimeoutError:
        refusal = f"did not adopt it within {within:g} s"
    if not refusal:
        one.revision = revision
    return f"worker {one.link.name}: {refusal}" if refusal and refusal != GONE else ""


class Watchdog:
    """Ends workers that hang. A worker reports once a second; one that is silent for more than `within` seconds is told
    to end, which a worker that was only slow then does, and is killed when it does not. 0 seconds: no worker is ended.
    """

    def __init__(
        self,
        serving: Callable[[], Sequence[RunningWorker]],
        within: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._serving = serving
        self._within = within
        self._clock = clock
        self._sleep = sleep
        self._looked_at = self._since = clock()
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Watchdog {self._within():g} s>"

    def start(self) -> None:
        self._looked_at = self._since = self._clock()
        self._task = asyncio.create_task(self._run(), name="watchdog")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def silent(self) -> list[RunningWorker]:
        """The workers that have been silent for too long."""
        now, within = self._clock(), self._within()
        if now - self._looked_at > ASLEEP:  # their messages of the meantime still wait to be read
            self._since = now
        self._looked_at = now
        return [one for one in self._serving() if within and now - max(one.link.heard_at, self._since) > within]

    async def _run(self) -> None:
        while True:
            await self._sleep(WATCH_SECONDS)
            if silent := self.silent():
                await self._end(silent)

    async def _end(self, silent: Sequence[RunningWorker]) -> None:
        """End all silent workers at once, since calls wait at each of them."""
        why = f"did not answer for {self._within():g} s"
        for one in silent:
            one.hung = True
            log.error("a worker does not answer and is ended", worker=one.link.name, pid=one.link.pid, how=why)
            one.link.ask_to_end(why)
        await self._sleep(GRACE)
        for one in silent:
            one.link.kill()
