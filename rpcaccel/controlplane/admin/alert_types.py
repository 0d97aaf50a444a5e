"""The types of what the admin API is sent and answers about alerts."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta, Struct

from rpcaccel.controlplane.alerts.silences import LONGEST, AlertSilence
from rpcaccel.controlplane.stats.summaries import At


class WebhookNow(TypedDict):
    """A webhook, and how it goes with it."""

    name: str
    address: Annotated[str, Meta(description="Scheme, host and port alone.")]
    format: Literal["json", "slack"]
    least: Literal["warn", "bad"]
    networks: Annotated[list[str], Meta(description="All of them when empty.")]
    state: Annotated[
        Literal["untried", "well", "retrying", "failing"],
        Meta(description="failing: the last message was given up, or would be refused again."),
    ]
    error: Annotated[str, Meta(description="Why the last try failed; empty when it did not.")]
    status: Annotated[int | None, Meta(description="HTTP status of the last answer; null where none came.")]
    tried_at: At | None
    taken_at: Annotated[At | None, Meta(description="When a message was last taken.")]
    next_try: Annotated[At | None, Meta(description="When a failed message is tried again.")]
    sent: Annotated[dict[str, int], Meta(description="Messages since the start: ok, retried, lost.")]


class AlertNow(TypedDict):
    """Something that needs attention, as alerts see it."""

    id: str
    state: Annotated[Literal["waiting", "firing"], Meta(description="waiting: it has not lasted long enough yet.")]
    level: Literal["warn", "bad"]
    subject: str
    network: str | None
    node: str | None
    text: str
    since: At
    silenced: Annotated[At | None, Meta(description="Until when no webhook is told of it.")]


class AlertsNow(TypedDict):
    """Webhooks, alerts and silences."""

    host: Annotated[str, Meta(description="The name of this host in messages.")]
    after: Annotated[float, Meta(description="Seconds that something must last to be told.")]
    webhooks: list[WebhookNow]
    alerts: list[AlertNow]
    silences: list[AlertSilence]
    kept: Annotated[str | None, Meta(description="The file that keeps silences over a restart; null without one.")]


class AlertTestRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Which webhook is to be sent a test."""

    webhook: Annotated[str, Meta(max_length=64, description="All of them if empty.")] = ""


class AlertTest(TypedDict):
    """What became of a test."""

    webhook: str
    ok: bool
    status: int | None
    error: str
    seconds: float


class AlertTests(TypedDict):
    """The outcome of each test."""

    tests: list[AlertTest]


class SilenceRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be silenced, and for how long."""

    what: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=400,
            description='A subject, the id of an alert, a network with its nodes, or "all".',
        ),
    ]
    seconds: Annotated[float, Meta(ge=1, le=LONGEST)]
    reason: Annotated[str, Meta(max_length=200)] = ""
