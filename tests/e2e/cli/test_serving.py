"""`rpcaccel serve` over simulated Harmony nodes: the main job, as a client sees it."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from rpcaccel.simnode.chain.addresses import to_hex, to_one
from rpcaccel.simnode.server.factories import harmony_chain
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.fleet import Fleet
from tests.support.running import LOCAL, QUICK, Serve, until
from tests.support.services import Program

IDS = (b"7", b"1.50", b'"a\\u00e9"', b"-0", b"123456789012345678901234567890")
"""Ids that a parse and re-encode would spoil."""


def seeds_calls(node: SimNode) -> dict[str, list[Any]]:
    """The ten methods that the first users of this proxy call, with params that mean something on this chain."""
    made = node.chain.generator
    validator = to_one(made.validators[0])
    return {
        "hmyv2_blockNumber": [],
        "hmyv2_getBlockSigners": [90],
        "hmyv2_getBlocks": [80, 84, {"withSigners": True, "fullTx": True, "inclStaking": True}],
        "hmyv2_getBalanceByBlockNumber": [validator, 90],
        "hmyv2_getValidatorInformation": [validator],
        "hmyv2_call": [{"to": to_hex(made.contract), "data": "0x06fdde03"}, 90],
        "net_peerCount": [],
        "hmyv2_getNodeMetadata": [],
        "hmyv2_getCurrentTransactionErrorSink": [],
        "hmyv2_getCurrentUtilityMetrics": [],
    }


SHARED = (
    "hmyv2_getBlockSigners",
    "hmyv2_getBlocks",
    "hmyv2_getBalanceByBlockNumber",
    "hmyv2_getValidatorInformation",
    "hmyv2_call",
)


async def test_the_seeds_ten_methods_answer_what_a_node_answers(fleet: Fleet) -> None:
    for method, params in seeds_calls(fleet.nodes[0]).items():
        reply = await fleet.proxy.call(method, *params)
        assert reply.status == 200, (method, reply.body)
        truths = [await node.ask(method, *params) for node in fleet.nodes]
        assert reply.result in truths, method


async def test_a_second_call_asks_no_node_and_has_its_callers_own_id(fleet: Fleet) -> None:
    params = seeds_calls(fleet.nodes[0])
    for method in SHARED:
        first = await fleet.proxy.call(method, *params[method])
        assert (first.cache, fleet.asked(method)) == ("miss", 1), method
        for number in IDS:
            body = b'{"id":%b,"jsonrpc":"2.0","method":"%b","params":%b}'
            written = body % (number, method.encode(), _as_text(params[method]))
            again = await fleet.proxy.post(written)
            assert again.cache == "memory", method
            assert b'"id":%b,' % number in again.body
            assert again.result == first.result
        assert fleet.asked(method) == 1, method


@pytest.mark.smoke
async def test_a_batch_keeps_its_order_and_one_bad_item_spoils_no_other(fleet: Fleet) -> None:
    body = (
        b'[{"jsonrpc":"2.0","id":1,"method":"hmyv2_blockNumber"},'
        b'{"jsonrpc":"2.0","id":2,"method":"hmyv2_getBlockByNumber","params":[7,{}]},'
        b"17,"
        b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]},'
        b'{"jsonrpc":"2.0","method":"hmyv2_blockNumber"},'
        b'{"jsonrpc":"2.0","id":"x","method":"no_such"}]'
    )
    replies = (await fleet.proxy.post(body)).json
    assert [reply["id"] for reply in replies] == [1, 2, None, 1, "x"]
    assert replies[0]["result"] == fleet.head
    assert replies[1]["result"]["number"] == 7
    assert replies[2]["error"]["code"] == -32600
    assert replies[3]["result"] == hex(1666700000)
    assert replies[4]["error"]["code"] == -32601
    assert (await fleet.proxy.post(b"null")).error["code"] == -32600
    assert (await fleet.proxy.post(b"{")).error["code"] == -32700
    assert fleet.asked("hmyv2_getBlockByNumber") == 1


async def test_harmonys_own_paths_and_gzip_in_both_directions(fleet: Fleet) -> None:
    proxy, node = fleet.proxy, fleet.nodes[0]
    account = to_one(node.chain.generator.accounts[0])
    truth = await node.ask("hmyv2_getBalance", account)
    for path in ("/api/v1/hmy/v2", "/harmony-s0/api/v1/hmy/v2"):
        assert (await proxy.call("getBalance", account, path=path)).result == truth
    assert (await proxy.call("blockNumber", path="/api/v1/hmy/v1")).result == hex(fleet.head)
    assert (await proxy.call("blockNumber", path="/api/v1/eth")).result == hex(fleet.head)
    packed = gzip.compress(b'{"jsonrpc":"2.0","id":1,"method":"hmyv2_getBlocks","params":[1,9,{}]}')
    headers = {"Content-Encoding": "gzip", "Accept-Encoding": "gzip"}
    reply = await proxy.post(packed, **headers)
    assert reply.headers["Content-Encoding"] == "gzip"
    assert [block["number"] for block in reply.result] == list(range(1, 10))
    missed = await proxy.post(b"{}", "/nowhere")
    assert missed.status == 404
    assert b"/harmony-s0" in missed.body


async def test_a_lagging_node_is_not_asked_about_a_block_above_its_head(fleet: Fleet) -> None:
    fleet.nodes[2].knobs.stall = True
    head = fleet.nodes[0].chain.advance(5)
    await fleet.look()
    calls = [("hmyv2_getBlockByNumber", [number, {}]) for number in range(head - 50, head + 1)]
    replies = await fleet.proxy.load(calls)
    assert all(reply.result["number"] for reply in replies)
    newest = [reply.node for reply in replies if reply.result["number"] > head - 5]
    assert len(newest) == 5
    assert "node-2" not in newest
    assert "node-2" in {reply.node for reply in replies}
    told = await fleet.proxy.node_in("behind", "node-2")
    assert told["lag"] == 5
    assert "5 blocks behind" in told["why"]


async def test_the_head_moves_for_clients_and_head_answers_turn_over_with_it(fleet: Fleet) -> None:
    proxy, node, head = fleet.proxy, fleet.nodes[0], fleet.head
    account = to_one(node.chain.generator.accounts[0])
    before = await proxy.call("hmyv2_getBalance", account)
    assert (await proxy.call("hmyv2_getBalance", account)).cache == "memory"

    async def moved() -> bool:
        return bool((await proxy.call("hmyv2_blockNumber")).result == head + 3)

    node.chain.advance(3)
    await until("the new head", moved)
    after = await proxy.call("hmyv2_getBalance", account)
    assert [reply.headers["X-Rpcaccel-Block"] for reply in (before, after)] == [str(head), str(head + 3)]
    assert after.cache == "miss"
    assert after.result == await node.ask("hmyv2_getBalanceByBlockNumber", account, head + 3)


async def test_it_starts_while_no_node_answers_and_serves_once_one_does(serve: Serve) -> None:
    node = SimNode(harmony_chain(200), name="late")
    await node.start()
    await node.stop()  # keeps its port
    proxy = await serve([node], ready=False, env=QUICK)
    assert "no node has said within 3 s what it serves" in proxy.program.output
    refused = await proxy.get(f"{proxy.url}/readyz")
    assert refused.status == 503
    assert b"harmony-s0" in refused.body
    assert (await proxy.get(f"{proxy.url}/healthz")).status == 200
    await asyncio.to_thread(proxy.program.wait_for, "no connection.*node=late")
    failed = await proxy.call("hmyv2_getBlockByNumber", 7, {})
    assert (failed.status, failed.error["code"]) == (502, -32603)
    assert "connection refused" in failed.error["message"]
    async with node:
        await proxy.ready()
        assert (await proxy.call("hmyv2_getBlockByNumber", 7, {})).result["number"] == 7
        assert (await proxy.call("hmyv2_blockNumber")).result == 200
        await asyncio.to_thread(proxy.program.wait_for, "answers.*node=late")
    assert "Traceback" not in proxy.program.output


def _as_text(value: Any) -> bytes:
    return json.dumps(value).encode()


JSON_LOGS = {"RPCACCEL_LOG__FORMAT": "json"}


async def test_with_json_logs_every_line_of_the_start_and_of_the_end_is_json(
    fleet: Fleet, new_program: Callable[..., Program]
) -> None:
    program = new_program("serve", f"{fleet.nodes[0].url},id=a", *LOCAL, env=JSON_LOGS)
    await asyncio.to_thread(program.wait_for, r'"page": "http://[^"]+/"')
    assert await asyncio.to_thread(program.stop) == 0
    events = [json.loads(line)["event"] for line in program.output.splitlines()]
    assert events.count("rpcaccel serves") == 1


async def test_with_json_logs_a_start_that_fails_says_so_in_json(
    fleet: Fleet, new_program: Callable[..., Program]
) -> None:
    listen = fleet.proxy.url.removeprefix("http://")
    program = new_program("serve", "http://127.0.0.1:1", "--listen", listen, "--admin", "127.0.0.1:0", env=JSON_LOGS)
    assert await asyncio.to_thread(program.wait) == 1
    note, *_, fault = map(json.loads, program.output.splitlines())
    assert (note["level"], "no node has said" in note["event"]) == ("warning", True)
    assert (fault["level"], fault["event"].startswith(f"listen: cannot listen on {listen}")) == ("error", True)
