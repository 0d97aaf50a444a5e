"""What is used of the nodes' quotas of a day and a month: counted over all workers and hosts, kept over restarts.

Workers report once a second what they used themselves, and each is told what everybody else used: earlier runs, workers
that ended, and the other workers. A worker holds its node's whole quota against that sum, so a quota is exceeded at the
most by what the workers use between two reports. Hosts that share a Redis tell each other as often what they used;
while Redis is away, each goes on with what it heard last. Nothing here is on the way of a call, and the file is written
by a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import structlog
from msgspec import Struct
from msgspec.structs import replace

from rpcaccel import stores
from rpcaccel.config.model import NodeSettings, RedisSettings, Settings
from rpcaccel.controlplane.nodes.shadow_calls import ProbeBudget, budget_of
from rpcaccel.controlplane.settings.kept_file import KeptFile, LostFileError
from rpcaccel.controlplane.workers.link import Link
from rpcaccel.core.messages import NodeReport, QuotaBrought, WorkerReport
from rpcaccel.core.nodes.limits import Brought, QuotaUse, Window, runs_out, window_end
from rpcaccel.stores.shared_board import QuotaSums

QUOTA_LOOK_SECONDS = 1.0
"""Seconds between two looks at what the workers report."""
QUOTA_SAVE_SECONDS = 5.0
"""Seconds between two writes at the least, which is what a power cut costs of the count."""
_LEAST = 1e-6
"""Differences below this are rounding errors of sums."""
CANNOT = "cannot be written"
QuotaKey = tuple[str, str, Window]

log = structlog.get_logger("rpcaccel.quotas")


class KeptQuotas(Struct, frozen=True, kw_only=True):
    """What is used of the quotas, as it is kept in a file beside the state file."""

    version: int = 1
    uses: tuple[Brought, ...]
    host: str = ""
    """The name under which other hosts know these uses."""


class Quotas:
    """The use of all quotas. `links` are the workers that run, draining ones included."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        links: Sequence[Link],
        wall: Callable[[], float] = time.time,
        every: float = QUOTA_LOOK_SECONDS,
    ) -> None:
        """`every`: seconds between two looks at the reports."""
        self.note = ""
        """A sentence when what is used will not be known after a restart."""
        self._settings = settings
        self._links = links
        self._wall = wall
        self._past: dict[QuotaKey, Brought] = {}
        """By quota, the use by earlier runs and by workers that ended."""
        self._host = secrets.token_hex(8)
        self._hosts: QuotaSums | None = None
        self._opened = False
        """Was `_hosts` opened? Where no node has a quota, there is nothing to exchange."""
        self._shared_by: RedisSettings | None = None
        self._recalled: set[QuotaKey] = set()
        """The quotas whose use is known that this host told in an earlier run, and may not have kept."""
        self._elsewhere: dict[QuotaKey, Brought] = {}
        """By quota, the use by other hosts, as they told it last."""
        self._file: KeptFile[KeptQuotas] | None = None
        self._saved: tuple[Brought, ...] | None = ()
        """What the file says; None while it has uses and does not name this host."""
        self._every = every
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Quotas {len(self._past)} windows, {self._file!r}>"

    # -- from start to stop --------------------------------------------------------------------------------------

    def open(self, file: KeptFile[KeptQuotas] | None) -> None:
        """Take up what was kept in the windows that still run. A file that cannot be used is named in a note."""
        self._file = file
        if file is None:
            self.note = "the use of quotas lives until the restart: there is no state file"
            return
        try:
            kept = file.load() or KeptQuotas(uses=())
            self._past = {(one.network, one.node, one.window): one for one in kept.uses}
            self._host = kept.host or self._host
        except LostFileError as error:
            self.note = f"{file.path} {error}: the use of quotas was counted from zero at this start"
            log.error("the use of quotas is counted from zero", file=str(file.path), reason=str(error))  # noqa: TRY400
        else:
            self._saved = self._sums([]) if kept.host or not kept.uses else None

    def start(self) -> None:
        """Gather, tell and keep from now on."""
        self._task = asyncio.create_task(self._run(), name="quotas")

    async def share(self, redis: RedisSettings) -> None:
        """Count with the hosts that use this Redis, and with no others any more."""
        if redis != self._shared_by:
            self._shared_by = redis
            await self.share_by(stores.driver(redis).quota_sums(redis, self._host))

    async def share_by(self, hosts: QuotaSums | None) -> None:
        """Count with these other hosts; None: with none."""
        before, self._hosts, self._elsewhere = self._hosts, None, {}
        if before is not None and self._opened:
            await before.close()
        self._hosts, self._opened, self._recalled = hosts, False, set()

    async def stop(self) -> None:
        """Keep what was used to the end; to be called after the workers have sent their last reports."""
        self._ending.set()
        if self._task is not None:
            await self._task  # not cancelled: its thread might finish an older write after the last one
        await self.save()
        await self.exchange()
        await self.share_by(None)

    async def _run(self) -> None:
        saved_at = self._wall()
        while not self._ending.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._ending.wait()
            try:
                await self.exchange()
                self.tell()
                if abs(self._wall() - saved_at) >= QUOTA_SAVE_SECONDS:
                    saved_at = self._wall()
                    await self.save()
            except Exception:
                log.exception("the use of quotas was not gathered, and is gathered again")

    # -- counting --------------------------------------------------------------------------------------------------

    def brought(self) -> tuple[Brought, ...]:
        """The uses that a worker which starts now is told."""
        if not self.wanted:
            return ()
        sums = {_key(one): one for one in self._sums([report for _, report in self._reports()])}
        return tuple(
            self._with_others(sums.get(key) or self._sum(key, [])) for key in sorted({*sums, *self._elsewhere})
        )

    async def exchange(self) -> None:
        """Tell the other hosts what was used here, and hear what they used."""
        hosts = self._hosts
        if hosts is None or not self.wanted:
            return
        if not self._opened:
            self._opened = True
            # Under another name after a restart, what was used before it would count twice.
            await self.save()
            await hosts.open()
        uses: dict[QuotaKey, list[QuotaUse]] = {key: [] for key in self._limited()}
        for _, report in self._reports():
            for key, use in _uses(report):
                uses.setdefault(key, []).append(use)
        for one in await hosts.earlier([self._sum(*pair) for pair in uses.items() if pair[0] not in self._recalled]):
            own = self._sum(_key(one), uses[_key(one)])
            self._recalled.add(_key(one))
            if one.used > own.used and one.renews == own.renews:
                past = self._sum(_key(one), [])
                self._past[_key(one)] = replace(
                    past, used=past.used + one.used - own.used, since=min(past.since, one.since)
                )
        heard = await hosts.exchange([self._sum(*pair) for pair in uses.items() if pair[0] in self._recalled])
        if hosts is self._hosts:
            self._elsewhere |= {_key(one): one for one in heard}

    def _limited(self) -> Iterator[QuotaKey]:
        for name, network in self._settings().networks.items():
            for node in network.nodes:
                yield from ((name, node.id, window) for window, limit in _limits(node) if limit)

    def _with_others(self, one: Brought) -> Brought:
        """What was used here, and by other hosts."""
        others = self._elsewhere.get(_key(one))
        if others is None or others.renews != one.renews:
            return one
        return replace(one, used=one.used + others.used, since=min(one.since, others.since))

    def tell(self) -> None:
        """Tell each worker what everybody else used, where that has changed."""
        if not self.wanted:
            return
        reports = self._reports()
        sums = {_key(one): one for one in self._sums([report for _, report in reports])}
        for link, report in reports:
            changed = []
            for key, use in _uses(report):
                total = self._with_others(sums.get(key) or self._sum(key, []))
                if total.renews == use.renews:
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
                here = self._sum((network, node.id, window), [use for report in told for use in report.quota])
                one = self._with_others(here)
                out = runs_out(one.used, limit, since=one.since, now=now, renews=one.renews)
                found.append(
                    QuotaUse(
                        window=window, used=one.used, limit=limit, since=one.since, renews=one.renews, runs_out=out
                    )
                )
        return tuple(found)

    def budget(self, network: str, node: NodeSettings, *, alone: bool) -> ProbeBudget:
        """What a node may be asked for one examination: a hundredth of its day and month at the most, and what is left.

        `alone`: does it get no calls of clients meanwhile?
        """
        reports = [report for _, report in self._reports()]
        told = [one for report in reports for one in report.nodes if (one.network, one.id) == (network, node.id)]
        most = budget_of(node.quota, alone=alone)
        left = [max(0.0, use.limit - use.used) for use in self.of(network, node, told)]
        return replace(most, cost=min([most.cost, *left]))

    def spend(self, network: str, node: str, units: float) -> None:
        """Count the units of calls that no worker sends: those of an examination, and probes of a node with costs."""
        settings = self._settings().networks.get(network)
        limits = [_limits(one) for one in settings.nodes if one.id == node] if settings is not None else []
        for window, limit in limits[0] if limits else ():
            if limit:
                past = self._sum((network, node, window), [])
                self._past[network, node, window] = replace(past, used=past.used + units)

    def _reports(self) -> list[tuple[Link, WorkerReport]]:
        """The workers that run with their reports; a worker in this process makes a new one each time it is asked."""
        return [(link, report) for link in self._links if (report := link.report()) is not None]

    def _sums(self, reports: Iterable[WorkerReport]) -> tuple[Brought, ...]:
        """Everything that is used of any quota in the windows that run, by the past and in these reports."""
        uses: dict[QuotaKey, list[QuotaUse]] = {key: [] for key in self._past}
        for report in reports:
            for key, use in _uses(report):
                uses.setdefault(key, []).append(use)
        return tuple(one for key in sorted(uses) if (one := self._sum(key, uses[key])).used)

    def _sum(self, key: QuotaKey, uses: Iterable[QuotaUse]) -> Brought:
        """The past of a quota and these uses together, as far as they fall into the window that runs."""
        network, node, window = key
        now = self._wall()
        renews = window_end(window, now)
        past = self._past.get(key)
        if past is None or past.renews != renews:
            past = Brought(network=network, node=node, window=window, used=0.0, since=now, renews=renews)
        current = [use for use in uses if use.window == window and use.renews == renews]
        used = max(0.0, past.used + sum(use.own for use in current))  # own uses are differences, which are rounded
        return replace(past, used=used, since=min([past.since, *(use.since for use in current)]))

    # -- keeping ---------------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> bool:
        """Whether any node has a quota of a day or a month."""
        nodes = (node for network in self._settings().networks.values() for node in network.nodes)
        return any(node.quota.day or node.quota.month for node in nodes)

    def notices(self) -> list[str]:
        """Sentences about counts that will be lost, and about what other programs wrote, where there are quotas."""
        if not self.wanted:
            return []
        return [*([self.note] if self.note else []), *(self._hosts.notices() if self._hosts is not None else [])]

    async def save(self) -> None:
        """Keep what is used for the next start, if it has changed."""
        if self._file is None or not (self.wanted or self._past):
            return
        uses = self._sums([report for _, report in self._reports()])
        if uses == self._saved:
            return
        try:
            await asyncio.to_thread(self._file.save, KeptQuotas(uses=uses, host=self._host))
        except OSError as error:
            why = error.strerror or type(error).__name__
            note = f"{self._file.path} {CANNOT} ({why}): the use of quotas lives until the restart"
            if note != self.note:
                log.warning(note)
            self.note = note
        else:
            self._saved = uses
            self.note = "" if CANNOT in self.note else self.note


def _key(one: Brought) -> QuotaKey:
    return one.network, one.node, one.window


def _limits(node: NodeSettings) -> tuple[tuple[Window, float], ...]:
    return ("day", node.quota.day), ("month", node.quota.month)


def _uses(report: WorkerReport) -> Iterator[tuple[QuotaKey, QuotaUse]]:
    for node in report.nodes:
        for use in node.quota:
            yield (node.network, node.id, use.window), use
