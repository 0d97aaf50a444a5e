"""The real program sends traces: from every worker, and at the latest when it ends."""

from __future__ import annotations

import asyncio

from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.receiver import Receiver, receiving
from tests.support.running import Running, Serve

BLOCK = "hmyv2_getBlockByNumber"


async def called(proxy: Running) -> None:
    """Twenty calls, each on a connection of its own, so that every worker is asked."""
    for number in range(20):
        body = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":[%d,{}]}' % (BLOCK.encode(), number)
        await proxy.post(body, Connection="close")


def all_came(receiver: Receiver, workers: int) -> bool:
    """Is there a span of each of those calls and of what it asked a node, from so many workers?"""
    instances = {span.service["service.instance.id"] for span in receiver.spans}
    return (len(receiver.named(BLOCK)), len(receiver.named(BLOCK, "CLIENT")), len(instances)) == (20, 20, workers)


async def test_calls_come_to_the_receiver_from_every_worker(serve: Serve) -> None:
    async with harmony_nodes(1) as nodes, receiving() as receiver:
        told = {"RPCACCEL_TRACING__ENDPOINT": receiver.url, "RPCACCEL_TRACING__SAMPLE": "1"}
        proxy = await serve(nodes, "--workers", "2", env=told)
        await called(proxy)
        assert await proxy.end() == 0
        assert all_came(receiver, 2), receiver.spans
        assert "Traceback" not in proxy.program.output


async def test_a_receiver_that_is_not_there_keeps_nobody_from_serving_and_one_that_is_named_instead_is_told(
    serve: Serve,
) -> None:
    async with harmony_nodes(1) as nodes, receiving() as receiver:
        told = {"RPCACCEL_TRACING__ENDPOINT": "http://127.0.0.1:1", "RPCACCEL_TRACING__SAMPLE": "1"}
        proxy = await serve(nodes, env=told)
        assert (await proxy.call(BLOCK, 70, {})).result["number"] == 70
        await proxy.changed({"tracing": {"endpoint": receiver.url}})
        await asyncio.to_thread(proxy.program.wait_for, "encountered while exporting")
        await called(proxy)
        assert await proxy.end() == 0
        assert all_came(receiver, 1), receiver.spans
        assert "Traceback" not in proxy.program.output
