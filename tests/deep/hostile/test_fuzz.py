"""Whatever bytes a client sends, in whatever pieces: no exception escapes, nothing hangs or grows, and every request
that is well-formed gets exactly one answer. `fuzz_jsonrpc.py` and `fuzz_front.py` go on from here with atheris."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import resource
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpcaccel.core.wire import jsonrpc
from rpcaccel.core.wire.jsonrpc import Call, Invalid
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.deep.hostile import fuzz_front
from tests.deep.hostile.fuzz_jsonrpc import check
from tests.support.dataplane.conversation import HEAD, Conversation, Left
from tests.support.properties import examples
from tests.support.proxy import Proxy, proxying
from tests.support.waiting import until

METHODS = ["eth_chainId", "hmyv2_getBlockByNumber", "hmyv2_blockNumber", "made_up", "", "\x00", "é" * 40]
FINITE = st.floats(allow_nan=False, allow_infinity=False)  # JSON has no others
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | FINITE | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
IDS = st.none() | st.integers(-(2**70), 2**70) | st.text(max_size=20) | FINITE
CALLS = st.fixed_dictionaries(
    {"method": st.sampled_from(METHODS) | st.text(max_size=20)},
    optional={"jsonrpc": st.sampled_from(["2.0", "1.0", None, 2]), "id": IDS | JSON, "params": JSON, "x": JSON},
)
GOOD = st.fixed_dictionaries(
    {
        "jsonrpc": st.just("2.0"),
        "id": st.integers(0, 2**60) | st.text(min_size=1, max_size=12),
        "method": st.sampled_from(["eth_chainId", "hmyv2_getBlockByNumber", "hmyv2_getBalance"]),
        "params": st.lists(st.integers(0, 150) | st.text(max_size=5) | st.just({}), max_size=3),
    }
)


def spoilt(draw: st.DrawFn, data: bytes) -> bytes:
    """The same bytes with a few of them changed, cut out or doubled."""
    text = bytearray(data)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, len(text) - 1)))
        what = draw(st.sampled_from(["set", "cut", "double", "put"]))
        if what == "set" and text:
            text[at] = draw(st.integers(0, 255))
        elif what == "cut":
            del text[at : at + draw(st.integers(1, 8))]
        elif what == "double":
            text[at:at] = text[at : at + draw(st.integers(1, 40))]
        else:
            text[at:at] = draw(
                st.sampled_from([b"\r\n", b"\n", b"\0", b"{", b"[", b'"', b"Content-Length: 3\r\n", b"\xff"])
            )
    return bytes(text)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(["call", "batch", "json", "bytes", "deep", "spoilt"]))
    if kind == "call":
        return json.dumps(draw(CALLS)).encode()
    if kind == "batch":
        return json.dumps(draw(st.lists(CALLS | JSON, max_size=6))).encode()
    if kind == "json":
        return json.dumps(draw(JSON)).encode()
    if kind == "deep":
        return draw(st.sampled_from([b"[", b'{"a":'])) * draw(st.integers(1, 3000))
    if kind == "spoilt":
        return spoilt(draw, json.dumps(draw(CALLS)).encode())
    return draw(st.binary(max_size=200))


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """What a connection might carry: requests, good and bad, one after another."""
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        body = draw(bodies())
        framing = draw(st.sampled_from(["length", "length", "chunked", "wrong", "gzip"]))
        if framing == "gzip":
            body = gzip.compress(body)
        head = draw(st.sampled_from([HEAD, HEAD.replace(b"1.1", b"1.0"), HEAD.replace(b"POST", b"PUT")]))
        if framing == "chunked":
            head += b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body)
            parts.append(head + body + b"\r\n0\r\n\r\n")
            continue
        size = draw(st.integers(-5, 300)) if framing == "wrong" else len(body)
        extra = b"Content-Encoding: gzip\r\n" if framing == "gzip" else b""
        parts.append(head + extra + b"Content-Length: %d\r\n\r\n" % size + body)
    return spoilt(draw, b"".join(parts)) if draw(st.booleans()) else b"".join(parts)


@given(bodies())
@settings(max_examples=examples(300))
def test_the_decoder_takes_anything(body: bytes) -> None:
    check(body)


@st.composite
def heads(draw: st.DrawFn) -> bytes:
    """Heads as clients send them, some of them spoilt."""
    names = st.sampled_from(["X-Key", "Origin", "Accept", "Connection", "Content-Length", "TE", "Upgrade", "x-é"])
    values = st.sampled_from(["1", "keep-alive", "close", " a b ", "é", "", "h2c", "\t"]) | st.text(max_size=8)
    lines = draw(st.lists(st.tuples(names, values), max_size=4))
    path = draw(st.sampled_from(["/", "/harmony-s0", "/a;b=c", "//x", "/[", "/:80", "/?a"]))
    text = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {draw(st.integers(0, 99))}\r\n"
    text += "".join(f"{name}: {value}\r\n" for name, value in lines)
    return spoilt(draw, text.encode()) + b"\r\n"


@given(heads())
@settings(max_examples=examples(500))
def test_what_the_short_lane_reads_the_complete_server_reads_alike(head: bytes) -> None:
    fuzz_front.check(head)


@given(CALLS.filter(lambda one: one["method"]), st.booleans())
def test_a_call_keeps_its_method_and_its_id_to_the_letter(one: dict[str, Any], batched: bool) -> None:
    text = json.dumps([one] if batched else one).encode()
    decoded = jsonrpc.decode(text)
    if isinstance(decoded, list):
        (member,) = decoded
        decoded = jsonrpc.decode_member(member)
    if isinstance(decoded, Invalid):
        assert isinstance(one.get("id"), list | dict) or not isinstance(one.get("params"), list | dict | None)
        return
    assert isinstance(decoded, Call)
    assert decoded.method == one["method"]
    assert decoded.id == (json.dumps(one["id"]).encode() if "id" in one else None)


async def pieces(conversation: Conversation, data: bytes, cuts: list[int]) -> None:
    """Send the data cut at these places, each piece by itself."""
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    for start, end in zip([0, *places], [*places, len(data)], strict=True):
        conversation.send(data[start:end])
        await asyncio.sleep(0)


async def good_ones(proxy: Proxy, wanted: list[dict[str, Any]], cuts: list[int]) -> None:
    async with Conversation.open(proxy.worker.port) as conversation:
        data = b"".join(
            HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body := orjson.dumps(one)), body) for one in wanted
        )
        await pieces(conversation, data, cuts)
        for one in wanted:
            answer = (await conversation.answer()).json
            assert answer["id"] == one["id"]
            assert ("result" in answer) != ("error" in answer)


async def bad_ones(proxy: Proxy, data: bytes, cuts: list[int]) -> None:
    """Every answer is a whole one, whatever came; the connection ends once nothing more is sent."""
    async with Conversation.open(proxy.worker.port) as conversation:
        await pieces(conversation, data, cuts)
        with contextlib.suppress(OSError):  # it may have ended already
            conversation.writer.write_eof()
        with contextlib.suppress(Left):
            while True:
                answer = await conversation.answer()
                assert answer.status in (100, 200, 204, 400, 404, 405, 408, 413, 415, 417, 429, 431, 501, 502, 503, 504)


async def test_the_front_takes_anything_and_goes_on_serving() -> None:
    """Raw sockets to a real worker, hundreds of conversations, some of them at once with good ones."""
    async with harmony_nodes(1) as nodes, proxying(nodes, http={"read_timeout": 30, "max_body": "64KB"}) as proxy:
        before = 0
        loop = asyncio.get_running_loop()
        failures: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _loop, context: failures.append(context))
        made_up: list[tuple[bytes, list[dict[str, Any]], list[int]]] = []

        @given(streams(), st.lists(GOOD, min_size=1, max_size=5), st.lists(st.integers(0, 5000), max_size=6))
        @settings(max_examples=examples(200), database=None, suppress_health_check=list(HealthCheck))
        def collect(data: bytes, wanted: list[dict[str, Any]], cuts: list[int]) -> None:
            made_up.append((data, wanted, cuts))

        collect()
        for number in range(0, len(made_up), 8):
            async with asyncio.timeout(60), asyncio.TaskGroup() as group:
                for data, wanted, cuts in made_up[number : number + 8]:
                    group.create_task(bad_ones(proxy, data, cuts))
                    group.create_task(good_ones(proxy, wanted, cuts))
            if number == len(made_up) // 16 * 8:  # half of them
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert failures == []
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 60_000, f"{grown} KiB more"
        await until(lambda: proxy.worker.report().flights == 0, within=60)
        assert proxy.worker.report().tally.in_flight == 0
        # That of the test's own HTTP client may be kept.
        await until(lambda: proxy.worker.report().tally.connections <= 1)
