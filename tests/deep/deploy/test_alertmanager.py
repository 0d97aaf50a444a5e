"""Alerts go to the service whose address the operator gives to `docker compose up`, and nowhere without one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from tests.support.services import LOOPBACK, ROOT, Process, require
from tests.support.waiting import until

PROMETHEUS = ROOT / "deploy" / "prometheus"
ALERT = {
    "labels": {"alertname": "RpcaccelNoNode", "network": "harmony-s0"},
    "annotations": {"summary": "harmony-s0 has no node that can take calls", "description": "Only what is kept."},
}


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """A session of its own."""
    async with aiohttp.ClientSession() as session:
        yield session


def test_alertmanager_accepts_its_configuration() -> None:
    with Process([require("amtool"), "check-config", "alertmanager.yml"], cwd=PROMETHEUS) as tool:
        assert tool.wait() == 0, tool.output


def test_prometheus_sends_its_alerts_to_the_service_of_the_compose_file() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    configured = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
    (target,) = configured["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    name, port = target.split(":")
    assert f"127.0.0.1:{port}:{port}" in services[name]["ports"]


@asynccontextmanager
async def slack() -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """The address of a service that takes messages in Slack's form, and the messages that came."""
    messages: list[dict[str, Any]] = []

    async def take(request: web.Request) -> web.Response:
        messages.append(json.loads(await request.read()))
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_post("/secret", take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, LOOPBACK, 0)
    await site.start()
    try:
        yield f"http://{LOOPBACK}:{runner.addresses[0][1]}/secret", messages
    finally:
        await runner.cleanup()


@asynccontextmanager
async def alertmanager(folder: Path, address: str, url: str) -> AsyncIterator[Process]:
    """The service as Compose starts it, but with nothing to wait for before the first message."""
    text = (PROMETHEUS / "alertmanager.yml").read_text(encoding="utf-8")
    (folder / "alertmanager.yml").write_text(text.replace("group_wait: 10s", "group_wait: 0s"), encoding="utf-8")
    shutil.copy(PROMETHEUS / "alertmanager.sh", folder)
    (folder / "work").mkdir()
    (folder / "bin").mkdir()
    (folder / "bin" / "alertmanager").symlink_to(require("alertmanager"))
    own = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "TMPDIR": str(folder / "work")}
    service = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]["alertmanager"]
    options = [word.replace("=/alertmanager", f"={folder / 'data'}") for word in service["command"]]
    command = ["sh", str(folder / "alertmanager.sh"), *options, f"--web.listen-address={address}"]
    with Process(command, env=own | {"ALERTS_SLACK_URL": url}) as process:
        await asyncio.to_thread(process.wait_ready, f"http://{address}/-/ready")
        yield process


async def test_an_alert_reaches_the_service_whose_address_is_in_the_environment(
    tmp_path: Path, free_port: Callable[[], int], http: aiohttp.ClientSession
) -> None:
    address = f"{LOOPBACK}:{free_port()}"
    async with slack() as (url, messages), alertmanager(tmp_path, address, url) as process:
        async with http.post(f"http://{address}/api/v2/alerts", json=[ALERT]) as reply:
            assert reply.status == 200
        await until(lambda: messages)
        assert "/secret" not in process.output
    (told,) = messages[0]["attachments"]
    assert told["title"] == "RpcaccelNoNode (firing)"
    assert "harmony-s0 has no node that can take calls" in told["text"]
    assert (tmp_path / "work" / "slack_url").stat().st_mode & 0o077 == 0


async def test_without_an_address_alerts_are_shown_and_sent_nowhere(
    tmp_path: Path, free_port: Callable[[], int], http: aiohttp.ClientSession
) -> None:
    address = f"{LOOPBACK}:{free_port()}"
    async with alertmanager(tmp_path, address, ""):
        async with http.post(f"http://{address}/api/v2/alerts", json=[ALERT]) as reply:
            assert reply.status == 200
        async with http.get(f"http://{address}/api/v2/alerts") as reply:
            (shown,) = json.loads(await reply.read())
    assert shown["receivers"] == [{"name": "page"}]
    assert not (tmp_path / "work" / "slack_url").exists()
