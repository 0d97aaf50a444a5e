"""Every fault, as a client meets it."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request

from rpcaccel.simnode.chain.knobs import FAULTS
from rpcaccel.simnode.server.factories import knobs
from rpcaccel.simnode.server.faults import rpc_answer
from rpcaccel.simnode.server.sim_server import SimNode

Post = Callable[..., Awaitable[tuple[int, bytes]]]
HEAD = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_blockNumber", "params": []}


async def meet(node: SimNode, post: Post, fault: str, body: Any = HEAD) -> tuple[int, bytes]:
    node.knobs.next_faults = [fault]
    return await post(node, body)


@pytest.mark.parametrize("fault", ["reset", "half_body"])
async def test_a_broken_connection_is_a_clients_error(fault: str, served: SimNode, post: Post) -> None:
    with pytest.raises(aiohttp.ClientError):
        await meet(served, post, fault)
    assert served.counts.asked("hmyv2_blockNumber") == 1
    assert (await post(served, HEAD))[0] == 200


async def test_a_hanging_call_never_answers(served: SimNode, post: Post) -> None:
    served.knobs.next_faults = ["hang"]
    hanging = asyncio.ensure_future(post(served, HEAD))
    await served.counts.until(lambda counts: counts.asked("hmyv2_blockNumber") == 1)
    assert (await post(served, HEAD))[0] == 200
    assert not hanging.done()
    hanging.cancel()


@pytest.mark.parametrize(
    ("fault", "status", "part"),
    [
        ("html", 502, b"<h1>502 Bad Gateway</h1>"),
        ("too_many", 429, b"too many requests"),
        ("unavailable", 503, b"service unavailable"),
        ("empty", 200, b""),
        ("garbage", 200, b'"result":{"number":'),
        ("wrong_id", 200, b'"id":"somebody else","result":178'),
        ("missing_id", 200, b'{"jsonrpc":"2.0","result":178}'),
        ("error", 200, b'"id":1,"error":{"code":-32000,"message":"simulated failure"}'),
        ("rate_limit", 200, b"rate: Wait(n=1) would exceed context deadline"),
        ("invalid_reply", 200, b'{"jsonrpc": "2.0", "id": 1}'),
    ],
)
async def test_each_fault_looks_as_it_does_on_the_wire(
    fault: str, status: int, part: bytes, served: SimNode, post: Post
) -> None:
    met, body = await meet(served, post, fault)
    assert met == status
    assert part in body
    assert served.counts.faults == {fault: 1}
    assert served.counts.asked("hmyv2_blockNumber") == 1


async def test_every_fault_there_is_can_be_met_by_a_batch(served: SimNode, post: Post) -> None:
    batch = [HEAD, {"method": "hmyv2_gasPrice"}]
    for fault in sorted(set(FAULTS) - {"hang", "reset", "half_body", "garbage"}):
        status, body = await meet(served, post, fault, batch)
        if status == 200 and body:
            assert isinstance(json.loads(body), list)
    assert await meet(served, post, "error", {"method": "hmyv2_gasPrice"}) == (200, b"")


async def test_a_refusal_names_when_to_come_back(served: SimNode, session: aiohttp.ClientSession) -> None:
    served.knobs.turn({"retry_after": 3, "next_faults": ["too_many"]})
    async with session.post(served.url, json=HEAD) as response:
        assert response.headers["Retry-After"] == "3"


def test_compression_is_for_those_who_ask_unless_it_is_switched_off() -> None:
    request = make_mocked_request("POST", "/", headers={"Accept-Encoding": "br, gzip"})
    packed = rpc_answer(request, b"x" * 38, knobs())
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(cast("bytes", packed.body)) == b"x" * 38
    assert "Content-Encoding" not in rpc_answer(request, b"x", knobs(gzip=False)).headers
