"""The real program sends traces: from every worker, and at the latest when it ends."""

from __future__ import annotations

import pytest

from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.receiver import receiving
from tests.support.running import Serve

BLOCK = "hmyv2_getBlockByNumber"


@pytest.mark.parametrize("workers", [1, 2])
async def test_calls_come_to_the_receiver_from_every_worker(serve: Serve, workers: int) -> None:
    async with harmony_nodes(1) as nodes, receiving() as receiver:
        told = {"RPCACCEL_TRACING__ENDPOINT": receiver.url, "RPCACCEL_TRACING__SAMPLE": "1"}
        proxy = await serve(nodes, "--workers", str(workers), env=told)
        for number in range(20):
            await proxy.post(
                b'{"jsonrpc":"2.0","id":1,"method":"%b","params":[%d,{}]}' % (BLOCK.encode(), number),
                Connection="close",  # so that every worker is asked
            )
        assert await proxy.end() == 0
        assert len(receiver.named(BLOCK)) == 20
        assert len(receiver.named(BLOCK, "CLIENT")) == 20
        assert len({span.service["service.instance.id"] for span in receiver.spans}) == workers
        assert "Traceback" not in proxy.program.output


async def test_a_receiver_that_is_not_there_keeps_nobody_from_serving_or_ending(serve: Serve) -> None:
    async with harmony_nodes(1) as nodes:
        told = {"RPCACCEL_TRACING__ENDPOINT": "http://127.0.0.1:1", "RPCACCEL_TRACING__SAMPLE": "1"}
        proxy = await serve(nodes, env=told)
        assert (await proxy.call(BLOCK, 7, {})).result["number"] == 7
        assert await proxy.end() == 0
        assert "Traceback" not in proxy.program.output
        assert "encountered while exporting" in proxy.program.output
