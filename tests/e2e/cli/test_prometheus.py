"""A real Prometheus scrapes the running program, with the configuration that is shipped."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.integration.project.test_observability import alerts, dashboard
from tests.support.fleet import Fleet
from tests.support.running import until
from tests.support.services import LOOPBACK, ROOT, Process, require

SHIPPED = ROOT / "deploy" / "prometheus"
INTERVAL = "$__rate_interval"
NETWORK = "$network"


def configured(folder: Path, target: str) -> Path:
    """The configuration that is shipped, for another target and without a password."""
    settings: dict[str, Any] = yaml.safe_load((SHIPPED / "prometheus.yml").read_text(encoding="utf-8"))
    settings["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    del settings["alerting"]  # no Alertmanager runs here
    (job,) = settings["scrape_configs"]
    del job["authorization"]
    job["static_configs"] = [{"targets": [target]}]
    (folder / "alerts.yml").write_bytes((SHIPPED / "alerts.yml").read_bytes())
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return file


async def test_prometheus_reads_the_running_program_and_answers_every_panel(
    fleet: Fleet, tmp_path: Path, http: aiohttp.ClientSession, free_port: Callable[[], int]
) -> None:
    program = require("prometheus")
    address = f"{LOOPBACK}:{free_port()}"

    async def ask(path: str, **query: str) -> Any:
        try:
            async with http.get(f"http://{address}/api/v1/{path}", params=query) as reply:
                return json.loads(await reply.read())
        except (aiohttp.ClientConnectionError, ValueError):
            return None

    async def scraped() -> bool:
        found = await ask("query", query="count_over_time(rpcaccel_build_info[1m])")
        return bool(found and found["data"]["result"] and int(found["data"]["result"][0]["value"][1]) >= 3)

    async def up() -> bool:
        found = await ask("query", query='up{job="rpcaccel"}')
        return bool(found and found["data"]["result"] and found["data"]["result"][0]["value"][1] == "1")

    async def counted() -> bool:
        found = await ask("query", query="sum(rpcaccel_calls_total)")
        return bool(found and found["data"]["result"] and float(found["data"]["result"][0]["value"][1]) == made)

    proxy = fleet.proxy
    for _ in range(5):
        await proxy.call("hmyv2_getNodeMetadata")
    made = (await proxy.metrics()).sum("rpcaccel_calls_total")
    file = configured(tmp_path, proxy.admin.removeprefix("http://"))
    command = [program, f"--config.file={file}", f"--storage.tsdb.path={tmp_path / 'data'}"]
    prometheus = Process([*command, f"--web.listen-address={address}"])
    try:
        await until("three scrapes", scraped)
        await until("the calls that were made", counted)
        await until("a target that is up", up)
        for expression in (*dashboard(), *alerts()):
            if expression.startswith("label_values"):
                continue
            asked = expression.replace(INTERVAL, "1m").replace(NETWORK, ".*")
            assert (await ask("query", query=asked))["status"] == "success", expression
        firing = await ask("alerts")
        assert [alert for alert in firing["data"]["alerts"] if alert["state"] == "firing"] == []
    finally:
        await asyncio.to_thread(prometheus.stop)
