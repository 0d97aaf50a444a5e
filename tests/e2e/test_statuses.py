"""HTTP statuses of nodes, seen from outside: what is the operator's matter, the call's own fault, or the node's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from aiohttp import web

from rpcaccel.testing.factories import harmony_chain
from rpcaccel.testing.reply import plain
from rpcaccel.testing.simnode import SimNode
from tests.e2e.conftest import Serve
from tests.e2e.running import Running, until

pytestmark = pytest.mark.e2e
BLOCK = "hmyv2_getBlockByNumber"


class Gate(SimNode):
    """A node behind something that answers with a status of its own: to everything, or to one method."""

    closed: int = 0
    closed_to: str = ""

    async def _serve(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        if self.closed and self.closed_to in ("", msgspec.json.decode(body)["method"]):
            self.counts.methods[f"closed {msgspec.json.decode(body)['method']}"] += 1
            return plain(self.closed, "by the gate\n")
        return await super()._serve(request, body)


async def ask(running: Running, blocks: range) -> list[Any]:
    return [await running.call(BLOCK, block, {}) for block in blocks]


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_wrong_key_or_url_shuts_the_node_out_with_the_reason_and_fails_no_call(
    serve: Serve, status: int
) -> None:
    chain = harmony_chain(200)
    async with Gate(chain, name="gate") as gate, SimNode(chain, name="well") as well:
        running = await serve([gate, well])
        gate.closed = status
        replies = await ask(running, range(1, 20))
        assert [reply.status for reply in replies] == [200] * 19
        shut = await running.node_in("failing", "gate")
        assert f"HTTP {status}, by the gate" in shut["why"]
        assert "look at its URL and its key" in shut["why"]
        asked = gate.counts.methods[f"closed {BLOCK}"]
        assert asked <= 1, "one refusal is enough for that method"
        gate.closed = 0
        await running.node_in("serving", "gate")

        async def asked_again() -> bool:
            return any(reply.headers["X-Rpcaccel-Node"] == "gate" for reply in await ask(running, range(50, 60)))

        await until("it is asked again", asked_again)


async def test_a_method_that_a_provider_refuses_shuts_the_node_for_nothing_else(serve: Serve) -> None:
    async with Gate(harmony_chain(200), name="gate") as gate:
        gate.closed, gate.closed_to = 403, "debug_made_up"
        running = await serve([gate])
        for _ in range(10):
            refused = await running.call("debug_made_up")
            assert (refused.status, refused.json["error"]["code"]) == (502, -32603)
        assert "does not let us in: HTTP 403" in refused.json["error"]["message"]
        assert [reply.status for reply in await ask(running, range(1, 10))] == [200] * 9
        await running.node_in("serving", "gate")


@pytest.mark.parametrize("status", [400, 414, 431])
async def test_a_call_that_nodes_refuse_is_shown_to_two_and_shuts_none(serve: Serve, status: int) -> None:
    chain = harmony_chain(200)
    async with (
        Gate(chain, name="one") as one,
        Gate(chain, name="two") as two,
        Gate(chain, name="three") as three,
    ):
        gates = (one, two, three)
        for gate in gates:
            gate.closed, gate.closed_to = status, "hmyv2_getTransactionByHash"
        running = await serve(gates)
        for number in range(30):
            refused = await running.call("hmyv2_getTransactionByHash", f"0x{number:064x}")
            assert (refused.status, refused.json["error"]["code"]) == (400, -32600)
        assert f"does not take this call: HTTP {status}" in refused.json["error"]["message"]
        asked = sum(gate.counts.methods["closed hmyv2_getTransactionByHash"] for gate in gates)
        assert 30 <= asked <= 60, "one other node is asked, as far as the budget goes"
        for gate in gates:
            await running.node_in("serving", gate.name)
        assert [reply.status for reply in await ask(running, range(1, 20))] == [200] * 19
