"""A node over a real socket that answers each call with members of a reply that a test chose, as the bytes they are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
from msgspec import Raw

from tests.support.dataplane.raw_node import Call, RawNode

Said = Callable[[str, bytes], bytes]
"""The members that answer a method with raw params, such as b'"result":5'."""


class SayingNode(RawNode):
    """Answers single calls and batches."""

    def __init__(self, said: Said, name: str = "a", head: int = 100) -> None:
        super().__init__()
        self.said = said
        self.name = name
        self.head = head
        self.script = self._say

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def _say(self, call: Call) -> None:
        if call.body.startswith(b"["):
            replies = [self._reply(item) for item in msgspec.json.decode(call.body, type=list[Raw])]
            call.reply(b"[%b]" % b",".join(replies))
        else:
            call.reply(self._reply(call.body))

    def _reply(self, text: bytes | Raw) -> bytes:
        members = msgspec.json.decode(text, type=dict[str, Raw])
        said = self.said(msgspec.json.decode(members["method"], type=str), bytes(members["params"]))
        return b'{"jsonrpc":"2.0","id":%b,%b}' % (members["id"], said)


@asynccontextmanager
async def all_saying(*saids: Said) -> AsyncIterator[list[Any]]:
    """Such nodes named node-0, node-1 and so on, while the block runs."""
    nodes = [SayingNode(said, name=f"node-{number}") for number, said in enumerate(saids)]
    async with AsyncExitStack() as started:
        for node in nodes:
            await node.start()
            started.push_async_callback(node.stop)
        yield nodes


@asynccontextmanager
async def saying(said: Said) -> AsyncIterator[Any]:
    """One such node while the block runs; where a simulated node is wanted, this one will do."""
    async with all_saying(said) as (node,):
        yield node
