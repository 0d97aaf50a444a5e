"""A connection that comes as a worker begins to drain is answered by that worker or by the next one: the listening
socket belongs to the supervisor, which gives it to both. On uvloop, as the program."""

from __future__ import annotations

import asyncio
import socket

import pytest

from rpcaccel.dataplane.worker import Worker
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.dataplane.conversation import Conversation, call
from tests.support.proxy import settings_for


@pytest.mark.parametrize("turns", range(8))
async def test_a_connection_that_comes_as_draining_begins_is_answered(turns: int) -> None:
    """So many turns of the event loop lie between the connection and the order to drain: within them it is accepted,
    and only then told of to the worker. The client calls when the old worker has done all that it does at once."""
    async with harmony_nodes(1) as nodes:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        old, new = (Worker(name, settings_for(nodes)) for name in ("old", "new"))
        await old.start(listening.dup())
        client = socket.create_connection(listening.getsockname())
        for _ in range(turns):
            await asyncio.sleep(0)
        draining = asyncio.create_task(old.drain(5.0, linger=60.0))
        for _ in range(20):
            await asyncio.sleep(0)
        await new.start(listening)
        conversation = Conversation(*await asyncio.open_connection(sock=client))
        try:
            conversation.send(call(7))
            assert (await conversation.answer()).json["id"] == 7
        finally:
            conversation.close()
            async with asyncio.timeout(20):
                await draining
                await new.drain(1.0)
