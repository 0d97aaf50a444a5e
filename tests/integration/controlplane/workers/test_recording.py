"""The admin side's recording, over a worker here and over workers in processes of their own."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from benchmarks.peers import post
from rpcaccel.controlplane.workers.link import Link, LocalLink
from rpcaccel.controlplane.workers.operations import OperationRefused, RecordedCalls, record, wanted_of
from rpcaccel.controlplane.workers.process_link import ProcessLink
from rpcaccel.controlplane.workers.sockets import bind
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.proxy import settings_for

CALL = '{"jsonrpc":"2.0","id":1,"method":"hmyv2_getBlockByNumber","params":[7,{}]}'


async def test_the_calls_of_every_worker_are_handed_over_in_their_order() -> None:
    async with harmony_nodes(1) as nodes:
        links: list[Link] = [
            kind(name, bind("127.0.0.1:0", "listen"), lambda _hint: None)
            for kind, name in ((LocalLink, "w1"), (ProcessLink, "w2"))
        ]
        ports = [await link.start(settings_for(nodes), 1) for link in links]
        try:
            assert await record(wanted_of(b""), links) == RecordedCalls([], 0, 2)
            for number in range(4):
                await _post(f"http://127.0.0.1:{ports[number % len(ports)]}", CALL.replace("7", str(number)))
            found = (await record(wanted_of(b'{"stop": true}'), links)).calls
            assert [call.params for call in found] == [f"[{number},{{}}]" for number in range(4)]
            assert {call.method for call in found} == {"hmyv2_getBlockByNumber"}
            await _post(f"http://127.0.0.1:{ports[0]}", CALL)
            assert (await record(wanted_of(b'{"stop": true}'), links)).calls == []
        finally:
            for link in links:
                await link.drain(1.0)
        assert (await record(wanted_of(b"{}"), links)).calls == []


async def _post(url: str, body: str) -> None:
    with suppress(OSError):  # without a head there is no answer, and the call was made all the same
        await asyncio.to_thread(post, url, body)


@pytest.mark.parametrize(("body", "status"), [(b"[]", 400), (b'{"other": 1}', 400), (b'{"sample": 0}', 422)])
def test_an_order_that_cannot_be_read_is_refused(body: bytes, status: int) -> None:
    with pytest.raises(OperationRefused) as refused:
        wanted_of(body)
    assert refused.value.status == status
