"""The access log: what a line says, what makes one slow, and that nothing is loaded when nobody asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
import structlog
from structlog.testing import CapturingLogger

from rpcaccel.config.sections import LogSettings
from rpcaccel.core import client_limits
from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import UNKNOWN_RULE, CacheClass
from rpcaccel.core.stats.counters import AnswerSource, Step
from rpcaccel.dataplane.rpc.access_log import AccessLog, access_log
from rpcaccel.dataplane.rpc.admission import NOBODY
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.fleet import gated_nodes
from tests.support.proxy import proxying

KEY = client_limits.make(bytes(32))
CALL = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_getBlockByNumber", "params": [26, {}]}
Lines = list[dict[str, Any]]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """What is written, as fields."""
    with structlog.testing.capture_logs() as written:
        yield written  # type: ignore[misc]


def test_nobody_asked_for_lines() -> None:
    assert access_log(LogSettings()) is None
    assert access_log(LogSettings(access=True)) is not None
    assert access_log(LogSettings(slow=0.5)) is not None


async def test_a_line_says_whose_call_it_was_and_where_the_answer_came_from(lines: Lines) -> None:
    clients = {"keys": {"dapp": {"hashes": [client_limits.hashed(KEY)]}}}
    async with harmony_nodes(1) as nodes, proxying(nodes, log={"access": True}, clients=clients) as proxy:
        reply = await proxy.post(orjson.dumps(CALL), f"/key/{KEY}", X_Request_Id="abc-1")
        assert reply.headers["X-Request-ID"] == "abc-1"
        (line,) = lines
        assert {name: line[name] for name in ("event", "log_level", "request", "client", "address", "network")} == {
            "event": "call",
            "log_level": "info",
            "request": "abc-1",
            "client": "dapp",
            "address": "127.0.0.1",
            "network": "harmony-s0",
        }
        assert (line["method"], line["source"], line["node"], line["attempts"]) == (CALL["method"], "node", "node-0", 1)
        assert line["bytes"] == len(orjson.dumps(reply.json["result"]))
        assert line["ms"] > 0
        assert KEY not in str(lines)


async def test_each_call_of_a_batch_has_a_line_under_one_name(lines: Lines) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, log={"access": True}) as proxy:
        bad = {"jsonrpc": "2.0", "id": 3, "method": "evil\n{}\x1b[31m" + "x" * 100}
        reply = await proxy.post(orjson.dumps([CALL, CALL, bad]), X_Request_Id="no good")
        assert len(lines) == 3
        assert {line["request"] for line in lines} == {reply.headers["X-Request-ID"]}
        assert len(reply.headers["X-Request-ID"]) == 16
        (failed,) = [line for line in lines if "error" in line]
        assert failed["error"] == -32601
        assert failed["fault"] == "client"
        assert failed["error_text"].isprintable()
        assert "evil {}" in failed["error_text"]
        assert len(failed["error_text"]) <= 200
        assert failed["method"].startswith("evil\\n{}\\x1b[31mx")
        assert len(failed["method"]) < 80


async def test_each_hit_of_a_batch_has_a_line(lines: Lines) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, log={"access": True}) as proxy:
        for _ in range(3):
            await proxy.post(orjson.dumps([CALL]))
        assert [line["source"] for line in lines] == ["node", "memory", "memory"]
        assert lines[2]["bytes"] == lines[0]["bytes"] > 0


async def test_a_share_of_the_requests_has_lines_all_of_their_calls_or_none(lines: Lines) -> None:
    settings = {"access": True, "access_share": 0.5}
    async with harmony_nodes(1) as nodes, proxying(nodes, log=settings) as proxy:
        for _ in range(200):
            await proxy.post(orjson.dumps([CALL, CALL]))
    assert 100 < len(lines) < 300
    requests = [line["request"] for line in lines]
    assert {requests.count(name) for name in requests} == {2}


async def test_only_slow_calls_have_lines_when_only_those_are_wanted(lines: Lines) -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, log={"slow": "40ms"}) as proxy:
        await proxy.call("eth_chainId")
        assert lines == []
        nodes[0].knobs.turn({"latency": "60ms"})
        await proxy.call("hmyv2_getBlockByNumber", 26, {})
        (line,) = lines
        assert (line["event"], line["log_level"]) == ("slow call", "warning")
        assert line["reason"].startswith("node node-0 answered after 0.")


def test_a_slow_call_is_written_once() -> None:
    written = CapturingLogger()
    structlog.configure(wrapper_class=structlog.BoundLogger, processors=[], logger_factory=lambda *_: written)
    log = AccessLog(LogSettings(access=True, slow=0.1))
    plan = Plan(network="s0", method="m", rule=UNKNOWN_RULE, params=b"[]", asked=b"[]", cache=CacheClass.NEVER)
    log.answered(NOBODY, plan, Outcome(source=AnswerSource.NODE, result=b"1", steps=((Step.FORWARD, 0.2),)), 0.2)
    assert [call.method_name for call in written.calls] == ["warning"]


async def test_a_call_that_came_before_the_log_was_on_has_no_name_of_another(lines: Lines) -> None:
    async with gated_nodes() as nodes, proxying(nodes, log={"access": True}) as proxy:
        await proxy.post(orjson.dumps(CALL), X_Request_Id="the-first")
        settings = proxy.worker._settings
        proxy.worker.adopt(settings.model_copy(update={"log": LogSettings()}), 2)
        nodes[0].hold("hmyv2_getBlockByNumber")
        late = asyncio.create_task(proxy.call("hmyv2_getBlockByNumber", 27, {}))
        await nodes[0].arrived.wait()
        proxy.worker.adopt(settings, 3)
        nodes[0].release()
        await late
    first, other = lines
    assert first["request"] == "the-first"
    assert "request" not in other
