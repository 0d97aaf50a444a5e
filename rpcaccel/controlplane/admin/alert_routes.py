"""The part of the admin API about alerts: webhooks and how it goes with them, tests, silences."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec
from aiohttp import web

from rpcaccel.controlplane.admin.admin_routes import Control
from rpcaccel.controlplane.admin.alert_types import (
    AlertNow,
    AlertsNow,
    AlertTest,
    AlertTestRequest,
    SilenceRequest,
    WebhookNow,
)
from rpcaccel.controlplane.admin.api_types import Attention
from rpcaccel.controlplane.admin.problems import ProblemError, json_response
from rpcaccel.controlplane.admin.settings_api import AUTHOR, body_of
from rpcaccel.controlplane.alerts.alert_book import Alert, alert_id, place_of
from rpcaccel.controlplane.alerts.alerting import Alerting, Receiver, TooManySilencesError
from rpcaccel.controlplane.alerts.delivery import Delivered
from rpcaccel.controlplane.alerts.silences import MOST, silenced_by
from rpcaccel.controlplane.stats.snapshot import Notice
from rpcaccel.core.wire.printable import printable


class AlertRoutes:
    """The handlers of alerts."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def __repr__(self) -> str:
        return f"<AlertRoutes {self._control.alerts!r}>"

    async def show(self, _request: web.Request) -> web.Response:
        """The webhooks with what became of their messages, the alerts of the moment, and the silences."""
        return self._document()

    async def test(self, request: web.Request) -> web.Response:
        """Send a test to a webhook, or to all, and wait for the outcome."""
        wanted = (await body_of(request, AlertTestRequest)).webhook
        alerts = self._control.alerts
        if wanted and wanted not in alerts.receivers:
            there = f"there is: {', '.join(alerts.receivers)}" if alerts.receivers else "there is none"
            raise ProblemError(404, "not-found", f"no webhook is called {wanted!r}; {there}")
        names = [wanted] if wanted else list(alerts.receivers)
        found = await asyncio.gather(*(alerts.test(name, request[AUTHOR].name) for name in names))
        return json_response({"tests": [_test(name, one) for name, one in zip(names, found, strict=True)]})

    async def silence(self, request: web.Request) -> web.Response:
        """Silence alerts for a while; they stay on the page."""
        asked = await body_of(request, SilenceRequest)
        try:
            await self._control.alerts.silence(
                printable(asked.what), asked.seconds, request[AUTHOR].name, printable(asked.reason)
            )
        except TooManySilencesError:
            raise ProblemError(409, "refused", f"there are {MOST} silences already; end one first") from None
        return self._document()

    async def unsilence(self, request: web.Request) -> web.Response:
        """End a silence before its time."""
        if not await self._control.alerts.unsilence(request.match_info["id"], request[AUTHOR].name):
            raise ProblemError(404, "not-found", "no such silence is in force")
        return self._document()

    def _document(self) -> web.Response:
        found = alerts_document(self._control.alerts)
        return json_response({**found, "silences": msgspec.to_builtins(found["silences"])})


def attention_document(notices: list[Notice], alerts: Alerting) -> list[Attention]:
    """What needs attention, each with the id of its alert and until when it is silenced."""
    silences = alerts.silences
    found: list[Attention] = []
    for notice in notices:
        id = alert_id(notice)
        silence = silenced_by(silences, id, notice.subject)
        about: Attention = {
            "level": notice.level,
            "subject": notice.subject,
            "text": notice.text,
            "id": id,
            "silenced": None if silence is None else silence.until,
        }
        found.append(about)
    return found


def alerts_document(alerts: Alerting) -> AlertsNow:
    """Everything about alerts at this moment; no part of a webhook's URL but its host."""
    return {
        "host": alerts.host,
        "after": alerts.after,
        "webhooks": [_webhook(one, alerts) for one in alerts.receivers.values()],
        "alerts": [
            *(_alert(one, "firing", alerts) for one in alerts.book.firing().values()),
            *(_alert(one, "waiting", alerts) for one in alerts.book.waiting().values()),
        ],
        "silences": list(alerts.silences),
        "kept": alerts.kept,
    }


def _webhook(one: Receiver, alerts: Alerting) -> WebhookNow:
    delivery, settings = one.delivery, one.settings
    last = delivery.last
    return {
        "name": one.name,
        "address": settings.url.shown,
        "format": settings.format,
        "least": settings.least,
        "networks": list(settings.networks),
        "state": _state(one),
        "error": delivery.trouble,
        "status": last.status if last is not None else None,
        "tried_at": None if last is None else alerts.unix(delivery.last_at),
        "taken_at": None if delivery.taken_at is None else alerts.unix(delivery.taken_at),
        "next_try": alerts.unix(delivery.not_before) if delivery.retrying else None,
        "sent": dict(delivery.sent),
    }


def _state(one: Receiver) -> Literal["untried", "well", "retrying", "failing"]:
    if one.delivery.last is None:
        return "untried"
    if one.delivery.retrying:
        return "retrying"
    return "failing" if one.delivery.trouble else "well"


def _alert(one: Alert, state: Literal["waiting", "firing"], alerts: Alerting) -> AlertNow:
    network, node = place_of(one, alerts.networks)
    silence = silenced_by(alerts.silences, one.id, one.subject)
    return {
        "id": one.id,
        "state": state,
        "level": one.level,
        "subject": one.subject,
        "network": network,
        "node": node,
        "text": one.text,
        "since": alerts.unix(one.since),
        "silenced": None if silence is None else silence.until,
    }


def _test(name: str, one: Delivered) -> AlertTest:
    ok = one.end == "ok"
    return {"webhook": name, "ok": ok, "status": one.status, "error": one.why, "seconds": one.seconds}
