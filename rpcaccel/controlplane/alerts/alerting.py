"""The edge of alerts: a task for each webhook posts what is due, and silences are kept over restarts.

`look` is called with the page's Attention each second. What was told is not kept over a restart: what still needs
attention then is told again once it has lasted, and what ended meanwhile is not told.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

import structlog
from msgspec.structs import replace

from rpcaccel.config.alert_settings import AlertsSettings, WebhookSettings
from rpcaccel.config.model import Settings
from rpcaccel.controlplane.alerts.alert_book import Alert, AlertBook, place_of
from rpcaccel.controlplane.alerts.alert_forms import TellingHost, body_of, body_of_test
from rpcaccel.controlplane.alerts.delivery import AlertMessage, Delivered, Delivery
from rpcaccel.controlplane.alerts.silences import (
    MOST,
    AlertSilence,
    KeptSilences,
    in_force,
    silenced_by,
)
from rpcaccel.controlplane.alerts.webhook_client import WebhookClient
from rpcaccel.controlplane.settings.kept_file import KeptFile, LostFileError
from rpcaccel.controlplane.stats.snapshot import AlertFigures, Notice

SUBJECT = "alerts"
"""The subject of notices about webhooks."""

log = structlog.get_logger("rpcaccel.alerts")


class WebhookPost(Protocol):
    """What sends a message. Implemented by WebhookClient."""

    async def post(self, webhook: WebhookSettings, body: bytes) -> Delivered:
        """Post a body; returns what became of it, and raises nothing."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


class TooManySilencesError(Exception):
    """There are as many silences as there may be."""


class Receiver:
    """One webhook: its settings, what it was told, and the task that tells it."""

    def __init__(self, name: str, settings: WebhookSettings) -> None:
        self.name = name
        self.settings = settings
        self.delivery = Delivery()
        self.looked = asyncio.Event()
        """Set when the state was looked at again."""
        self.task: asyncio.Task[None] | None = None
        self.complained = ""
        """The failure that the log has a line about."""

    def __repr__(self) -> str:
        return f"<Receiver {self.name} {self.settings.url}>"

    @property
    def kind(self) -> str:
        """The kind of notices about this webhook."""
        return f"webhook {self.name}"

    def wants(self, alert: Alert, networks: Sequence[str]) -> bool:
        """Is the webhook told of this alert? It is never told of its own failures."""
        if alert.kind == self.kind or (self.settings.least == "bad" and alert.level != "bad"):
            return False
        if not self.settings.networks:
            return True
        network, _ = place_of(alert, networks)
        return network is None or network in self.settings.networks


class Alerting:
    """All webhooks, alerts and silences of this host."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        rng: Random | None = None,
        connect: Callable[[], WebhookPost] = WebhookClient,
    ) -> None:
        """`connect` makes what sends messages, once there is something to send."""
        self.book = AlertBook()
        self.receivers: dict[str, Receiver] = {}
        self.note = ""
        """A sentence when silences were lost, or will be."""
        self._clock, self._wall, self._rng = clock, wall, rng or Random()
        self._connect = connect
        self._client: WebhookPost | None = None
        self._silences: tuple[AlertSilence, ...] = ()
        self._file: KeptFile[KeptSilences] | None = None
        self._saving = asyncio.Lock()
        self._running = False
        self._settings = AlertsSettings()
        self._networks: tuple[str, ...] = ()
        self.adopt(settings)

    def __repr__(self) -> str:
        return f"<Alerting {self.book!r} to {', '.join(self.receivers) or 'nobody'}>"

    # -- life ----------------------------------------------------------------------------------------------------

    def open(self, file: KeptFile[KeptSilences] | None) -> None:
        """Take up the silences of the last run. A file that cannot be used is named in a note. Blocks."""
        self._file = file
        if file is None:
            return
        try:
            self._silences = (file.load() or KeptSilences(silences=())).silences
        except LostFileError as error:
            self.note = f"{file.path} {error}: nothing is silenced"
            log.error("silences are lost", file=str(file.path), reason=str(error))  # noqa: TRY400 -- the reason is all there is

    def start(self) -> None:
        """Tell webhooks from now on."""
        self._running = True
        for receiver in self.receivers.values():
            self._run(receiver)

    async def stop(self) -> None:
        """Tell nobody any more; a message on its way is given up."""
        self._running = False
        tasks = [one.task for one in self.receivers.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()

    def adopt(self, settings: Settings) -> None:
        """Follow other settings. A webhook is carried over by its name while its URL stays the same."""
        self._settings, self._networks = settings.alerts, tuple(settings.networks)
        wanted = settings.alerts.webhooks
        for name, receiver in list(self.receivers.items()):
            new = wanted.get(name)
            if new is not None and new.url == receiver.settings.url:
                before, receiver.settings = receiver.settings, new
                if before != new:
                    receiver.delivery.retry(self._clock())
                if (before.least, before.networks) != (new.least, new.networks):
                    firing = self.book.firing().values()
                    receiver.delivery.forget([one.id for one in firing if not receiver.wants(one, self._networks)])
                continue
            del self.receivers[name]
            if receiver.task is not None:
                receiver.task.cancel()
        for name, webhook in wanted.items():
            if name not in self.receivers:
                self.receivers[name] = Receiver(name, webhook)
                if self._running:
                    self._run(self.receivers[name])

    # -- telling ---------------------------------------------------------------------------------------------------

    def look(self, notices: Sequence[Notice]) -> None:
        """Take in everything that needs attention at this moment."""
        now = self._clock()
        self.book.look(notices, now, self._settings.after)
        firing = self.book.firing()
        silences = in_force(self._silences, self._wall())
        silenced = frozenset(id for id, one in firing.items() if silences and silenced_by(silences, id, one.subject))
        for receiver in self.receivers.values():
            told = {id: one for id, one in firing.items() if receiver.wants(one, self._networks)}
            receiver.delivery.see(told, silenced, now, resolved=receiver.settings.resolved)
            receiver.looked.set()

    def _run(self, receiver: Receiver) -> None:
        receiver.task = asyncio.create_task(self._tell(receiver), name=f"alerts-{receiver.name}")

    async def _tell(self, receiver: Receiver) -> None:
        """Send what is due each time that the state was looked at, one message after the other."""
        while True:
            await receiver.looked.wait()
            receiver.looked.clear()
            message = receiver.delivery.message(self._clock(), receiver.settings.repeat)
            if message is None:
                continue
            try:
                await self._send(receiver, message)
            except Exception:
                log.exception("a message was not made, and is made again", webhook=receiver.name)
                receiver.delivery.done(message, Delivered("again", "a bug; the log has it"), self._clock(), self._rng)

    async def _send(self, receiver: Receiver, message: AlertMessage) -> None:
        settings = receiver.settings
        body = body_of(message, settings.format, self._teller())
        outcome = await self._post(settings, body)
        if outcome.end != "ok" and receiver.settings != settings:
            # They were changed meanwhile, perhaps since they were wrong: what they led to says nothing of the new ones.
            receiver.delivery.done(message, replace(outcome, end="again"), self._clock(), self._rng)
            receiver.delivery.retry(self._clock())
        else:
            receiver.delivery.done(message, outcome, self._clock(), self._rng)
        self._log(receiver)

    async def _post(self, webhook: WebhookSettings, body: bytes) -> Delivered:
        if self._client is None:
            self._client = self._connect()
        return await self._client.post(webhook, body)

    def _log(self, receiver: Receiver) -> None:
        """A line for each change: it fails, it fails otherwise, it is well again."""
        trouble = receiver.delivery.trouble
        if trouble == receiver.complained:
            return
        if trouble:
            log.warning("a webhook is not told of alerts", webhook=receiver.name, reason=trouble)
        else:
            log.info("the webhook is told of alerts again", webhook=receiver.name)
        receiver.complained = trouble

    def _teller(self) -> TellingHost:
        ahead = self._wall() - self._clock()
        return TellingHost(
            host=self.host, page=self._settings.page, networks=self._networks, unix=lambda at: at + ahead
        )

    @property
    def after(self) -> float:
        """Seconds that something must last to be told."""
        return self._settings.after

    @property
    def networks(self) -> tuple[str, ...]:
        """The networks that are served."""
        return self._networks

    @property
    def host(self) -> str:
        """The name of this host in messages."""
        return self._settings.host or socket.gethostname()

    async def test(self, name: str, by: str) -> Delivered:
        """Send a test to a webhook and wait for the outcome. Raises KeyError."""
        receiver = self.receivers[name]
        body = body_of_test(name, receiver.settings.format, by, self._teller())
        outcome = await self._post(receiver.settings, body)
        if outcome.end == "ok":
            receiver.delivery.hope(outcome, self._clock())
            self._log(receiver)
        return outcome

    # -- silences --------------------------------------------------------------------------------------------------

    @property
    def silences(self) -> tuple[AlertSilence, ...]:
        """Those in force, the newest last."""
        return in_force(self._silences, self._wall())

    @property
    def kept(self) -> str | None:
        """The file of the silences; None where they live until a restart."""
        return None if self._file is None else str(self._file.path)

    async def silence(self, what: str, seconds: float, by: str, reason: str) -> AlertSilence:
        """Silence a subject, an alert's id or "all"; it replaces an earlier silence of the same. Raises
        TooManySilencesError."""
        at = self._wall()
        made = AlertSilence(id=secrets.token_hex(4), what=what, until=at + seconds, by=by, reason=reason, at=at)
        others = tuple(one for one in self.silences if one.what != what)
        if len(others) >= MOST:
            raise TooManySilencesError
        self._silences = (*others, made)
        log.info("alerts are silenced", what=what, seconds=seconds, by=by, reason=reason)
        await self._save()
        return made

    async def unsilence(self, id: str, by: str) -> bool:
        """End a silence by its id; returns whether there was one."""
        left = tuple(one for one in self.silences if one.id != id)
        found = len(left) < len(self.silences)
        self._silences = left
        if found:
            log.info("a silence is ended", silence=id, by=by)
            await self._save()
        return found

    async def _save(self) -> None:
        if self._file is None:
            return
        async with self._saving:  # one after the other, so that the newest content is written last
            try:
                await asyncio.to_thread(self._file.save, KeptSilences(silences=self._silences))
            except OSError as error:
                why = error.strerror or type(error).__name__
                self.note = f"{self._file.path} cannot be written ({why}): silences live until a restart"
                log.warning(self.note)
            else:
                self.note = ""

    # -- what is shown ---------------------------------------------------------------------------------------------

    def notices(self) -> list[Notice]:
        """Sentences about webhooks that are not reached."""
        found = [
            Notice("warn", SUBJECT, f"the webhook {name} is not told of alerts: {one.delivery.trouble}", one.kind)
            for name, one in self.receivers.items()
            if one.delivery.broken
        ]
        return [*found, Notice("warn", SUBJECT, self.note, "silences")] if self.note else found

    def figures(self) -> AlertFigures:
        """The counts for metrics."""
        sent = {
            (name, result): count for name, one in self.receivers.items() for result, count in one.delivery.sent.items()
        }
        levels = Counter(one.level for one in self.book.firing().values())
        return AlertFigures(sent, {level: levels[level] for level in ("warn", "bad")})

    def unix(self, at: float) -> float:
        """Seconds since 1970 of a time on the clock of alerts."""
        return at + self._wall() - self._clock()
