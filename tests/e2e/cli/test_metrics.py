"""What Prometheus reads from the real program after traffic, and that strangers cannot make it grow."""

from __future__ import annotations

import pytest

from rpcaccel.controlplane.stats.prometheus import EXPOSED
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.fleet import STEADY, Fleet
from tests.support.running import PATIENT, Serve
from tests.support.services import RedisServer

NET = {"network": "harmony-s0"}


@pytest.mark.smoke
async def test_traffic_shows_in_every_family_that_it_touches(serve: Serve, redis_server: RedisServer) -> None:
    async with harmony_nodes(2) as nodes:
        proxy = await serve(nodes, "--redis", redis_server.url, env=PATIENT | STEADY)
        for _ in range(3):
            await proxy.load([("hmyv2_getBlockByNumber", [number, {}]) for number in range(1, 11)])
        await proxy.call("hmyv2_blockNumber")
        await proxy.call("hmyv2_getBlockByNumber", "no number")
        await proxy.post(b"{")
        await proxy.post(b'[{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}]')
        told = await proxy.metrics()
        assert {
            f"{family.name}_total" if family.type == "counter" else family.name for family in told.families.values()
        } == {metric.name for metric in EXPOSED}
        block = NET | {"method": "hmyv2_getBlockByNumber"}
        assert told.sum("rpcaccel_calls_total", outcome="ok", **block) == 30
        assert told.sum("rpcaccel_calls_total", outcome="client_error", **block) == 1
        assert told.sum("rpcaccel_calls_total", outcome="error") == 0
        assert told.sum("rpcaccel_call_seconds_count", source="node", **block) == 11
        assert told.sum("rpcaccel_call_seconds_count", source="memory", **block) == 20
        assert told.sum("rpcaccel_cache_answers_total", **NET, **{"class": "by-number"}, source="memory") == 20
        assert told.sum("rpcaccel_cache_misses_total", **NET, reason="not-kept-yet") == 10
        assert told.sum("rpcaccel_requests_total") == 34
        assert told.sum("rpcaccel_batches_total") == 1
        assert told.sum("rpcaccel_refusals_total", reason="malformed") == 1
        assert told.sum("rpcaccel_node_calls_total") >= 11
        assert told.sum("rpcaccel_node_seconds_count") >= 10
        assert told.sum("rpcaccel_node_eligible") == 2
        assert told.sum("rpcaccel_node_head_block") == 400
        assert told.sum("rpcaccel_node_lag_blocks") == 0
        assert told.sum("rpcaccel_head_block") == 200
        assert told.sum("rpcaccel_tier_up", tier="redis") == 1
        assert told.sum("rpcaccel_tier_lookups_total", tier="memory", result="hit") == 20
        assert told.sum("rpcaccel_client_connections") >= 1
        assert told.sum("rpcaccel_process_resident_memory_bytes") > 10e6
        assert told.sum("rpcaccel_step_seconds_count", step="forward") == 11


async def test_what_a_client_sends_as_headers_or_paths_is_no_label(fleet: Fleet) -> None:
    for number in range(20):
        await fleet.proxy.post(b"{}", f"/strange-path-{number}", **{"User-Agent": f"strange-{number}"})
    assert "strange" not in (await fleet.proxy.metrics()).text
