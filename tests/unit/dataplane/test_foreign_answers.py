"""Whatever a node answers, over real sockets: the bytes of an answer reach the client as they are, and what is no
answer spoils nothing beside it."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcaccel import chains
from rpcaccel.core.replies.answer import error_parts
from rpcaccel.core.replies.error_rules import classify
from rpcaccel.core.replies.failure import policy
from rpcaccel.core.wire.json_text import items, members
from tests.support.dataplane.saying import SayingNode, saying
from tests.support.nesting import refused
from tests.support.proxy import Proxy, proxying

DEEP = b'{"type":"CALL","calls":[' * 1_025 + b"]}" * 1_025
"""The trace of a transaction with as many nested calls as the EVM allows."""
DEEPER = b"[" * 20_000 + b"]" * 20_000
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


@refused(9_000)
async def test_a_client_that_nests_too_deeply_harms_no_other_call_of_its_batch() -> None:
    deep = b"[" * 9_000 + b"]" * 9_000
    async with saying(answers) as node, proxying([node]) as proxy:
        found = await batch(proxy, call("eth_call", deep, 1), call("hmyv2_getBalance", b'["one1"]', 2))
        assert msgspec.json.decode(found[0]["error"])["message"] == "invalid request: nested too deeply"
        assert (found[0]["id"], found[1]["id"], found[1]["result"][:1]) == (b"1", b"2", b'"')
        alone = await proxy.post(call("eth_call", deep, 1))
        assert (alone.status, alone.json["id"], alone.error["code"]) == (200, 1, -32600)


def bounded(node: SayingNode) -> AbstractAsyncContextManager[Proxy]:
    """A proxy that takes no answer of more than 1 MiB."""
    return proxying([node], net={"nodes": [{"id": node.name, "url": node.url, "max_answer": "1MiB"}]})  # type: ignore[list-item]


async def test_an_answer_that_is_too_long_is_refused_in_words_and_harms_no_other() -> None:
    def said(method: str, _params: bytes) -> bytes:
        return b'"result":"%b"' % (b"x" * (2 << 20 if method == "debug_traceTransaction" else 5))

    async with saying(said) as node, bounded(node) as proxy:
        calls = [call("debug_traceTransaction", b"[1]"), call("hmyv2_getBalance", b'["one1"]', 2)]
        trace, balance = await batch(proxy, *calls)
        assert balance["result"] == b'"xxxxx"'
        message = "the node's answer is longer than 1MiB: it was cut off"
        assert json.loads(trace["error"]) == {"code": -32603, "message": message}
        for _ in range(10):
            reply = await proxy.post(calls[0])
            assert (reply.status, reply.error["message"]) == (502, message)
        (asked,) = proxy.worker.state.networks["harmony-s0"].pool.nodes
        assert repr(asked.breaker) == "<breaker closed>"


# -- error objects -----------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def error_objects(draw: st.DrawFn) -> bytes:
    """An error object as any node might write it: any code, members in any order, with any spacing and spelling."""
    escaped, space = draw(st.booleans()), draw(st.sampled_from(["", " ", "\n\t"]))

    def text(value: object) -> str:
        return json.dumps(value, ensure_ascii=escaped)

    code = draw(st.integers(-40_000, 5) | st.sampled_from([-38020, -32602, -32005, 3, 4444]))
    members = [("code", str(code))]
    members += [("message", text(draw(texts | st.sampled_from(["execution reverted", "nonce too low"]))))]
    number = st.sampled_from(["1.50", "9" * 40, "-0", "1e400", "{ }", "[1 ,2]", r'"\u0041\/"'])
    members += [("data", draw(anything.map(text) | number)) for _ in range(draw(st.integers(0, 1)))]
    members += [(draw(texts) + "x", draw(number)) for _ in range(draw(st.integers(0, 2)))]
    said = [f"{text(name)}{space}:{space}{value}" for name, value in draw(st.permutations(members))]
    return f"{{{space}{f'{space},'.join(said)}{space}}}".encode()


async def as_they_come(errors: list[bytes], **network: object) -> tuple[list[bytes], list[bytes]]:
    """What a client gets for calls that a node answers with these errors: each call alone, and all in one batch."""

    def said(_method: str, params: bytes) -> bytes:
        return b'"error":%b' % errors[msgspec.json.decode(params)[0]]

    calls = [call(f"debug_{place}", b"[%d]" % place) for place in range(len(errors))]
    async with saying(said) as node, proxying([node], net=network) as proxy:
        alone = [bytes(members((await proxy.post(one)).body)["error"]) for one in calls]
        together = [found["error"] for found in await batch(proxy, *calls)]
    return alone, together


def passes(error: bytes) -> bool:
    """Is it for the client? That a node limits our rate is not."""
    kind = classify(chains.load("harmony").errors, *error_parts(error)).kind
    return policy(kind).client == "pass-through"


@settings(max_examples=10)
@given(st.lists(error_objects().filter(passes), min_size=5, max_size=30))
async def test_an_error_object_reaches_the_client_byte_for_byte(errors: list[bytes]) -> None:
    assert await as_they_come(errors) == (errors, errors)


async def test_codes_are_made_uniform_only_where_the_operator_wants_that() -> None:
    own = [b'{"code":-38020,"message":"x" }', b'{"code":-32000,"message":"y" }', b'{"code":3,"message":"z" }']
    assert await as_they_come(own) == (own, own)
    uniform = [b'{"code":-32602,"message":"x"}', *own[1:]]
    assert await as_they_come(own, uniform_error_codes=True) == (uniform, uniform)
