"""The settings of alerts, and what docs/monitoring.md says of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson

from rpcaccel.config.load import load
from rpcaccel.config.model import Settings
from rpcaccel.config.patch import to_document
from rpcaccel.controlplane.alerts.alert_book import Alert
from rpcaccel.controlplane.alerts.alert_messages import body_of
from rpcaccel.controlplane.alerts.receiver import AlertNews
from tests.support.services import ROOT

PAGE = (ROOT / "docs" / "monitoring.md").read_text()
NETWORKS = {"s0": {"nodes": ["http://127.0.0.1:1"]}}
URL = "https://user:pw@hooks.example:8443/services/T0S3cret?token=S3cret"


def made(**alerts: Any) -> Settings:
    return Settings.model_validate({"networks": NETWORKS, "alerts": alerts})


def test_a_webhook_needs_an_address_and_nothing_else() -> None:
    found = made(webhooks={"ops": {"url": URL}})
    ops = found.alerts.webhooks["ops"]
    assert (ops.url.reveal(), ops.format, ops.least, ops.repeat, ops.resolved) == (URL, "json", "warn", 14_400, True)
    assert (found.alerts.after, found.alerts.page, found.alerts.host) == (30, "", "")


def test_of_an_address_and_headers_nothing_is_shown_but_the_host() -> None:
    found = made(webhooks={"ops": {"url": URL, "headers": {"Authorization": "Bearer S3cret"}}})
    shown = to_document(found)["alerts"]["webhooks"]["ops"]
    assert (shown["url"], shown["headers"]) == ("https://hooks.example:8443", {"Authorization": "***"})
    assert "S3cret" not in repr(found)


def test_what_the_page_about_alerts_shows_as_a_file_is_valid(tmp_path: Path) -> None:
    shown = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert shown
    for text in shown:
        (tmp_path / "shown.toml").write_text(text)
        assert load(tmp_path / "shown.toml", environ={"RPCACCEL_NETWORKS__HARMONY_S0__NODES": "http://a"})


def test_the_document_that_the_page_about_alerts_shows_is_the_one_that_is_sent() -> None:
    (shown,) = (orjson.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
    about = shown["alerts"][0]
    same = {name: about[name] for name in ("id", "level", "subject", "network", "node", "text")}
    news = AlertNews(alert=Alert(**same, state="firing", since=1_790_000_000))
    assert orjson.loads(body_of([news], "json", shown["host"], shown["page"])) == shown
