"""The part of the admin API about alerts: webhooks and how it goes with them, tests, mutes."""

from __future__ import annotations

from aiohttp import web

from rpcaccel.controlplane.admin.handling import AUTHOR, body_of
from rpcaccel.controlplane.alerts.alert_book import alert_id
from rpcaccel.controlplane.alerts.alerting import Alerting, AlertsNow, AlertTestRequest, AlertTests
from rpcaccel.controlplane.alerts.mutes import MuteRequest
from rpcaccel.controlplane.documents.current_figures import Attention
from rpcaccel.controlplane.stats.snapshot import Notice
from rpcaccel.controlplane.stats.summaries import extended
from rpcaccel.core.wire.printable import printable


class AlertRoutes:
    """The handlers of alerts."""

    def __init__(self, alerts: Alerting) -> None:
        self._alerts = alerts

    def __repr__(self) -> str:
        return f"<AlertRoutes {self._alerts!r}>"

    async def show(self, _request: web.Request) -> AlertsNow:
        """The webhooks with what became of their messages, the alerts of the moment, and the mutes."""
        return self._alerts.document()

    async def test(self, request: web.Request) -> AlertTests:
        """Send a test to a webhook, or to all, and wait for the outcome."""
        asked = await body_of(request, AlertTestRequest)
        return await self._alerts.test(asked.webhook, request[AUTHOR].name)

    async def mute(self, request: web.Request) -> AlertsNow:
        """Mute alerts for a while, or end that; they stay on the page."""
        asked = await body_of(request, MuteRequest)
        what, reason = printable(asked.what), printable(asked.reason)
        await self._alerts.mutes.mute(what, asked.seconds, request[AUTHOR].name, reason)
        return self._alerts.document()


def attention_document(notices: list[Notice], alerts: Alerting) -> list[Attention]:
    """What needs attention, each with the id of its alert and the mute that covers it."""
    return [
        extended(Attention, notice, id=id, muted=alerts.mutes.covering(id, notice.subject))
        for notice, id in zip(notices, map(alert_id, notices), strict=True)
    ]
