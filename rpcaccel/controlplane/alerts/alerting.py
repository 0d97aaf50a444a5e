"""The edge of alerts: what needs attention comes in each second, and each webhook is told what it has not heard.

What was told is not kept over a restart: what still needs attention then is told again once it has lasted, and what
ended meanwhile is not told.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Annotated

import aiohttp
import structlog
from msgspec import Meta, Struct
from yarl import URL

import rpcaccel
from rpcaccel.config.model import Settings
from rpcaccel.config.sections import AlertsSettings, WebhookSettings
from rpcaccel.controlplane.alerts.alert_book import Alert, AlertBook
from rpcaccel.controlplane.alerts.alert_messages import body_of, news_of_test
from rpcaccel.controlplane.alerts.mutes import Mute, Mutes
from rpcaccel.controlplane.alerts.receiver import (
    MAX_RETRY_AFTER_SECONDS,
    WEBHOOK_SUBJECT,
    AlertNews,
    Delivered,
    Receiver,
    WebhookNow,
)
from rpcaccel.controlplane.stats.snapshot import AlertFigures, Notice
from rpcaccel.controlplane.workers.operations import OperationRefused
from rpcaccel.dataplane.upstream.http_messages import retry_after

log = structlog.get_logger("rpcaccel.alerts")
_LATER = frozenset({408, 425, 429})
"""Statuses of a receiver that would take the message later."""
_NO_CONNECTION = "no connection"
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.ClientConnectorDNSError, "the name of its host is not found"),
    (aiohttp.ClientConnectorCertificateError, "its certificate is not trusted"),
    (aiohttp.ClientSSLError, "TLS failed"),
    (aiohttp.ClientConnectorError, _NO_CONNECTION),
    (aiohttp.ServerDisconnectedError, "the connection was closed before the answer"),
    (aiohttp.ClientResponseError, "its answer is no HTTP"),
    (ValueError, "its URL or a header cannot be sent"),
    (aiohttp.ClientError, "the connection broke off"),
)
"""The words for each failure, the narrowest first: the texts of aiohttp may hold the URL."""


class AlertsNow(Struct, frozen=True, kw_only=True):
    """Webhooks, alerts and mutes."""

    host: Annotated[str, Meta(description="The name of this host in messages.")]
    after: Annotated[float, Meta(description="Seconds that something must last to be told.")]
    webhooks: list[WebhookNow]
    alerts: list[Alert]
    mutes: list[Mute]
    kept: Annotated[str | None, Meta(description="The file that keeps mutes over a restart; null without one.")]


class AlertTestRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Which webhook is to be sent a test."""

    webhook: Annotated[str, Meta(max_length=64, description="All of them if empty.")] = ""


class AlertTests(Struct, frozen=True):
    """The outcome of each test."""

    tests: list[Delivered]


async def post_to_webhook(name: str, webhook: WebhookSettings, body: bytes) -> Delivered:
    """Post a body to the webhook of this name, within its timeout; raises nothing that the network or the receiver
    causes."""
    begun = time.monotonic()
    headers = {
        "User-Agent": f"rpcaccel/{rpcaccel.__version__}",
        "Accept-Encoding": "identity",
        **{header: value.reveal() for header, value in webhook.headers.items()},
        "Content-Type": "application/json",
    }
    status, wait, error = None, None, ""
    timeout = aiohttp.ClientTimeout(total=webhook.timeout)
    # A message a minute needs no kept connection; a fresh one follows the receiver's DNS as well.
    session = aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, auto_decompress=False, timeout=timeout
    )
    try:
        async with (
            session,
            session.post(URL(webhook.url.reveal()), data=body, headers=headers, allow_redirects=False) as reply,
        ):
            status, wait = reply.status, retry_after(reply.headers, MAX_RETRY_AFTER_SECONDS)
    except TimeoutError:
        error = f"no answer within {webhook.timeout:g} s"
    except (aiohttp.ClientError, ValueError) as failure:
        error = _reason(failure)
    if status is not None:  # the status says whether the message was taken, however its answer ended
        error = _judged(status)
    took = time.monotonic() - begun
    return Delivered(webhook=name, ok=not error, status=status, error=error, seconds=took, retry_after=wait or 0.0)


def _judged(status: int) -> str:
    """The words for a status that is no success."""
    if 200 <= status < 300:
        return ""
    if 300 <= status < 400:
        return f"HTTP {status}: redirects are not followed"
    refused = 400 <= status < 500 and status not in _LATER
    return f"HTTP {status}: it does not take the message" if refused else f"HTTP {status}"


def _reason(error: Exception) -> str:
    words = next(words for kind, words in _REASONS if isinstance(error, kind))
    number = getattr(error, "errno", None)
    return f"{words}: {os.strerror(number).lower()}" if words == _NO_CONNECTION and number else words


class Alerting:
    """All webhooks, alerts and mutes of this host. Nobody is told anything before `adopt`."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        rng: Random | None = None,
        post: Callable[[str, WebhookSettings, bytes], Awaitable[Delivered]] = post_to_webhook,
    ) -> None:
        self.settings = AlertsSettings()
        self.receivers: dict[str, Receiver] = {}
        self.mutes = Mutes(wall)
        self._book = AlertBook()
        self._networks: tuple[str, ...] = ()
        self._clock, self._wall, self._rng, self._post = clock, wall, rng or Random(), post
        self._sending: dict[Receiver, asyncio.Task[Delivered]] = {}

    def __repr__(self) -> str:
        return f"<Alerting {self._book!r} to {', '.join(self.receivers) or 'nobody'}>"

    def adopt(self, settings: Settings) -> None:
        """Follow other settings. A webhook is carried over by its name while its URL stays the same."""
        self.settings, self._networks = settings.alerts, tuple(settings.networks)
        before, self.receivers = self.receivers, {}
        for name, webhook in settings.alerts.webhooks.items():
            receiver = before.get(name)
            if receiver is None or receiver.settings.url != webhook.url:
                receiver = Receiver(name, webhook)
            elif receiver.settings != webhook:
                receiver.adopt(webhook, self._clock())
            self.receivers[name] = receiver
        for receiver in set(self._sending) - set(self.receivers.values()):
            self._sending[receiver].cancel()

    async def stop(self) -> None:
        """Tell nobody any more; a message on its way is given up."""
        self.receivers = {}
        sending = list(self._sending.values())
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)

    def look(self, notices: Sequence[Notice]) -> None:
        """Take in everything that needs attention at this moment, and begin to tell what is news."""
        now, unix = self._clock(), self._wall()
        self._book.look(notices, now, unix, self.settings.after)
        alerts = self.alerts() if self.receivers else {}
        self._sending = {receiver: task for receiver, task in self._sending.items() if not task.done()}
        for receiver in self.receivers.values():
            news = receiver.news(alerts, now, unix)
            if news and receiver not in self._sending:
                task = asyncio.create_task(self._tell(receiver, news), name=f"alerts-{receiver.now.name}")
                self._sending[receiver] = task

    def alerts(self) -> dict[str, Alert]:
        """The alerts of the moment, by id."""
        return self._book.alerts(self._networks, self.mutes.covering)

    async def _tell(self, receiver: Receiver, news: Sequence[AlertNews]) -> Delivered:
        """Post a message and take in what became of it. The log has a line for each change: the webhook fails, fails
        otherwise, is well again."""
        name, settings = receiver.now.name, receiver.settings
        try:
            outcome = await self._post(name, settings, body_of(news, settings.format, self.host, self.settings.page))
        except Exception:
            log.exception("a message was not made, and is made again", webhook=name)
            outcome = Delivered(webhook=name, ok=False, error="a bug; the log has it")
        before = receiver.now.error
        receiver.done(news, outcome, self._clock(), self._wall(), self._rng)
        if not outcome.ok and receiver.settings is not settings:  # the failure is not that of the settings now in force
            receiver.adopt(receiver.settings, self._clock())
        error = receiver.now.error
        if error and error != before:
            log.warning("a webhook is not told of alerts", webhook=name, reason=error)
        elif before and not error:
            log.info("the webhook is told of alerts again", webhook=name)
        return outcome

    async def test(self, name: str, by: str) -> AlertTests:
        """Send a test to a webhook, or to all if the name is empty, and wait for the outcome. Raises
        OperationRefused."""
        if name and name not in self.receivers:
            there = f"there is: {', '.join(self.receivers)}" if self.receivers else "there is none"
            raise OperationRefused(404, "not-found", f"no webhook is called {name!r}; {there}")
        wanted = [one for one in self.receivers.values() if name in ("", one.now.name)]
        tests = ([news_of_test(one.now.name, by, self._wall())] for one in wanted)
        return AlertTests(await asyncio.gather(*map(self._tell, wanted, tests)))

    @property
    def host(self) -> str:
        """The name of this host in messages."""
        return self.settings.host or socket.gethostname()

    def notices(self) -> list[Notice]:
        """Sentences about webhooks that are not reached, and about mutes that are not kept."""
        found = [one.notice for one in self.receivers.values() if one.now.state == "failing"]
        return [*found, Notice("warn", WEBHOOK_SUBJECT, self.mutes.note, "mutes")] if self.mutes.note else found

    def document(self) -> AlertsNow:
        """Everything about alerts at this moment; no part of a webhook's URL but its host."""
        return AlertsNow(
            host=self.host,
            after=self.settings.after,
            webhooks=[one.now for one in self.receivers.values()],
            alerts=sorted(self.alerts().values(), key=lambda one: one.state),
            mutes=self.mutes.in_force(),
            kept=self.mutes.kept,
        )

    def figures(self) -> AlertFigures:
        """The counts for metrics."""
        sent = {(name, result): count for name, one in self.receivers.items() for result, count in one.now.sent.items()}
        levels = self._book.levels()
        return AlertFigures(sent, {level: levels[level] for level in ("warn", "bad")})
