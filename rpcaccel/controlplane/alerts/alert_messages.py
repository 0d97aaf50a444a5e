"""The bodies of messages to webhooks: JSON of our own, and the form of Slack that others take as well.
docs/monitoring.md describes both; the JSON form keeps its members within a version.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal
from urllib.parse import quote

import orjson

from rpcaccel.controlplane.alerts.alert_book import Alert
from rpcaccel.controlplane.alerts.receiver import AlertNews
from rpcaccel.core.wire.printable import printable

MESSAGE_VERSION = 1
MAX_NAMED_ALERTS = 100
"""Alerts that one message in the JSON form names; the others are counted."""
MAX_SLACK_CHARACTERS, MAX_SLACK_SENTENCE_CHARACTERS = 1900, 600
"""Of a text, of which Discord takes 2,000, and of what is said of one alert in it."""
_SHAPES = {"bad": "🔴", "warn": "🟡", "resolved": "✅", "test": "⚪"}
"""Characters and not names such as :red_circle:, which not every receiver of Slack's form knows."""


def body_of(news: Sequence[AlertNews], form: Literal["json", "slack"], host: str, page: str) -> bytes:
    """The body of a message, the worst first.

    Args:
        host: the name of this host.
        page: the address of the page with a slash at its end; empty where no link is wanted.
    """
    worst_first = sorted(news, key=lambda one: (one.status != "firing", one.alert.level != "bad"))
    return orjson.dumps((_slack if form == "slack" else _json)(worst_first, host, page))


def news_of_test(webhook: str, by: str, unix: float) -> AlertNews:
    """A test of this webhook, asked for by an account."""
    asked = f" by {by}" if by else ""
    text = f"This is a test of the webhook {webhook}, asked for{asked}. Nothing is wrong."
    alert = Alert(id="test", state="firing", level="warn", subject="test", text=text, since=unix)
    return AlertNews(alert=alert, status="test", ended=unix)


def _json(news: Sequence[AlertNews], host: str, page: str) -> dict[str, Any]:
    return {
        "version": MESSAGE_VERSION,
        "host": host,
        "status": news[0].status,
        "page": page or None,
        "alerts": [_alert_document(one, page) for one in news[:MAX_NAMED_ALERTS]],
        "omitted": max(0, len(news) - MAX_NAMED_ALERTS),
    }


def _alert_document(one: AlertNews, page: str) -> dict[str, Any]:
    alert = one.alert
    return {
        "id": alert.id,
        "status": one.status,
        "level": alert.level,
        "subject": printable(alert.subject),
        "network": alert.network,
        "node": alert.node,
        "text": printable(alert.text),
        "since": _iso(alert.since),
        "ended": None if one.ended is None else _iso(one.ended),
        "reminder": one.reminder,
        "page": _link(alert, page) if page else None,
    }


def _iso(unix: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix))


def _link(alert: Alert, page: str) -> str:
    """The view that tells more: a node opened, or the first one."""
    view = f"nodes/{quote(alert.subject, safe='')}" if alert.node else "overview"
    return f"{page}#/{view}"


def _slack(news: Sequence[AlertNews], host: str, page: str) -> dict[str, Any]:
    """A title and a line for each alert, as many as fit."""
    number = {status: sum(one.status == status for one in news) for status in ("firing", "resolved", "test")}
    words = {"firing": "alert" if number["firing"] == 1 else "alerts", "resolved": "over", "test": "test"}
    counts = ", ".join(f"{number[status]} {word}" for status, word in words.items() if number[status])
    text = f"*{_escaped(f'rpcaccel on {host}: {counts}')}*"
    for index, line in enumerate(_slack_lines(news, page)):
        if len(text) + len(line) > MAX_SLACK_CHARACTERS:
            text += f"\nand {len(news) - index} more"
            break
        text += f"\n{line}"
    return {"text": text}


def _slack_lines(news: Sequence[AlertNews], page: str) -> Iterator[str]:
    for one in news:
        alert = one.alert
        shape = _SHAPES[alert.level if one.status == "firing" else one.status]
        said = "over: " if one.status == "resolved" else "still: " if one.reminder else ""
        lasted = f" (it lasted {_span(one.ended - alert.since)})" if one.status == "resolved" and one.ended else ""
        sentence = _escaped(alert.text)[:MAX_SLACK_SENTENCE_CHARACTERS]
        link = f" <{_link(alert, page)}|look>" if page else ""
        yield f"{shape} {said}{sentence}{lasted}{link}"


def _escaped(text: str) -> str:
    """A text in which Slack finds no markup of links and nobody is called: nodes' words may stand in it."""
    plain = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace("@", "@\u200b")  # "@everyone" would ring at everyone in Discord and Mattermost


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
