"""A node of a real proxy is killed: a receiver is told, and told again when the node is back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.running import QUICK, Running, found, until
from tests.support.services import Program
from tests.support.webhook_receiver import WebhookReceiver, receiving_webhooks

CONFIG = """
listen = "127.0.0.1:0"
admin.listen = "127.0.0.1:0"
[alerts]
after = "200ms"
host = "edge-1"
webhooks.ops = {{ url = "${{HOOK}}", least = "bad" }}
webhooks.chat = {{ url = "${{HOOK}}/chat", format = "slack", least = "bad" }}
[networks.harmony-s0]
nodes = [{nodes}]
"""


async def told(receiver: WebhookReceiver, status: str, subject: str) -> Any:
    """What the first message in our own form says of something bad that begins or is over."""
    number = 0
    while True:
        message = await receiver.message(number)
        number += 1
        for one in message.get("alerts", ()):
            if (one["status"], one["subject"], one["level"]) == (status, subject, "bad"):
                return one


@pytest.mark.smoke
async def test_a_receiver_is_told_of_a_node_that_dies_and_of_its_return_unless_it_is_muted(
    new_program: Callable[..., Program], http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """Mutes, and webhooks that were set while it ran, outlive a restart."""

    async def started() -> Running:
        proxy = await found(new_program("serve", "--config", tmp_path / "rpcaccel.toml", env=env), http)
        await proxy.ready()
        return proxy

    async with harmony_nodes(2) as nodes, receiving_webhooks() as receiver:
        listed = ", ".join(f'"{node.url},id={node.name}"' for node in nodes)
        (tmp_path / "rpcaccel.toml").write_text(CONFIG.format(nodes=listed))
        env = QUICK | {"HOOK": receiver.url}
        proxy = await started()
        lost, subject = nodes[0], f"harmony-s0/{nodes[0].name}"
        await lost.kill()
        begun = await told(receiver, "firing", subject)
        assert (begun["network"], begun["node"]) == ("harmony-s0", lost.name)
        attention = (await proxy.api("overview"))["attention"]
        assert begun["id"] in [one["id"] for one in attention]
        await lost.start()
        ended = await told(receiver, "resolved", subject)
        assert (ended["id"], ended["since"]) == (begun["id"], begun["since"])
        status, tests = await proxy.change({}, "alerts/test", "POST")
        assert (status, [one["ok"] for one in tests["tests"]]) == (200, [True, True])
        assert any(subject in body.get("text", "") for body in receiver.bodies)
        assert (await proxy.metrics()).sum("rpcaccel_alerts_sent_total", webhook="ops", result="ok") >= 2
        await proxy.changed({"alerts": {"webhooks": {"late": {"url": receiver.url, "format": "slack"}}}})
        status, _ = await proxy.change({"what": "harmony-s0", "seconds": 3600}, "alerts/mutes", "POST")
        assert status == 200
        everything = json.dumps([await proxy.api(name) for name in ("alerts", "settings", "overview", "changes")])
        assert await proxy.end() == 0
        assert "S3cret" not in proxy.program.output + everything
        assert "Traceback" not in proxy.program.output
        before = len(receiver.bodies)
        await stays_silent(await started(), receiver, before, lost)


async def stays_silent(proxy: Running, receiver: WebhookReceiver, before: int, lost: SimNode) -> None:
    """What was set before the restart holds: the node dies, and nobody is told more than `before`."""
    shown = await proxy.api("alerts")
    assert [one["what"] for one in shown["mutes"]] == ["harmony-s0"]
    assert {one["name"] for one in shown["webhooks"]} == {"ops", "chat", "late"}
    await lost.kill()

    async def seen() -> bool:
        alerts = (await proxy.api("alerts"))["alerts"]
        wanted = ("firing", f"harmony-s0/{lost.name}")
        return any((one["state"], one["subject"]) == wanted and one["muted"] for one in alerts)

    await until("the muted alert", seen)
    assert await proxy.end() == 0
    assert len(receiver.bodies) == before
    assert "Traceback" not in proxy.program.output
