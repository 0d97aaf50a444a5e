"""The bodies of messages to webhooks: JSON of our own, and the form of Slack that others take as well. docs/alerts.md
describes both; the JSON form keeps its members within a version.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Literal
from urllib.parse import quote

import orjson
from msgspec import Struct

from rpcaccel.controlplane.alerts.alert_book import Alert, place_of
from rpcaccel.controlplane.alerts.delivery import AlertMessage, News
from rpcaccel.core.wire.printable import printable

VERSION = 1
MOST_TOLD = 100
"""Alerts that one message names; the others are counted."""
MOST_BLOCKS = 40
"""Blocks of a message in Slack's form, of which Slack takes 50."""
LONGEST_SECTION, LONGEST_TEXT = 2900, 1900
"""Characters: Slack takes 3,000 in a section, and Discord 2,000 in a text."""
_SHAPES = {"bad": "🔴", "warn": "🟡", "ended": "✅"}
"""Characters and not names such as :red_circle:, which not every receiver of Slack's form knows."""


class TellingHost(Struct, frozen=True):
    """Who tells, and what is needed to say it."""

    host: str
    page: str
    """The address of the page with a slash at its end; empty where no link is wanted."""
    networks: Collection[str]
    unix: Callable[[float], float]
    """Seconds since 1970 of a time of an alert."""


def body_of(message: AlertMessage, form: Literal["json", "slack"], teller: TellingHost) -> bytes:
    """The body of a message."""
    worst = sorted(message.news, key=lambda one: (one.alert.ended is not None, one.alert.level != "bad"))
    if form == "slack":
        return orjson.dumps(_slack(worst, teller))
    status = "firing" if message.firing else "resolved"
    alerts = [_told(one, teller) for one in worst[:MOST_TOLD]]
    return _json(status, alerts, max(0, len(worst) - MOST_TOLD), teller)


def body_of_test(webhook: str, form: Literal["json", "slack"], by: str, teller: TellingHost) -> bytes:
    """The body of a test."""
    asked = f" by {by}" if by else ""
    text = f"This is a test of the webhook {webhook}, asked for{asked}. Nothing is wrong."
    if form == "slack":
        return orjson.dumps(_blocks(f"rpcaccel on {teller.host}: a test", [text], teller))
    now = _iso(time.time())
    alert = {"id": "test", "status": "test", "level": "warn", "subject": "test", "network": None, "node": None}
    told = {**alert, "text": text, "since": now, "ended": now, "reminder": False, "page": teller.page or None}
    return _json("test", [told], 0, teller)


def _json(status: str, alerts: Sequence[dict[str, Any]], omitted: int, teller: TellingHost) -> bytes:
    head = {"version": VERSION, "host": teller.host, "status": status, "page": teller.page or None}
    return orjson.dumps({**head, "alerts": alerts, "omitted": omitted})


def _told(news: News, teller: TellingHost) -> dict[str, Any]:
    alert = news.alert
    network, node = place_of(alert, teller.networks)
    return {
        "id": alert.id,
        "status": "firing" if alert.ended is None else "resolved",
        "level": alert.level,
        "subject": printable(alert.subject),
        "network": network,
        "node": node,
        "text": printable(alert.text),
        "since": _iso(teller.unix(alert.since)),
        "ended": None if alert.ended is None else _iso(teller.unix(alert.ended)),
        "reminder": news.reminder,
        "page": _link(alert, teller) or None,
    }


def _iso(unix: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix))


def _link(alert: Alert, teller: TellingHost) -> str:
    """The view that tells more: a node opened, or the first one."""
    _, node = place_of(alert, teller.networks)
    view = f"nodes/{quote(alert.subject, safe='')}" if node else "overview"
    return f"{teller.page}#/{view}" if teller.page else ""


def _slack(news: Sequence[News], teller: TellingHost) -> dict[str, Any]:
    lasting = sum(one.alert.ended is None for one in news)
    parts = [f"{lasting} {_alerts(lasting)}"] if lasting else []
    parts += [f"{len(news) - lasting} over"] if lasting < len(news) else []
    return _blocks(f"rpcaccel on {teller.host}: {', '.join(parts)}", list(_lines(news, teller)), teller)


def _alerts(number: int) -> str:
    return "alert" if number == 1 else "alerts"


def _lines(news: Sequence[News], teller: TellingHost) -> Iterator[str]:
    """A line for each alert, in Slack's markup."""
    for one in news[:MOST_TOLD]:
        alert = one.alert
        shape = _SHAPES["ended" if alert.ended is not None else alert.level]
        said = "over: " if alert.ended is not None else "still: " if one.reminder else ""
        link = _link(alert, teller)
        lasted = "" if alert.ended is None else f" (it lasted {_span(alert.ended - alert.since)})"
        yield f"{shape} {said}{escaped_for_slack(alert.text)}{lasted}{f' <{link}|look>' if link else ''}"
    if len(news) > MOST_TOLD:
        yield f"and {len(news) - MOST_TOLD} more"


def _blocks(title: str, lines: Sequence[str], teller: TellingHost) -> dict[str, Any]:
    """A message that says everything twice: `text` for receivers that know no blocks, and for notifications."""
    head = f"*{escaped_for_slack(title)}*"
    shown = list(lines[: MOST_BLOCKS - 2])
    if len(shown) < len(lines):
        shown[-1] = f"and {len(lines) - len(shown) + 1} more"
    blocks = [_section(part) for part in (head, *shown)]
    if teller.page:
        blocks.append(_section(f"<{teller.page}|the page>"))
    return {"text": _cut("\n".join((head, *shown)), LONGEST_TEXT), "blocks": blocks}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": _cut(text, LONGEST_SECTION)}}


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def escaped_for_slack(text: str) -> str:
    """A text in which Slack finds no markup of links and nobody is called: nodes' words may stand in it."""
    plain = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace("@", "@\u200b")  # "@everyone" would ring at everyone in Discord and Mattermost


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
