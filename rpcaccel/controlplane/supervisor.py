"""The supervisor: starts and stops workers and probers, has changes of the settings adopted, and implements what the
admin side asks for. The code below the links cannot tell whether there is one process or several."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterable, Sequence
from functools import partial

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

import rpcaccel
from rpcaccel.config.model import Settings
from rpcaccel.config.sections import LogSettings
from rpcaccel.config.validate import OPEN, Misfit, is_open
from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.admin.settings_api import line
from rpcaccel.controlplane.alerts.alerting import Alerting
from rpcaccel.controlplane.alerts.mutes import KeptMutes
from rpcaccel.controlplane.certificates import Certificates
from rpcaccel.controlplane.documents.current_figures import RATE_SECONDS
from rpcaccel.controlplane.history_file import HistoryKeeper
from rpcaccel.controlplane.hosts.host_exchange import HostExchange
from rpcaccel.controlplane.hosts.host_report import HostReport, counted, page_of
from rpcaccel.controlplane.hosts.sharing import Hosts
from rpcaccel.controlplane.nodes.disagreements import AGREEMENT_AUTHOR, Disagreements
from rpcaccel.controlplane.nodes.discovery import try_nodes
from rpcaccel.controlplane.nodes.probers import Probers
from rpcaccel.controlplane.nodes.quotas import KeptQuotas, Quotas
from rpcaccel.controlplane.settings.hindrances import hindrances
from rpcaccel.controlplane.settings.kept_file import KeptFile, beside
from rpcaccel.controlplane.settings.ledger import (
    Author,
    Change,
    InvalidSettingsError,
    Ledger,
    NoFileError,
    Origin,
    RefusedError,
)
from rpcaccel.controlplane.stats.events import Events
from rpcaccel.controlplane.stats.history import History
from rpcaccel.controlplane.stats.notices import LogNotice, trouble
from rpcaccel.controlplane.stats.snapshot import Notice, SupervisorView
from rpcaccel.controlplane.stats.summaries import readings
from rpcaccel.controlplane.workers.link import Link, LocalLink
from rpcaccel.controlplane.workers.operations import purge
from rpcaccel.controlplane.workers.process_link import ProcessLink, spawn
from rpcaccel.controlplane.workers.sockets import address_of, bind_workers, cannot_listen
from rpcaccel.controlplane.workers.workers import Watchdog, Workers
from rpcaccel.core.agreement.cases import Case
from rpcaccel.core.heads.recent_writes import Sent
from rpcaccel.core.heads.served_head import NetworkHeads
from rpcaccel.core.messages import Announced, Heads, Noted, Rewritten, Spent, WorkerReport
from rpcaccel.core.replies.error_rules import fold
from rpcaccel.core.stats.error_log import ErrorLog, ErrorNews
from rpcaccel.dataplane import logs

HEADS_WITHIN = 1.0
"""Seconds that the start waits for the first heads, so that the first calls find nodes of the right chain."""

log = structlog.get_logger("rpcaccel")


class RunningInfo(Struct, frozen=True):
    """The addresses that a started program listens on, with the real ports."""

    settings: Settings
    listen: str
    admin: str
    notes: tuple[str, ...] = ()
    """Sentences about how these settings were put together, and about a cache tier that is not reached."""


class Supervisor:
    """Everything that runs, from `start` to `stop`. Implements controlplane.admin.handling.Control."""

    def __init__(self, settings: Settings, origin: Origin | None = None) -> None:
        self.ledger = Ledger(settings, origin, check=self._hindered)
        self.events = Events()
        self.errors = ErrorLog(began=time.time())
        self.alerts = Alerting()
        self._left_out: tuple[str, ...] = ()
        self._listen = ""
        self._certificates = Certificates()
        self.links: list[Link] = []
        self._quotas = Quotas(lambda: self.settings, self.links)
        self._probers = Probers(self._publish, announce=self._announce, quotas=self._quotas, examined=self._tell_notice)
        self._history = History()
        self._history_keeper = HistoryKeeper(self._history)
        self.overview = SupervisorView(
            lambda: self.settings,
            self._heads,
            self.links,
            notices=self._notices,
            quotas=self._quotas.of,
            replaced=lambda: self._workers.replaced,
            listen=lambda: self._listen,
            tls_cert=lambda: self._certificates.calls.cert if self._certificates.calls is not None else "",
            alerts=self.alerts.figures,
        )
        self._workers = Workers(
            self._link,
            self.links,
            heads=lambda: tuple(map(self._with_suspects, self._probers.heads.values())),
            bury=self._bury,
            heard=lambda event: self.events.tell("worker", msgspec.to_builtins(event)),
        )
        self._watchdog = Watchdog(self._workers.serving, lambda: self.settings.worker_timeout)
        self._told = asyncio.Event()
        self._started = asyncio.Event()
        """Set once there are workers. Changes and signals that come before wait for it."""
        self._admin: Admin | None = None
        self._logging: LogSettings | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._rewrites: dict[str, bool] = {}  # the networks that are being forgotten; True: once more afterwards
        self._forgetting: set[asyncio.Task[None]] = set()
        self._to_renew = self._ending = False
        self._hosts = Hosts(self.ledger, self.links, self.events)
        self._began = time.monotonic()
        self._exchange = HostExchange(
            self._host_report,
            block_times=lambda: {name: heads.block_time for name, heads in self._probers.heads.items()},
        )
        self.disagreements = Disagreements(
            lambda: self.settings, self.overview.compared, self._purge_wrong, self._drain_wrong, self._tell_suspects
        )
        self.workers = self._workers.states
        self.adopted = self._workers.adopted
        self.shared = self._hosts.shown
        self.hosts = self._exchange.shown
        self.purged = self._hosts.purged
        self.probe = self._probers.probe_now
        self.try_node = self._probers.try_node
        self.find_nodes = try_nodes
        self.examine = self._probers.examine_now

    @property
    def settings(self) -> Settings:
        return self.ledger.settings

    @property
    def cases(self) -> Iterable[Case]:
        """The cases of disagreement that are kept, the newest first."""
        return self.disagreements.cases

    async def start(self) -> RunningInfo:
        """Listen, start the workers and the admin side.

        Raises:
            ConfigError: the state file cannot be used.
            ListenError: an address cannot be listened on.
            RuntimeError: a worker did not come up.
        """
        self._left_out = self.ledger.open()
        await self.ledger.check()
        settings = self.settings
        self._log_by(settings)
        self._certificates.open(settings)
        sockets = bind_workers(settings.listen, "listen", settings.workers)
        self._workers.own(sockets)
        self._listen = address_of(sockets[0])
        state = self.ledger.origin.state
        self._quotas.open(KeptFile(beside(state.path, "quota.json"), KeptQuotas) if state is not None else None)
        self._history_keeper.open(beside(state.path, "history") if state is not None else None)
        if state is not None:
            self.alerts.mutes.open(KeptFile(beside(state.path, "silences.json"), KeptMutes))
        self.ledger.publish = self._adopt
        self.ledger.heard = self._hear_change
        admin = await self._open_admin()
        await self._workers.start(settings, self.ledger.revision)
        self._quotas.start()
        self._history_keeper.start()
        self._watchdog.start()
        self._certificates.start()
        self.alerts.adopt(settings)
        await self._probers.adopt(settings)
        self._started.set()
        await self._share(settings)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEADS_WITHIN):
                await self._told.wait()
        lost = filter(None, map(trouble, self.overview.frame().snapshot.tiers))
        notes = (*self._left_out, *filter(None, [self.ledger.over_the_file()]), *self.ledger.met, *lost)
        return RunningInfo(settings, self._listen, admin, notes)

    async def _open_admin(self) -> str:
        """Listen on the admin address before any worker starts, so that an address in use is reported at once."""
        listen = self.settings.admin.listen
        state = self.ledger.origin.state
        self._admin = Admin(
            self.overview,
            listen,
            control=self,
            settings=lambda: self.settings.admin,
            links=self.links,
            sessions=beside(state.path, "sessions.json") if state is not None else None,
            history=self._history,
            certificate=self._certificates.admin,
        )
        try:
            return await self._admin.start()
        except OSError as error:
            raise cannot_listen("admin.listen", listen, error) from error

    async def _share(self, settings: Settings) -> None:
        await self._hosts.share(settings.redis, settings.disk.path)
        await self._quotas.share(settings.redis)
        await self._exchange.share(settings.redis)

    async def stop(self) -> None:
        """Drain the workers within the drain timeout, then end everything else. A step that fails keeps no other from
        being done; its error is raised at the end."""
        self._ending = True
        self._exchange.drain()
        async with contextlib.AsyncExitStack() as last_first:
            last_first.push_async_callback(self._history_keeper.stop)
            last_first.push_async_callback(self.alerts.stop)
            if self._admin is not None:
                last_first.push_async_callback(self._admin.close)
            last_first.push_async_callback(self._probers.stop)
            last_first.push_async_callback(self._quotas.stop)
            last_first.push_async_callback(self._exchange.leave)
            # Workers answer calls while they linger, so what other hosts purge and change meanwhile is for them too.
            last_first.push_async_callback(self._hosts.stop)
            last_first.push_async_callback(self._workers.stop, self.settings.drain_timeout, self.settings.drain_linger)
            last_first.push_async_callback(self._watchdog.stop)
            last_first.push_async_callback(self._certificates.stop)
            last_first.push_async_callback(self.disagreements.stop)
            if self._renewing is not None:
                self._renewing.cancel()
                await asyncio.gather(self._renewing, return_exceptions=True)

    def hang_up(self) -> None:
        """Handle SIGHUP: read the config file again and renew every worker without losing a call. A refused file
        changes nothing and renews no worker. Once the program ends, there is nothing to renew."""
        if self._ending:
            log.info("the program ends: the config file is not read again, and no worker is renewed")
            return
        self._to_renew = True
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew_as_asked(), name="renew")

    async def _renew_as_asked(self) -> None:
        """Renew until no signal is left, so that a file written while workers were being renewed is read as well."""
        await self._started.wait()
        while self._to_renew:
            self._to_renew = False
            await self._renew()

    async def _renew(self) -> None:
        try:
            change = await self.ledger.reload(Author("rpcaccel", "signal"))
            over = await asyncio.to_thread(self.ledger.over_the_file)
            told = "the config file is adopted" if change else "the config file is read again: nothing differs"
            log.info(f"{told}; {over}" if over else told)
        except NoFileError:
            log.info("there is no config file to be read again; the workers are renewed")
        except (InvalidSettingsError, RefusedError) as error:
            log.error("the config file is not adopted; nothing is changed or renewed", reason=str(error))  # noqa: TRY400
            return
        try:
            await self._workers.renew(self.ledger.renewed)
            await self._share(self.settings)
        except (OSError, RuntimeError) as error:
            log.error("the workers are not renewed", reason=str(error))  # noqa: TRY400 -- the reason is all there is

    # -- changes -------------------------------------------------------------------------------------------------

    async def _adopt(self, settings: Settings, revision: int) -> str:
        """Have all workers adopt a revision, or none; returns the reason of a refusal."""
        await self._started.wait()
        refusal = await self._workers.adopt(settings, revision)
        if not refusal:
            await self._probers.adopt(settings)
            self._log_by(settings)
            self.alerts.adopt(settings)
            self.errors.hide_params(None if settings.errors.params else fold)
        return refusal

    def _log_by(self, settings: Settings) -> None:
        if settings.log != self._logging:
            self._logging = settings.log
            logs.configure(settings.log)

    def _hindered(self, settings: Settings, before: Settings) -> list[Misfit]:
        """The reasons why the next start would fail, and why the admin side would be open until then. Blocks."""
        found = hindrances(settings, before)
        open_to_be = is_open(settings.admin.listen, settings.admin)  # which is a fault whatever is there now
        if self._admin is not None and not open_to_be and is_open(self._admin.address, settings.admin):
            found.append(Misfit(("admin", "listen"), self._admin.address, OPEN))
        return found

    def _hear_change(self, change: Change) -> None:
        told = {"revision": change.revision, "change": line(self.ledger, change)}
        self.events.tell("settings", {**told, "adopted": self.adopted(), "workers": len(self.workers())})
        about = {"by": change.by, "reason": change.reason} if change.reason else {"by": change.by}
        log.info(f"settings {change.outcome}: {change.text}", **about)

    def _with_suspects(self, heads: NetworkHeads) -> NetworkHeads:
        """The heads with the nodes of the network that are suspected."""
        suspects = self.disagreements.suspects_of(heads.network)
        return replace(heads, suspects=suspects) if suspects else heads

    def _heads(self, network: str) -> NetworkHeads | None:
        """What is known of the nodes of a network; None before the first probe."""
        heads = self._probers.heads.get(network)
        return None if heads is None else self._with_suspects(heads)

    def _tell_suspects(self, network: str) -> None:
        if (heads := self._probers.heads.get(network)) is not None:
            self._publish(heads)

    async def _purge_wrong(self, selection: dict[str, str]) -> None:
        """Remove answers that may be wrong from all workers, tiers and hosts."""
        body = msgspec.json.encode(selection)
        done = await purge(body, self.links)
        await self._hosts.purged(body, complete=done.complete)

    def _rewritten(self, network: str) -> None:
        """Drop everything that is kept of a network, of which a call changed state or blocks without a new block. While
        that goes on for earlier calls, it is done once more for all that come meanwhile."""
        if network in self._rewrites:
            self._rewrites[network] = True
            return
        self._rewrites[network] = False
        task = asyncio.create_task(self._forget(network), name=f"forget {network}")
        self._forgetting.add(task)
        task.add_done_callback(self._forgetting.discard)

    async def _forget(self, network: str) -> None:
        again = True
        while again:
            self._rewrites[network] = False
            done = await asyncio.gather(
                self._purge_wrong({"network": network}), self._probers.renew(network), return_exceptions=True
            )
            for error in filter(None, done):
                log.error("what was kept of a network was not dropped", network=network, reason=repr(error))
            again = self._rewrites[network]
        del self._rewrites[network]

    async def _drain_wrong(self, network: str, node: str) -> bool:
        """Drain a node whose answers are wrong, unless no other node of the network takes calls. Returns whether it is
        drained."""
        mine = [view for view in self.overview.frame().nodes if view.network == network]
        if not any(view.eligible for view in mine if view.id != node):
            log.warning("a node that gives wrong answers is the last that takes calls", node=node)
            return False
        change = {"networks": {network: {"nodes": {node: {"drain": True}}}}}
        try:
            await self.ledger.change(change, AGREEMENT_AUTHOR, why="its answers are wrong, and not by chance")
        except (InvalidSettingsError, RefusedError) as error:
            log.error("a node that gives wrong answers is not drained", node=node, reason=str(error))  # noqa: TRY400
            return False
        return True

    # -- what is shown -------------------------------------------------------------------------------------------

    @property
    def replaced(self) -> int:
        """Workers that died, or no longer answered, and were replaced."""
        return self._workers.replaced.total()

    def _notices(self) -> Sequence[Notice]:
        waiting = self.ledger.waiting()
        texts = [*self._workers.notices(), *self._quotas.notices(), *self._left_out]
        if waiting.program:
            texts.append(f"waits for a restart: {', '.join(waiting.program)}")
        if waiting.workers:
            texts.append(f"waits for new workers (SIGHUP) or a restart: {', '.join(waiting.workers)}")
        if self._history_keeper.note:
            texts.append(self._history_keeper.note)
        texts.extend(self._hosts.notices())
        if self.ledger.origin.state and self.ledger.note:
            texts.append(self.ledger.note)
        suspects = self.disagreements.suspects()
        wrong = [Notice("bad", f"{network}/{node}", text, "contradicted") for network, node, text in suspects]
        told = [Notice("warn", "rpcaccel", text) for text in texts]
        if self.ledger.refused_file:
            text = f"the config file was not taken over, earlier settings are in force: {self.ledger.refused_file}"
            told.insert(0, Notice("bad", "settings", text, "config file"))
        return [*wrong, *self._certificates.notices(), *told, *self._exchange.notices(), *self.alerts.notices()]

    def _host_report(self) -> HostReport:
        """What other hosts are told of this one."""
        networks, known = self.settings.networks, self._probers.heads
        heads = {name: known[name].served.head for name in networks if name in known}
        now, standing = readings(self._history.window(RATE_SECONDS)), self._hosts.standing()
        report = HostReport(
            name=socket.gethostname(),
            version=rpcaccel.__version__,
            uptime=time.monotonic() - self._began,
            page=page_of(self._admin.address, self.settings.admin) if self._admin is not None else "",
            workers=len(self._workers.serving()),
            heads={name: head for name, head in heads.items() if head >= 0},
            networks=len(networks),
            revision=standing.revision,
            refusal=standing.refusal,
            purges_late=standing.purges_late,
        )
        return report if now is None else replace(report, **counted(now))

    # -- workers and heads -----------------------------------------------------------------------------------------

    def _link(self, name: str, sock: socket.socket) -> Link:
        certificate = self._certificates.calls
        if self._workers.places == 1:
            return LocalLink(name, sock, self._hint, self._quotas.brought, certificate)
        process = partial(spawn, certificate=certificate)
        return ProcessLink(name, sock, self._hint, self._spent, self._quotas.brought, spawn=process)

    def _bury(self, report: WorkerReport) -> None:
        """Keep the counts of a worker that ended."""
        self.overview.bury(report)
        self._quotas.bury(report)

    def _publish(self, heads: NetworkHeads) -> None:
        """Pass the news of a prober on to every worker."""
        news = Heads(self._with_suspects(heads))
        for link in self.links:
            link.tell(news)
        known = self._probers.heads
        if all(name in known and known[name].served.head >= 0 for name in self.settings.networks):
            self._told.set()

    def _tell_notice(self, network: str, notice: LogNotice) -> None:
        self.events.tell("examination", {"network": network, "id": notice.node, "text": notice.text, "at": time.time()})

    def _announce(self, announced: Announced) -> None:
        """Pass a block that a node pushed on to every worker."""
        for link in self.links:
            link.tell(announced)

    def _spent(self, teller: Link, spent: Spent) -> None:
        """Tell all other workers what clients spent at one of them, also one of the same name that drains."""
        for link in self.links:
            if link is not teller:
                link.tell(spent)

    def _hint(self, hint: Noted) -> None:
        """Pass news of a worker on: a head to its prober, a transaction to every worker, errors to their log, a case of
        disagreement to those who judge nodes."""
        if isinstance(hint, ErrorNews):
            self.errors.take(hint, time.monotonic())
        elif isinstance(hint, Case):
            self.disagreements.hear(hint)
        elif isinstance(hint, Rewritten):
            self._rewritten(hint.network)
        elif isinstance(hint, Sent):
            for link in self.links:
                link.tell(hint)
        else:
            self._probers.hint(hint)
