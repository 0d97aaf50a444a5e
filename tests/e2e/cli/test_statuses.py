"""HTTP statuses of nodes, seen from outside: what is the operator's matter, the call's own fault, or the node's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from aiohttp import web

from rpcaccel.simnode.server.factories import harmony_chain
from rpcaccel.simnode.server.faults import plain
from tests.support.fixtures import shared
from tests.support.fleet import Fleet, GatedNode, fleet_of
from tests.support.running import Running, until

BLOCK = "hmyv2_getBlockByNumber"


class Gate(GatedNode):
    """A node behind something that answers with a status of its own: to everything, or to one method."""

    closed: int = 0
    closed_to: str = ""

    async def _serve(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        if self.closed and self.closed_to in ("", msgspec.json.decode(body)["method"]):
            self.counts.methods[f"closed {msgspec.json.decode(body)['method']}"] += 1
            return plain(self.closed, "by the gate\n")
        return await super()._serve(request, body)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def _gates() -> AsyncIterator[Fleet]:
    chain = harmony_chain(4000)
    async with fleet_of([Gate(chain, name=name) for name in ("one", "two", "three")]) as gates:
        yield gates


@shared
async def gates(_gates: Fleet) -> Fleet:
    """A program over three nodes behind gates, all of them open."""
    for gate in _gates.nodes:
        close(gate, 0)
    return await _gates.fresh()


def close(gate: GatedNode, status: int, to: str = "") -> None:
    assert isinstance(gate, Gate)
    gate.closed, gate.closed_to = status, to


async def ask(running: Running, blocks: range) -> list[Any]:
    return [await running.call(BLOCK, block, {}) for block in blocks]


@pytest.mark.parametrize("status", [401, 404])
async def test_a_wrong_key_or_url_shuts_the_node_out_with_the_reason_and_fails_no_call(
    gates: Fleet, status: int
) -> None:
    running, gate = gates.proxy, gates.nodes[0]
    close(gate, status)
    replies = await ask(running, range(1, 20))
    assert [reply.status for reply in replies] == [200] * 19
    await gates.look(gate)
    shut = await running.node_in("failing", gate.name)
    assert f"HTTP {status}, by the gate" in shut["why"]
    assert "look at its URL and its key" in shut["why"]
    asked = gate.counts.methods[f"closed {BLOCK}"]
    await ask(running, range(20, 30))
    assert gate.counts.methods[f"closed {BLOCK}"] == asked, "a node that is shut out is asked nothing"
    close(gate, 0)
    await gates.look(gate)
    fresh = count(50)

    async def asked_again() -> bool:
        (reply,) = await ask(running, range(number := next(fresh), number + 1))
        return bool(reply.headers["X-Rpcaccel-Node"] == gate.name)

    await until("it is asked again", asked_again)
    await running.node_in("serving", gate.name)


async def test_a_method_that_a_provider_refuses_shuts_the_node_for_nothing_else(gates: Fleet) -> None:
    running = gates.proxy
    for gate in gates.nodes:
        close(gate, 403, "debug_made_up")
    for _ in range(10):
        refused = await running.call("debug_made_up")
        assert (refused.status, refused.json["error"]["code"]) == (502, -32603)
    assert "does not let us in: HTTP 403" in refused.json["error"]["message"]
    replies = await ask(running, range(1, 31))
    assert [reply.status for reply in replies] == [200] * 30
    assert {reply.headers["X-Rpcaccel-Node"] for reply in replies} == {"one", "two", "three"}
    for gate in gates.nodes:
        await running.node_in("serving", gate.name)
