"""WebSockets of nodes for tests, without a network: they do what the test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping

import msgspec

from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind


class ScriptedSocket:
    """A WebSocket whose node answers with `facts` (by method; a function is given the params) and pushes what `push` is
    given."""

    def __init__(self, facts: Mapping[str, object] | None = None, *, refusal: str = "", mute: str = "") -> None:
        """`refusal`: why it cannot be opened; `mute`: why it cannot be subscribed to."""
        self.facts = dict(facts or {})
        self.refusal, self.mute = refusal, mute
        self.heard: Callable[[bytes], None] | None = None
        self.closed = 0
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def open(self) -> str:
        return self.refusal

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        if method not in self.facts:
            return Failure(FailureKind.TIMEOUT, f"does not answer {method} within {timeout:g} s")
        fact = self.facts[method]
        return Answer(result=msgspec.json.encode(fact(json.loads(params)) if callable(fact) else fact))

    async def follow(self, namespace: str, kind: str, heard: Callable[[bytes], None]) -> str:
        if not self.mute:
            self.heard = heard
        return self.mute

    async def ended(self) -> str:
        return await asyncio.shield(self._over)

    async def close(self) -> None:
        self.closed += 1
        self.heard = None

    def push(self, number: int, own: str, parent: str) -> None:
        """Announce a block with this hash and this parent."""
        assert self.heard is not None
        self.heard(json.dumps({"number": hex(number), "hash": own, "parentHash": parent}).encode())

    def end(self, why: str = "broke off") -> None:
        """End the connection."""
        self._over.set_result(why)


def closed_door(_node: object, _address: str) -> ScriptedSocket:
    """A WebSocket that nobody listens for."""
    return ScriptedSocket(refusal="cannot be connected to: connection refused")
