"""The bodies of messages."""

from __future__ import annotations

from typing import Any, Literal

import orjson

from rpcaccel.controlplane.alerts.alert_book import Alert
from rpcaccel.controlplane.alerts.alert_forms import TellingHost, body_of, body_of_test, escaped_for_slack
from rpcaccel.controlplane.alerts.delivery import AlertMessage, News

HOST = TellingHost(host="edge-1", page="https://rpc.example/", networks=["s0"], unix=lambda at: 1_790_000_000 + at)


def alert(subject: str = "s0/a", level: Literal["warn", "bad"] = "bad", **more: Any) -> Alert:
    return Alert(
        **{"id": "1f", "subject": subject, "kind": "node", "text": "node s0/a: no connection", "since": 0.0, **more},
        level=level,
    )


def told(form: Literal["json", "slack"], *alerts: Alert, host: TellingHost = HOST) -> Any:
    return orjson.loads(body_of(AlertMessage(tuple(map(News, alerts))), form, host))


def test_the_form_of_our_own_says_what_where_and_since_when() -> None:
    assert told("json", alert(), alert("redis", "warn", ended=90.0, text="redis is not reached", id="2a")) == {
        "version": 1,
        "host": "edge-1",
        "status": "firing",
        "page": "https://rpc.example/",
        "alerts": [
            {
                "id": "1f",
                "status": "firing",
                "level": "bad",
                "subject": "s0/a",
                "network": "s0",
                "node": "a",
                "text": "node s0/a: no connection",
                "since": "2026-09-21T14:13:20Z",
                "ended": None,
                "reminder": False,
                "page": "https://rpc.example/#/nodes/s0%2Fa",
            },
            {
                "id": "2a",
                "status": "resolved",
                "level": "warn",
                "subject": "redis",
                "network": None,
                "node": None,
                "text": "redis is not reached",
                "since": "2026-09-21T14:13:20Z",
                "ended": "2026-09-21T14:14:50Z",
                "reminder": False,
                "page": "https://rpc.example/#/overview",
            },
        ],
        "omitted": 0,
    }


def test_a_message_about_ends_alone_is_resolved_and_has_no_links_where_no_page_is_named() -> None:
    found = told("json", alert(ended=5.0), host=TellingHost("h", "", [], lambda at: at))
    assert (found["status"], found["page"], found["alerts"][0]["page"]) == ("resolved", None, None)


def test_slack_gets_the_same_as_a_text_and_as_blocks_the_worst_first() -> None:
    found = told("slack", alert("s0/b", "warn", text="b"), alert("s0/c", text="c", ended=600.0), alert(text="a"))
    lines = found["text"].split("\n")
    assert lines == [
        "*rpcaccel on edge-1: 2 alerts, 1 over*",
        "🔴 a <https://rpc.example/#/nodes/s0%2Fa|look>",
        "🟡 b <https://rpc.example/#/nodes/s0%2Fb|look>",
        "✅ over: c (it lasted 10 min) <https://rpc.example/#/nodes/s0%2Fc|look>",
    ]
    texts = [block["text"]["text"] for block in found["blocks"]]
    assert texts == [*lines, "<https://rpc.example/|the page>"]
    assert {(block["type"], block["text"]["type"]) for block in found["blocks"]} == {("section", "mrkdwn")}


def test_a_reminder_says_that_it_still_lasts() -> None:
    message = AlertMessage((News(alert(), reminder=True),))
    assert "still: node s0/a" in orjson.loads(body_of(message, "slack", HOST))["text"]
    assert orjson.loads(body_of(message, "json", HOST))["alerts"][0]["reminder"] is True


def test_words_of_nodes_are_no_markup_and_call_nobody() -> None:
    assert escaped_for_slack("<!channel> a & b <http://x|y>") == "&lt;!channel&gt; a &amp; b &lt;http://x|y&gt;"
    assert escaped_for_slack("@everyone\nline\x1b[2J") == "@\u200beveryone\\nline\\x1b[2J"
    assert "\\u202e" in told("json", alert(text="\u202ex"))["alerts"][0]["text"]


def test_messages_stay_within_what_receivers_take_however_many_alerts_there_are() -> None:
    many = [alert(f"s0/{number}", text="<" * 500, id=str(number)) for number in range(4000)]
    slack = told("slack", *many)
    assert len(slack["blocks"]) <= 50
    assert max(len(block["text"]["text"]) for block in slack["blocks"]) <= 3000
    assert len(slack["text"]) <= 2000
    assert "4000 alerts" in slack["text"]
    ours = body_of(AlertMessage(tuple(map(News, many))), "json", HOST)
    assert (len(orjson.loads(ours)["alerts"]), orjson.loads(ours)["omitted"]) == (100, 3900)
    assert len(ours) < 150_000


def test_a_test_says_that_nothing_is_wrong_and_who_asked() -> None:
    ours = orjson.loads(body_of_test("ops", "json", "ann", HOST))
    assert (ours["status"], ours["alerts"][0]["status"], ours["alerts"][0]["id"]) == ("test", "test", "test")
    assert "asked for by ann" in ours["alerts"][0]["text"]
    assert ours["alerts"][0].keys() == told("json", alert())["alerts"][0].keys()
    assert "Nothing is wrong" in orjson.loads(body_of_test("ops", "slack", "", HOST))["text"]
