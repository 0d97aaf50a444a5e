"""Whatever a node answers, over real sockets: the bytes of an answer reach the client as they are, and what is no
answer spoils nothing beside it."""

from __future__ import annotations

import msgspec
import pytest

from rpcaccel.core.jsontext import items, members
from tests.dataplane.saying import saying
from tests.proxy import Proxy, proxying

DEEP = b'{"type":"CALL","calls":[' * 1_025 + b"]}" * 1_025
"""The trace of a transaction with as many nested calls as the EVM allows."""
DEEPER = b"[" * 100_000 + b"]" * 100_000
DEEP_REPLY = b'{"jsonrpc":"2.0","id":1,"result":{"calls":%b}}' % DEEP
NOT_UTF8 = b'"\xff"'


def call(method: str, params: bytes = b"[]", id: int = 1) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (id, method.encode(), params)


def same(one: bytes, other: bytes) -> bool:
    """Compared here, since pytest would read the two to explain how they differ, and they nest too deeply for it."""
    return one == other


async def batch(proxy: Proxy, *calls: bytes) -> list[dict[str, bytes]]:
    """The members of each reply, raw, in order."""
    reply = await proxy.post(b"[%b]" % b",".join(calls))
    assert reply.status == 200
    return [{name: bytes(text) for name, text in members(item).items()} for item in items(reply.body)]


def answers(method: str, params: bytes) -> bytes:
    """Deep traces, a block whose text is not UTF-8, and balances."""
    if method == "debug_traceTransaction":
        return b'"result":' + (DEEPER if b"0x2" in params else DEEP)
    if method in ("hmyv2_getBlockByNumber", "hmyv2_getTransactionByHash"):
        return b'"result":{"hash":%b}' % NOT_UTF8 if b"7" in params else b'"result":{"calls":%b}' % DEEP
    if method == "eth_call":
        return b'"error":{"code":3,"message":"execution reverted","data":%b}' % DEEP
    return b'"result":"%b"' % params.hex().encode()


@pytest.mark.parametrize(("params", "result"), [(b'["0x1"]', DEEP), (b'["0x2"]', DEEPER)])
async def test_a_deep_trace_reaches_the_client_byte_for_byte(params: bytes, result: bytes) -> None:
    async with saying(answers) as node, proxying([node]) as proxy:
        reply = await proxy.post(call("debug_traceTransaction", params))
        assert reply.status == 200
        assert same(reply.body, b'{"jsonrpc":"2.0","id":1,"result":%b}' % result)
        found = await batch(proxy, call("debug_traceTransaction", params), call("hmyv2_getBalance", b'["one1"]', 2))
        assert same(found[0]["result"], result)
        assert found[1]["result"].startswith(b'"')


async def test_a_deep_block_is_an_answer_like_others_and_kept_like_them() -> None:
    async with saying(answers) as node, proxying([node]) as proxy:
        replies = [await proxy.post(call("hmyv2_getBlockByNumber", b"[26,{}]")) for _ in range(2)]
        assert all(same(reply.body, DEEP_REPLY) for reply in replies)
        assert [reply.cache for reply in replies] == ["miss", "memory"]


async def test_an_error_with_deep_data_is_classed_and_passed_on() -> None:
    async with saying(answers) as node, proxying([node]) as proxy:
        reply = await proxy.post(call("eth_call", b'[{"to":"0x1"},"0x1"]'))
        error = b'{"code":3,"message":"execution reverted","data":%b}' % DEEP
        assert same(reply.body, b'{"jsonrpc":"2.0","id":1,"error":%b}' % error)
        assert len(node.calls) == 1


async def test_a_result_that_is_not_utf8_is_the_failure_of_that_call_and_not_kept() -> None:
    async with saying(answers) as node, proxying([node]) as proxy:
        wrong, right = call("hmyv2_getBlockByNumber", b"[7,{}]"), call("hmyv2_getBlockByNumber", b"[26,{}]", 2)
        for _ in range(2):
            found = await batch(proxy, wrong, right)
            said = msgspec.json.decode(found[0]["error"])
            assert said == {"code": -32603, "message": "the node did not answer in JSON-RPC: text that is not UTF-8"}
            assert same(found[1]["result"], b'{"calls":%b}' % DEEP)
        assert sum(b"[7,{}]" in asked.body for asked in node.calls) >= 2


async def test_a_client_that_nests_too_deeply_harms_no_other_call_of_its_batch() -> None:
    deep = b"[" * 3_000 + b"]" * 3_000
    async with saying(answers) as node, proxying([node]) as proxy:
        found = await batch(proxy, call("eth_call", deep, 1), call("hmyv2_getBalance", b'["one1"]', 2))
        assert msgspec.json.decode(found[0]["error"])["message"] == "invalid request: nested too deeply"
        assert (found[0]["id"], found[1]["id"], found[1]["result"][:1]) == (b"1", b"2", b'"')
        alone = await proxy.post(call("eth_call", deep, 1))
        assert (alone.status, alone.json["id"], alone.error["code"]) == (200, 1, -32600)
