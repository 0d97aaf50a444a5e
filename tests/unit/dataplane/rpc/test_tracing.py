"""Traces: what a span says, where a trace comes from and goes to, and that nothing is loaded when nobody asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import structlog
from aiohttp import web

from rpcaccel.core.wire.traceparent import TraceParent, read
from rpcaccel.dataplane.rpc.tracing import LAST_SPANS_THREAD
from rpcaccel.simnode.chain.knobs import Latency
from rpcaccel.simnode.server.factories import harmony_chain, harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.proxy import proxying
from tests.support.receiver import Receiver, receiving
from tests.support.services import free_port

BLOCK = "hmyv2_getBlockByNumber"
GIVEN = TraceParent(trace=0xABC, span=0xDEF)


class Told(SimNode):
    """A node that notes what it is told of traces."""

    parents: list[str]

    async def _serve(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        self.parents.append(request.headers.get("traceparent", ""))
        return await super()._serve(request, body)


@pytest.fixture
async def node() -> AsyncIterator[Told]:
    async with Told(harmony_chain(200), name="node-0") as node:
        node.parents = []
        yield node


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


def traced(receiver: Receiver, **more: Any) -> dict[str, Any]:
    return {"endpoint": receiver.url, "sample": 1.0, **more}


async def test_a_miss_is_a_span_with_its_attempt_and_a_hit_one_without(node: Told, receiver: Receiver) -> None:
    async with proxying([node], tracing=traced(receiver, service="edge")) as proxy:
        await proxy.call(BLOCK, 26, {})
        await proxy.call(BLOCK, 26, {})
    miss, hit = receiver.named(BLOCK)
    (attempt,) = receiver.named(BLOCK, "CLIENT")
    assert miss.service["service.name"] == "edge"
    assert {name: miss.told[name] for name in ("rpc.system", "rpc.method", "rpcaccel.network", "rpcaccel.node")} == {
        "rpc.system": "jsonrpc",
        "rpc.method": BLOCK,
        "rpcaccel.network": "harmony-s0",
        "rpcaccel.node": "node-0",
    }
    assert (miss.told["rpcaccel.source"], miss.told["rpcaccel.attempts"]) == ("node", 1)
    assert (hit.told["rpcaccel.source"], hit.told["rpcaccel.attempts"]) == ("memory", 0)
    assert (attempt.trace, attempt.parent) == (miss.trace, miss.id)
    assert (attempt.told["rpcaccel.node"], attempt.told["rpcaccel.attempt"], attempt.failed) == ("node-0", 1, False)
    assert 0 < attempt.seconds <= miss.seconds
    assert hit.trace != miss.trace
    assert (miss.parent, hit.parent) == ("", "")
    assert node.parents == [str(TraceParent(int(attempt.trace, 16), int(attempt.id, 16)))]


async def test_a_clients_trace_is_taken_up_whatever_the_share(node: Told, receiver: Receiver) -> None:
    async with proxying([node], tracing=traced(receiver, sample=0.0)) as proxy:
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": BLOCK, "params": [26, {}]})
        await proxy.post(body)
        await proxy.post(body, traceparent=str(GIVEN))
        await proxy.post(body.replace(b"26", b"27"), traceparent=str(TraceParent(1, 2, sampled=False)))
        await proxy.post(body.replace(b"26", b"28"), traceparent="nonsense")
        await proxy.post(body.replace(b"26", b"29"), traceparent=str(GIVEN))
    hit, miss = receiver.named(BLOCK)
    assert (int(hit.trace, 16), int(hit.parent, 16)) == (GIVEN.trace, GIVEN.span)
    assert len(receiver.spans) == 3
    told = [read(text) for text in node.parents]
    assert told[:3] == [None, None, None]
    assert told[3] is not None
    assert (told[3].trace, miss.trace) == (GIVEN.trace, f"{GIVEN.trace:032x}")


async def test_each_call_of_a_batch_has_a_span_and_each_its_own_attempt(node: Told, receiver: Receiver) -> None:
    async with proxying([node], tracing=traced(receiver)) as proxy:
        await proxy.call(BLOCK, 1, {})
        calls = [{"jsonrpc": "2.0", "id": id, "method": BLOCK, "params": [id, {}]} for id in (1, 1, 2, 3)]
        await proxy.post(orjson.dumps(calls), traceparent=str(GIVEN))
    of_batch = [span for span in receiver.named(BLOCK) if int(span.trace, 16) == GIVEN.trace]
    assert sorted(span.told["rpcaccel.source"] for span in of_batch) == ["memory", "memory", "node", "node"]
    assert len({span.id for span in of_batch}) == 4
    assert {int(span.parent, 16) for span in of_batch} == {GIVEN.span}
    asked = {span.id for span in of_batch if span.told["rpcaccel.source"] == "node"}
    attempts = [span for span in receiver.named(BLOCK, "CLIENT") if int(span.trace, 16) == GIVEN.trace]
    assert {span.parent for span in attempts} == asked
    assert {str(read(parent)) for parent in node.parents[1:]} == {
        str(TraceParent(GIVEN.trace, int(span.id, 16))) for span in attempts
    }


async def test_a_traced_call_reaches_a_busy_node_with_its_header(node: Told, receiver: Receiver) -> None:
    node.knobs.latency = Latency(0.05)
    async with proxying([node], tracing=traced(receiver, sample=0.0)) as proxy:
        calls = [{"jsonrpc": "2.0", "id": id, "method": BLOCK, "params": [id, {}]} for id in range(40)]
        await asyncio.gather(
            *(proxy.post(orjson.dumps(call), traceparent=str(GIVEN)) for call in calls[:10]),
            proxy.post(orjson.dumps(calls[10:])),
        )
    told = [parent for parent in node.parents if parent]
    assert {span.id for span in receiver.named(BLOCK, "CLIENT")} == {text.split("-")[2] for text in told}
    assert len(told) == 10
    assert 0 < len(node.parents) - len(told) < 30, "the others were gathered"


async def test_attempts_that_fail_and_a_method_nobody_has_are_errors(receiver: Receiver) -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes, tracing=traced(receiver)) as proxy:
        await nodes[0].kill()
        for number in range(1, 5):
            assert (await proxy.call(BLOCK, number, {})).status == 200
        await proxy.call("evil\n{}" + "x" * 100)
    failed = [span for span in receiver.named(BLOCK, "CLIENT") if span.failed]
    assert {span.told["rpcaccel.node"] for span in failed} == {nodes[0].name}
    assert failed[0].told["error.type"] in {"connect", "reset-before-reply", "broken-reply"}
    (twice,) = [span for span in receiver.named(BLOCK) if span.id == failed[0].parent]
    assert (twice.told["rpcaccel.attempts"], twice.failed) == (2, False)
    (evil,) = [span for span in receiver.spans if span.kind == "SERVER" and span.failed]
    assert (evil.told["error.type"], evil.name[:9], len(evil.name) < 80) == ("-32601", "evil\\n{}x", True)


async def test_an_attempt_that_nobody_waits_for_any_more_is_cancelled_and_no_error(
    node: Told, receiver: Receiver
) -> None:
    async with proxying([node], tracing=traced(receiver)) as proxy:
        node.knobs.turn({"latency": "30s"})
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "hmyv2_getNodeMetadata", "params": []})
        await proxy.post(body, X_Rpcaccel_Timeout="300ms")
    (call,) = receiver.named("hmyv2_getNodeMetadata")
    (attempt,) = receiver.named("hmyv2_getNodeMetadata", "CLIENT")
    assert (call.failed, attempt.failed, attempt.told["rpcaccel.cancelled"]) == (True, False, True)


async def test_a_line_of_the_log_names_the_trace(node: Told, receiver: Receiver) -> None:
    with structlog.testing.capture_logs() as lines:
        async with proxying([node], tracing=traced(receiver), log={"access": True}) as proxy:
            await proxy.call(BLOCK, 26, {})
    (span,) = receiver.named(BLOCK)
    assert [line["trace"] for line in lines] == [span.trace]


async def test_it_is_switched_on_and_off_while_it_serves(node: Told, receiver: Receiver) -> None:
    async with proxying([node]) as proxy:
        settings = proxy.worker._settings
        off = settings.tracing
        on = off.model_copy(update=traced(receiver, endpoint=f"{receiver.url}/v1/traces"))
        for revision, wanted in enumerate((on, on, off), 2):
            proxy.worker.adopt(settings.model_copy(update={"tracing": wanted}), revision)
            await proxy.call(BLOCK, revision, {})
        async with asyncio.timeout(20):
            while len(receiver.spans) < 4:
                await asyncio.sleep(0.01)
        await proxy.call(BLOCK, 4, {})
        told = len(node.parents)
        await proxy.call(BLOCK, 5, {})  # on the connection whose last traced request is over
        assert node.parents[told:] == [""]
    assert len(receiver.named(BLOCK)) == 2
    assert len(receiver.named(BLOCK, "CLIENT")) == 2


async def test_a_receiver_that_is_not_there_harms_nobody_and_is_not_tried_for_long(node: Told) -> None:
    nowhere = {"endpoint": f"http://127.0.0.1:{free_port()}", "sample": 1.0}
    async with proxying([node], tracing=nowhere) as proxy:
        for number in range(1, 20):
            assert (await proxy.call(BLOCK, number, {})).status == 200
    for thread in threading.enumerate():
        if thread.name == LAST_SPANS_THREAD:
            await asyncio.to_thread(thread.join, 20)
            assert not thread.is_alive()
