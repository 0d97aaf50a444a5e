"""The log of errors that clients get, over the real program: of all workers, whatever becomes of them, and bounded."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import pytest

from tests.support.fleet import Fleet
from tests.support.running import Running, until

BLOCK = "hmyv2_getBlockByNumber"


async def group(proxy: Running, **wanted: Any) -> dict[str, Any] | None:
    """The group of errors with these members."""
    for found in (await proxy.api("errors"))["groups"]:
        if wanted.items() <= found.items():
            return dict(found)
    return None


async def until_counted(proxy: Running, count: int, **wanted: Any) -> dict[str, Any]:
    """The group with these members, once it has this count."""

    async def counted() -> bool:
        found = await group(proxy, **wanted)
        return found is not None and bool(found["count"] == count)

    await until(f"{count} errors", counted)
    found = await group(proxy, **wanted)
    assert found is not None
    return found


async def ask_anew(proxy: Running, times: int) -> None:
    """So many calls with a block that is none, each on a connection of its own: they come to every worker."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": BLOCK, "params": ["not a block", {}]}).encode()
    for _ in range(times):
        assert "error" in (await proxy.post(body, Connection="close")).json


async def test_errors_of_several_workers_are_one_log_that_outlives_them(pair: Fleet) -> None:
    proxy = pair.proxy
    mistakes = {"method": BLOCK, "fault": "client", "code": -32602}
    earlier = await group(proxy, **mistakes)
    count = earlier["count"] if earlier else 0
    await ask_anew(proxy, 20)
    await until_counted(proxy, count + 20, **mistakes)
    before = {worker["pid"] for worker in (await proxy.api("workers"))["workers"]}
    proxy.program.signal(signal.SIGHUP)

    async def renewed() -> bool:
        workers = (await proxy.api("workers"))["workers"]
        return len(workers) == 2 and not before & {worker["pid"] for worker in workers}

    await until("other workers", renewed)
    await ask_anew(proxy, 5)
    found = await until_counted(proxy, count + 25, **mistakes)
    assert found["client"] == "anonymous"
    samples = (await proxy.api(f"errors/{found['id']}"))["samples"]
    assert samples[0]["params"] == '["not a block", {}]'
    assert samples[0]["attempts"][0]["node"] in {node.name for node in pair.nodes}
    assert samples[0]["attempts"][0]["end"] == "invalid-params"


@pytest.mark.parametrize("size", [40])
async def test_a_flood_of_invented_names_params_and_keys_stays_bounded(fleet: Fleet, size: int) -> None:
    proxy = fleet.proxy

    async def flood(first: int) -> None:
        for number in range(first, first + size):
            items = [
                {"jsonrpc": "2.0", "id": i, "method": f"flood{number}_{i}\n\x1b[2J" * 3, "params": ["x" * 3000, number]}
                for i in range(50)
            ]
            await proxy.post(json.dumps(items).encode())
            await proxy.post(b"{}", f"/key/invented{number}", X_Request_ID="n" * 1000)

    await asyncio.gather(*(flood(start) for start in range(0, 4 * size, size)))

    async def counted() -> bool:
        now = await proxy.api("errors")
        named = sum(one["calls"] for one in now["unknown_methods"] if one["method"].startswith("flood"))
        return bool(named) and sum(one["count"] for one in now["groups"]) + now["forgotten_errors"] >= 4 * size * 50

    await until("the flood in the log", counted)
    now = await proxy.api("errors")
    assert len(now["groups"]) <= 300
    assert len(now["unknown_methods"]) <= 50
    assert len(json.dumps(now)) < 1_000_000
    assert all(one["method"].isprintable() and len(one["method"]) <= 64 for one in now["groups"])
    assert "\x1b" not in json.dumps(now, ensure_ascii=False)
    metrics = (await proxy.get(f"{proxy.admin}/metrics")).body.decode()
    assert "flood" not in metrics
