"""The settings of alerts: which webhooks are told of what needs attention, when, and in which form."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from rpcaccel.config.secrets import HeaderText, NodeUrl
from rpcaccel.config.sections import Section
from rpcaccel.config.value_types import NAME, Duration, HeaderName, listed

MAX_WEBHOOKS = 10
_PAGE = 'the address of the page, such as "https://rpc.example:8889/", without user, password and query'


class WebhookUrl(NodeUrl):
    """A webhook's address; shown as scheme://host:port, since its path and query often are its key."""

    __slots__ = ()


def _page(text: str) -> str:
    if not text:
        return ""
    if any(mark in text for mark in "@?") or len(text) > 1000:
        raise ValueError(_PAGE)
    try:
        checked = WebhookUrl(text).reveal()
    except ValueError:
        raise ValueError(_PAGE) from None
    return checked if checked.endswith("/") else f"{checked}/"


def _repeat(seconds: float) -> float:
    if 0 < seconds < 60:
        raise ValueError("at least 60 seconds, or 0 for never")
    return seconds


def _host(text: str) -> str:
    if len(text) > 100 or not (text.isascii() and text.isprintable()):
        raise ValueError("a name of up to 100 printable ASCII characters")
    return text


Networks = Annotated[tuple[Annotated[str, Field(pattern=NAME)], ...], BeforeValidator(listed)]


class WebhookSettings(Section):
    """One receiver of alerts."""

    url: WebhookUrl = Field(
        description="Alerts are posted to this address, which is shown without its path.",
        examples=["https://hooks.example/services/${OPS_WEBHOOK:-T000/B000/KEY}"],
    )
    format: Literal["json", "slack"] = Field(
        default="json",
        description='"json" is described in docs/monitoring.md; "slack" is what Slack, Mattermost and '
        "Discord's /slack take.",
    )
    least: Literal["warn", "bad"] = Field(
        default="warn",
        description='"warn" tells everything, "bad" only what is red on the page.',
    )
    networks: Networks = Field(
        default=(),
        max_length=1000,
        description="Alerts about these networks are told, and those about none. If empty, all.",
        examples=[["harmony-s0"]],
    )
    headers: dict[HeaderName, HeaderText] = Field(
        default={},
        max_length=20,
        description="Headers that are sent with each message. Their values are never shown.",
        examples=[{"Authorization": "Bearer ${OPS_TOKEN:-no-token}"}],
    )
    repeat: Annotated[Duration, AfterValidator(_repeat)] = Field(
        default=14_400.0,
        le=2_592_000,
        description="A lasting alert is told again after this long, 60 s at least. 0 means never.",
    )
    resolved: bool = Field(default=True, description="If true, the end of an alert is told as well.")
    timeout: Duration = Field(default=10.0, ge=0.1, le=60, description="One try may take this long.")


class AlertsSettings(Section):
    """Alerts: what needs attention on the page, posted to webhooks."""

    after: Duration = Field(
        default=30.0,
        le=86_400,
        description="Something is told once it has needed attention for this long, and its end when it has "
        "been over as long.",
    )
    page: Annotated[str, AfterValidator(_page)] = Field(
        default="",
        description="The address under which people open the page. If empty, messages have no links.",
        examples=["https://rpc.example/"],
    )
    host: Annotated[str, AfterValidator(_host)] = Field(
        default="",
        description="The name of this host in messages. If empty, the machine's own.",
        examples=["edge-1"],
    )
    webhooks: dict[Annotated[str, Field(pattern=NAME)], WebhookSettings] = Field(
        default={}, max_length=MAX_WEBHOOKS, description="The receivers of alerts, by name; 10 at the most."
    )
