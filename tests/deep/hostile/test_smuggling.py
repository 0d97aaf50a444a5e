"""Requests that two programs in a row might read differently: each is refused and the connection ends, or is answered
exactly once and what follows on the connection is what the client sent next."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.dataplane.conversation import BODY, HEAD, Conversation, call, talk
from tests.support.proxy import Proxy, proxying

LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
HIDDEN = call(666)
"""What an attacker would have taken for a request of its own."""


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    async with harmony_nodes(1) as nodes, proxying(nodes) as running:
        yield running


REFUSED = {
    "two different lengths": HEAD + LENGTH + b"Content-Length: 3\r\n\r\n" + BODY,
    "two equal lengths": HEAD + LENGTH + LENGTH + b"\r\n" + BODY,
    "a list of lengths": HEAD + b"Content-Length: 47, 47\r\n\r\n" + BODY,
    "length and chunked": HEAD + LENGTH + CHUNKED + b"\r\n" + CHUNKS,
    "chunked and length": HEAD + CHUNKED + LENGTH + b"\r\n" + CHUNKS,
    "a signed length": HEAD + b"Content-Length: +47\r\n\r\n" + BODY,
    "a negative length": HEAD + b"Content-Length: -1\r\n\r\n" + BODY,
    "a hex length": HEAD + b"Content-Length: 0x2f\r\n\r\n" + BODY,
    "a length with an underscore": HEAD + b"Content-Length: 4_7\r\n\r\n" + BODY,
    "an empty length": HEAD + b"Content-Length: \r\n\r\n" + BODY,
    "a length beyond 64 bits": HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n" + BODY,
    "a body without a length": HEAD + b"\r\n" + BODY,
    "two transfer codings": HEAD + CHUNKED + b"Transfer-Encoding: identity\r\n\r\n" + CHUNKS,
    "identity": HEAD + b"Transfer-Encoding: identity\r\n\r\n" + CHUNKS,
    "chunked not last": HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n" + CHUNKS,
    "almost chunked": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n" + CHUNKS,
    "a vertical tab before chunked": HEAD + b"Transfer-Encoding:\x0bchunked\r\n\r\n" + CHUNKS,
    "a space before the colon": HEAD + b"Transfer-Encoding : chunked\r\n\r\n" + CHUNKS,
    "a folded transfer coding": HEAD + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + CHUNKS,
    "a folded line": HEAD + b"X: a\r\n b\r\n" + LENGTH + b"\r\n" + BODY,
    "bare line feeds": (HEAD + LENGTH + b"\r\n").replace(b"\r\n", b"\n") + BODY,
    "one bare line feed": HEAD + b"X: a\n" + LENGTH + b"\r\n" + BODY,
    "a bare carriage return": HEAD + b"X: a\rY: b\r\n" + LENGTH + b"\r\n" + BODY,
    "a zero byte": HEAD + b"X: a\0b\r\n" + LENGTH + b"\r\n" + BODY,
    "a line without a colon": HEAD + b"Xabc\r\n" + LENGTH + b"\r\n" + BODY,
    "a space in a name": HEAD + b"X y: 1\r\n" + LENGTH + b"\r\n" + BODY,
    "no host": b"POST / HTTP/1.1\r\n" + LENGTH + b"\r\n" + BODY,
    "two hosts": HEAD + b"Host: y\r\n" + LENGTH + b"\r\n" + BODY,
    "a chunk size that is no number": HEAD + CHUNKED + b"\r\nzz\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a negative chunk size": HEAD + CHUNKED + b"\r\n-1\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk size with 0x": HEAD + CHUNKED + b"\r\n0x2f\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk size beyond 64 bits": HEAD + CHUNKED + b"\r\nfffffffffffffffff\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk longer than it says": HEAD + CHUNKED + b"\r\n3\r\n" + BODY + b"\r\n0\r\n\r\n",
    "chunks ended by line feeds": HEAD + CHUNKED + b"\r\n" + CHUNKS.replace(b"\r\n", b"\n"),
    "a line feed in a chunk extension": HEAD + CHUNKED + b"\r\n2f;\n" + BODY + b"\r\n0\r\n\r\n",
    "a length in a trailer": HEAD + CHUNKED + b"\r\n" + CHUNKS[:-2] + b"Content-Length: 5\r\n\r\n",
    "another version": b"POST / HTTP/1.2\r\nHost: x\r\n" + LENGTH + b"\r\n" + BODY,
    "a space in the target": b"POST / x HTTP/1.1\r\nHost: x\r\n" + LENGTH + b"\r\n" + BODY,
    "HTTP/2 without being asked": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00",
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED.keys())
async def test_what_could_be_read_in_two_ways_is_refused_and_nothing_after_it_is_read(
    proxy: Proxy, data: bytes
) -> None:
    (answer,) = await talk(proxy.worker.port, data + HIDDEN, 1, ends=True)
    assert answer.status == 400
    assert answer.headers["Server"] == "rpcaccel"
    assert answer.json["error"]["code"] == -32600
    assert proxy.worker.report().tally.refusals == {"malformed-http": 1}


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKS, 501),
        (b"POST / HTTP/1.0\r\n" + CHUNKED + b"Connection: keep-alive\r\n\r\n" + CHUNKS, 501),
        (HEAD + b"Expect: 200-ok\r\n" + LENGTH + b"\r\n" + BODY, 417),
        (HEAD + b"Content-Encoding: foo\r\n" + LENGTH + b"\r\n" + BODY, 415),
    ],
)
async def test_what_is_not_understood_is_said_and_the_connection_ends(proxy: Proxy, data: bytes, status: int) -> None:
    (answer,) = await talk(proxy.worker.port, data, 1, ends=True)
    assert answer.status == status


@pytest.mark.parametrize(
    "data",
    [
        HEAD + CHUNKED + b"\r\n" + CHUNKS,
        HEAD + b"Transfer-Encoding:\tChunked\r\n\r\n" + CHUNKS,
        HEAD + CHUNKED + b"\r\n%x;a=b;c\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY),
        HEAD + CHUNKED + b"\r\n%x;%b\r\n%b\r\n0\r\n\r\n" % (len(BODY), b"a" * 300_000, BODY),
        HEAD + CHUNKED + b"\r\n" + b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n",
        HEAD + CHUNKED + b"\r\n%x\r\n%b\r\n0\r\nX-Trailer: 1\r\n\r\n" % (len(BODY), BODY),
        b"POST http://elsewhere.example/harmony-s0 HTTP/1.1\r\nHost: x\r\n" + LENGTH + b"\r\n" + BODY,
        b"\r\n\r\n" + HEAD + LENGTH + b"\r\n" + BODY,
        b"POST / HTTP/1.0\r\nConnection: keep-alive\r\n" + LENGTH + b"\r\n" + BODY,
    ],
)
async def test_what_is_unusual_and_clear_is_answered_once(proxy: Proxy, data: bytes) -> None:
    (answer,) = await talk(proxy.worker.port, data, 1, ends=False)
    assert answer.json["result"] == "0x6357d2e0"


async def test_an_old_client_is_answered_and_let_go(proxy: Proxy) -> None:
    (answer,) = await talk(proxy.worker.port, b"POST / HTTP/1.0\r\n" + LENGTH + b"\r\n" + BODY, 1, ends=True)
    assert answer.json["result"] == "0x6357d2e0"


async def test_pipelined_requests_are_answered_in_order_hits_and_misses_alike(proxy: Proxy) -> None:
    block = "hmyv2_getBlockByNumber"
    wanted = [call(n, "eth_chainId") if n % 2 else call(n, block, params=[n, {}]) for n in range(1, 60)]
    answers = await talk(proxy.worker.port, b"".join(wanted), len(wanted), ends=False)
    assert [answer.json["id"] for answer in answers] == list(range(1, 60))
    assert all("result" in answer.json for answer in answers)


async def test_a_body_on_a_get_is_not_taken_for_the_next_request(proxy: Proxy) -> None:
    sly = b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(HIDDEN), HIDDEN)
    page, real = await talk(proxy.worker.port, sly + call(2), 2, ends=False)
    assert page.status == 200
    assert real.json["id"] == 2


async def test_a_client_that_expects_100_gets_it_and_its_answer(proxy: Proxy) -> None:
    async with Conversation.open(proxy.worker.port) as conversation:
        conversation.send(HEAD + b"Expect: 100-continue\r\n" + LENGTH + b"\r\n")
        assert (await conversation.answer()).status == 100
        conversation.send(BODY + call(2))
        assert [(await conversation.answer()).json["id"] for _ in range(2)] == [1, 2]


async def test_a_body_that_is_too_large_is_refused_before_it_is_sent(proxy: Proxy) -> None:
    told = HEAD + b"Expect: 100-continue\r\nContent-Length: 999999999\r\n\r\n"
    (answer,) = await talk(proxy.worker.port, told, 1, ends=True)
    assert answer.status == 413


async def test_what_stands_behind_a_change_of_protocol_keeps_nobody_waiting(proxy: Proxy) -> None:
    upgrade = call(1, "eth_chainId", b"Connection: Upgrade", b"Upgrade: h2c")
    (answer,) = await talk(proxy.worker.port, upgrade + HIDDEN, 1, ends=True)
    assert answer.json["id"] == 1
