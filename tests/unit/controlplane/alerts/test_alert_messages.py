"""The bodies of messages."""

from __future__ import annotations

from typing import Any, Literal

import orjson
from msgspec.structs import replace

from rpcaccel.controlplane.alerts.alert_book import Alert
from rpcaccel.controlplane.alerts.alert_messages import body_of, news_of_test
from rpcaccel.controlplane.alerts.receiver import AlertNews

PAGE = "https://rpc.example/"
BEGAN = 1_790_000_000.0


def news(subject: str = "s0/a", level: Literal["warn", "bad"] = "bad", lasted: float = 0, **more: Any) -> AlertNews:
    """News of an alert, which is over where it `lasted` some seconds."""
    network, _, node = subject.partition("/")
    about = {"id": "1f", "network": network, "node": node, "text": "node s0/a: no connection", **more}
    alert = Alert(**about, state="firing", level=level, subject=subject, since=BEGAN)
    return AlertNews(alert=alert, status="resolved", ended=BEGAN + lasted) if lasted else AlertNews(alert=alert)


def told(form: Literal["json", "slack"], *several: AlertNews, page: str = PAGE) -> Any:
    return orjson.loads(body_of(several, form, "edge-1", page))


def test_the_form_of_our_own_says_what_where_and_since_when() -> None:
    redis = news("redis", "warn", 90, text="redis is not reached", id="2a", network=None, node=None)
    assert told("json", redis, news()) == {
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
    found = told("json", news(lasted=5), page="")
    assert (found["status"], found["page"], found["alerts"][0]["page"]) == ("resolved", None, None)


def test_slack_gets_the_same_as_a_text_the_worst_first() -> None:
    found = told("slack", news("s0/b", "warn", text="b"), news("s0/c", lasted=600, text="c"), news(text="a"))
    assert found == {
        "text": "*rpcaccel on edge-1: 2 alerts, 1 over*\n"
        "🔴 a <https://rpc.example/#/nodes/s0%2Fa|look>\n"
        "🟡 b <https://rpc.example/#/nodes/s0%2Fb|look>\n"
        "✅ over: c (it lasted 10 min) <https://rpc.example/#/nodes/s0%2Fc|look>"
    }


def test_a_reminder_says_that_it_still_lasts() -> None:
    reminder = replace(news(), reminder=True)
    assert "still: node s0/a" in told("slack", reminder)["text"]
    assert told("json", reminder)["alerts"][0]["reminder"] is True


def test_words_of_nodes_are_no_markup_and_call_nobody() -> None:
    text = told("slack", news(text="<!channel> a & b <http://x|y>\n@everyone\x1b[2J"), page="")["text"]
    assert text.endswith("&lt;!channel&gt; a &amp; b &lt;http://x|y&gt;\\n@\u200beveryone\\x1b[2J")
    assert "\\u202e" in told("json", news(text="\u202ex"))["alerts"][0]["text"]


def test_messages_stay_within_what_receivers_take_however_many_alerts_there_are() -> None:
    many = [news(f"s0/{number}", text="<" * 500, id=str(number)) for number in range(4000)]
    text = told("slack", *many)["text"]
    assert len(text) <= 2000
    assert text.startswith("*rpcaccel on edge-1: 4000 alerts*\n🔴 &lt;")
    assert text.endswith(f"\nand {4000 - text.count('🔴')} more")
    body = body_of(many, "json", "edge-1", PAGE)
    assert (len(orjson.loads(body)["alerts"]), orjson.loads(body)["omitted"]) == (100, 3900)
    assert len(body) < 150_000


def test_a_test_says_that_nothing_is_wrong_and_who_asked() -> None:
    test = news_of_test("ops", "ann", BEGAN)
    ours = told("json", test)
    assert (ours["status"], ours["alerts"][0]["status"], ours["alerts"][0]["id"]) == ("test", "test", "test")
    assert "asked for by ann" in ours["alerts"][0]["text"]
    assert ours["alerts"][0].keys() == told("json", news())["alerts"][0].keys()
    text = told("slack", test)["text"]
    assert text.startswith("*rpcaccel on edge-1: 1 test*\n")
    assert "Nothing is wrong" in text
