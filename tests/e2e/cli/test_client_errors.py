"""The log of errors that clients get, over the real program: of all workers, whatever becomes of them."""

from __future__ import annotations

import json
import signal
from typing import Any

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
