"""What is used of the nodes' quotas of a day and a month: counted over all workers, kept over restarts.

Workers report once a second what they used themselves, and each is told what everybody else used: earlier runs, workers
that ended, and the other workers. A worker holds its node's whole quota against that sum, so a quota is exceeded at the
most by what the workers use between two reports. Nothing here is on the way of a call, and the file is written by a
thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.config.model import NodeSettings, Settings
from rpcaccel.controlplane.nodes.shadow_calls import Allowance, allowed
from rpcaccel.controlplane.settings.state_file import write_whole
from rpcaccel.controlplane.workers.link import Link
from rpcaccel.core.messages import NodeReport, QuotaBrought, WorkerReport
from rpcaccel.core.nodes.quota import Brought, QuotaUse, Window, runs_out, window_end
from rpcaccel.core.wire.json_text import UNREADABLE

VERSION = 1
LOOK_EVERY = 1.0
"""Seconds between two looks at what the workers report."""
SAVE_EVERY = 5.0
"""Seconds between two writes at the least, which is what a power cut costs of the count."""
_LEAST = 1e-6
"""Differences below this are rounding errors of sums."""
CANNOT = "cannot be written"
Key = tuple[str, str, Window]

log = structlog.get_logger("rpcaccel.quotas")


class _Content(Struct, frozen=True, kw_only=True):
    version: int = VERSION
    uses: tuple[Brought, ...]


class DamagedError(Exception):
    """The file cannot be used. Its text says why, in words that follow the file's name."""


class QuotaFile:
    """The file that keeps what is used over a restart; replaced whole at each write."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def beside(cls, state: Path) -> QuotaFile:
        """The file that belongs to a state file: rpcaccel.state.json -> rpcaccel.quota.json."""
        name = state.name.removesuffix(".json").removesuffix(".state")
        return cls(state.with_name(f"{name}.quota.json"))

    def __repr__(self) -> str:
        return f"<QuotaFile {self.path}>"

    def load(self) -> tuple[Brought, ...]:
        """The uses that were saved; none without a file. Raises DamagedError."""
        try:
            content = msgspec.json.decode(self.path.read_bytes(), type=_Content)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise DamagedError(f"cannot be read: {error.strerror or type(error).__name__}") from None
        except UNREADABLE:
            raise DamagedError("is damaged") from None
        if content.version != VERSION:
            raise DamagedError(f"has version {content.version}, which this rpcaccel does not read")
        return content.uses

    def save(self, uses: Sequence[Brought]) -> None:
        """Write and rename. Raises OSError. Blocks."""
        write_whole(self.path, msgspec.json.encode(_Content(uses=tuple(uses))) + b"\n")


class Quotas:
    """The use of all quotas. `links` are the workers that run, draining ones included."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        links: Sequence[Link],
        wall: Callable[[], float] = time.time,
        every: float = LOOK_EVERY,
    ) -> None:
        """`every`: seconds between two looks at the reports."""
        self.note = ""
        """A sentence when what is used will not be known after a restart."""
        self._settings = settings
        self._links = links
        self._wall = wall
        self._past: dict[Key, Brought] = {}
        """By quota, the use by earlier runs and by workers that ended."""
        self._file: QuotaFile | None = None
        self._saved: tuple[Brought, ...] = ()
        self._every = every
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Quotas {len(self._past)} windows, {self._file!r}>"

    # -- from start to stop --------------------------------------------------------------------------------------

    def open(self, file: QuotaFile | None) -> None:
        """Take up what was kept in the windows that still run. A file that cannot be used is named in a note."""
        self._file = file
        if file is None:
            self.note = "the use of quotas lives until the restart: there is no state file"
            return
        try:
            self._past = {(one.network, one.node, one.window): one for one in file.load()}
        except DamagedError as error:
            self.note = f"{file.path} {error}: the use of quotas was counted from zero at this start"
            log.error("the use of quotas is counted from zero", file=str(file.path), reason=str(error))  # noqa: TRY400
        self._saved = self._sums([])

    def start(self) -> None:
        """Gather, tell and keep from now on."""
        self._task = asyncio.create_task(self._run(), name="quotas")

    async def stop(self) -> None:
        """Keep what was used to the end; to be called after the workers have sent their last reports."""
        self._ending.set()
        if self._task is not None:
            await self._task  # not cancelled: its thread might finish an older write after the last one
        await self.save()

    async def _run(self) -> None:
        saved_at = self._wall()
        while not self._ending.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._ending.wait()
            try:
                self.tell()
                if abs(self._wall() - saved_at) >= SAVE_EVERY:
                    saved_at = self._wall()
                    await self.save()
            except Exception:
                log.exception("the use of quotas was not gathered, and is gathered again")

    # -- counting --------------------------------------------------------------------------------------------------

    def brought(self) -> tuple[Brought, ...]:
        """The uses that a worker which starts now is told."""
        return self._sums([report for _, report in self._reports()]) if self.wanted else ()

    def tell(self) -> None:
        """Tell each worker what everybody else used, where that has changed."""
        if not self.wanted:
            return
        reports = self._reports()
        sums = {(one.network, one.node, one.window): one for one in self._sums([report for _, report in reports])}
        for link, report in reports:
            changed = []
            for key, use in _uses(report):
                total = sums.get(key)
                if total is not None and total.renews == use.renews:
                    others = max(0.0, total.used - use.own)
                    if abs(others - use.brought) > _LEAST:
                        changed.append(replace(total, used=others))
            if changed:
                link.tell(QuotaBrought(tuple(changed)))

    def bury(self, report: WorkerReport) -> None:
        """Count the use of a worker that ended as past."""
        for key, use in _uses(report):
            self._past[key] = self._sum(key, [use])

    def of(self, network: str, node: NodeSettings, told: Sequence[NodeReport]) -> tuple[QuotaUse, ...]:
        """The use of each quota that the node has, and when the quota will run out. `told`: the workers' reports of the
        node."""
        now, found = self._wall(), []
        for window, limit in _limits(node):
            if limit:
                one = self._sum((network, node.id, window), [use for report in told for use in report.quota])
                out = runs_out(one.used, limit, since=one.since, now=now, renews=one.renews)
                found.append(
                    QuotaUse(
                        window=window, used=one.used, limit=limit, since=one.since, renews=one.renews, runs_out=out
                    )
                )
        return tuple(found)

    def allowance(self, network: str, node: NodeSettings, *, alone: bool) -> Allowance:
        """What a node may be asked for one proof: of its day and month no more than a hundredth, and what is left.

        `alone`: does it get no calls of clients meanwhile?
        """
        reports = [report for _, report in self._reports()]
        told = [one for report in reports for one in report.nodes if (one.network, one.id) == (network, node.id)]
        most = allowed(node.quota, alone=alone)
        left = [max(0.0, use.limit - use.used) for use in self.of(network, node, told)]
        return replace(most, cost=min([most.cost, *left]))

    def spend(self, network: str, node: str, calls: float) -> None:
        """Count calls of a proof, which no worker counts: a heavy one as the quota does."""
        settings = self._settings().networks.get(network)
        limits = [_limits(one) for one in settings.nodes if one.id == node] if settings is not None else []
        for window, limit in limits[0] if limits else ():
            if limit:
                past = self._sum((network, node, window), [])
                self._past[network, node, window] = replace(past, used=past.used + calls)

    def _reports(self) -> list[tuple[Link, WorkerReport]]:
        """The workers that run with their reports; a worker in this process makes a new one each time it is asked."""
        return [(link, report) for link in self._links if (report := link.report()) is not None]

    def _sums(self, reports: Iterable[WorkerReport]) -> tuple[Brought, ...]:
        """Everything that is used of any quota in the windows that run, by the past and in these reports."""
        uses: dict[Key, list[QuotaUse]] = {key: [] for key in self._past}
        for report in reports:
            for key, use in _uses(report):
                uses.setdefault(key, []).append(use)
        return tuple(one for key in sorted(uses) if (one := self._sum(key, uses[key])).used)

    def _sum(self, key: Key, uses: Iterable[QuotaUse]) -> Brought:
        """The past of a quota and these uses together, as far as they fall into the window that runs."""
        network, node, window = key
        now = self._wall()
        renews = window_end(window, now)
        past = self._past.get(key)
        if past is None or past.renews != renews:
            past = Brought(network=network, node=node, window=window, used=0.0, since=now, renews=renews)
        current = [use for use in uses if use.window == window and use.renews == renews]
        used = past.used + sum(use.own for use in current)
        return replace(past, used=used, since=min([past.since, *(use.since for use in current)]))

    # -- keeping ---------------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> bool:
        """Whether any node has a quota of a day or a month."""
        nodes = (node for network in self._settings().networks.values() for node in network.nodes)
        return any(node.quota.day or node.quota.month for node in nodes)

    def notices(self) -> list[str]:
        """Sentences about counts that will be lost, where there are quotas."""
        return [self.note] if self.note and self.wanted else []

    async def save(self) -> None:
        """Keep what is used for the next start, if it has changed."""
        if self._file is None or not (self.wanted or self._past):
            return
        uses = self._sums([report for _, report in self._reports()])
        if uses == self._saved:
            return
        try:
            await asyncio.to_thread(self._file.save, uses)
        except OSError as error:
            why = error.strerror or type(error).__name__
            note = f"{self._file.path} {CANNOT} ({why}): the use of quotas lives until the restart"
            if note != self.note:
                log.warning(note)
            self.note = note
        else:
            self._saved = uses
            self.note = "" if CANNOT in self.note else self.note


def _limits(node: NodeSettings) -> tuple[tuple[Window, float], ...]:
    return ("day", node.quota.day), ("month", node.quota.month)


def _uses(report: WorkerReport) -> Iterator[tuple[Key, QuotaUse]]:
    for node in report.nodes:
        for use in node.quota:
            yield (node.network, node.id, use.window), use
