"""The generator's client against servers that misbehave."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path

import pytest

from benchmarks.responder import Protocol, Responder
from benchmarks.seed import trusted
from rpcaccel.bench.load.client import ConnectionPool, LoadReply, Outcome, parse
from rpcaccel.simnode.server.factories import knobs
from rpcaccel.simnode.server.sim_connections import server_context
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.services import free_port
from tests.support.serving import Scripted, http, responding, serving

BODY = b'{"jsonrpc":"2.0","id":7,"method":"eth_chainId","params":[]}'


def reply_of(outcome: Outcome) -> LoadReply:
    assert isinstance(outcome, LoadReply)
    return outcome


async def test_many_calls_share_few_connections() -> None:
    async with responding() as url, ConnectionPool(parse(url), 3) as pool:
        outcomes = await asyncio.gather(*(pool.post(BODY, 5.0) for _ in range(50)))
        assert all(b'"id":7' in reply_of(outcome).body for outcome in outcomes)
        assert pool.opened == 3
        assert "3 open, 3 idle, 0 waiting" in repr(pool)


async def test_connections_are_opened_beforehand() -> None:
    responder = Responder()
    async with responding(responder) as url, ConnectionPool(parse(url), 4) as pool:
        await pool.warm(9)
        assert (pool.opened, responder.calls) == (4, 0)


async def test_a_target_that_keeps_none_gets_a_connection_for_each_call() -> None:
    async with responding() as url, ConnectionPool(parse(url, keep=False), 3) as pool:
        await pool.warm(3)
        assert pool.opened == 0
        outcomes = await asyncio.gather(*(pool.post(BODY, 5.0) for _ in range(10)))
        assert all(b'"id":7' in reply_of(outcome).body for outcome in outcomes)
        assert pool.opened == 10
        assert "0 open, 0 idle, 0 waiting" in repr(pool)


async def test_calls_that_wait_while_connecting_fails_are_told_at_once() -> None:
    async with asyncio.timeout(5.0), ConnectionPool(parse(f"http://127.0.0.1:{free_port()}"), 2) as pool:
        assert await asyncio.gather(*(pool.post(BODY, 60.0) for _ in range(9))) == ["connect"] * 9


async def test_a_name_that_is_none_is_a_failure_to_connect() -> None:
    async with asyncio.timeout(5.0), ConnectionPool(parse("http://a..b:80"), 2) as pool:
        await pool.warm(1)
        assert await pool.post(BODY, 60.0) == "connect"


async def test_a_call_that_takes_too_long_is_given_up() -> None:
    async with serving(lambda: Scripted([])) as url, ConnectionPool(parse(url), 1) as pool:
        assert list(await asyncio.gather(pool.post(BODY, 0.05), pool.post(BODY, 0.05))) == ["timeout"] * 2


@pytest.mark.parametrize(
    ("replies", "trouble"),
    [([None], "closed"), ([b"nonsense\r\n\r\n"], "malformed"), ([http(b"x")[:-1] + b"xx"], "malformed")],
)
async def test_a_server_that_breaks_off_or_talks_nonsense_is_a_failure(
    replies: list[bytes | None], trouble: str
) -> None:
    async with serving(lambda: Scripted(replies)) as url, ConnectionPool(parse(url), 1) as pool:
        assert await pool.post(BODY, 5.0) == trouble


async def test_a_call_that_meets_a_connection_just_closed_is_sent_again() -> None:
    sent: list[list[bytes | None]] = [[http(b"one"), None], [http(b"two")]]
    async with serving(lambda: Scripted(sent.pop(0))) as url, ConnectionPool(parse(url), 1) as pool:
        assert reply_of(await pool.post(BODY, 5.0)).body == b"one"
        assert reply_of(await pool.post(BODY, 5.0)).body == b"two"
        assert pool.opened == 2


async def test_a_connection_that_must_close_is_not_used_again() -> None:
    closing = http(b"x", more=b"Connection: close\r\n")
    async with serving(lambda: Scripted([closing])) as url, ConnectionPool(parse(url), 1) as pool:
        for _ in range(3):
            assert reply_of(await pool.post(BODY, 5.0)).status == 200
        assert pool.opened == 3


async def test_where_an_answer_came_from_is_read() -> None:
    async with serving(lambda: Scripted([http(b"x", more=b"X-Rpcaccel-Cache: memory\r\n"), http(b"y")])) as url:
        pool = ConnectionPool(parse(url), 1)
        assert [reply_of(await pool.post(BODY, 5.0)).cache for _ in range(2)] == ["memory", ""]
        await pool.close()


class HangsUp(Scripted):
    """Ends the connection behind each reply."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        assert self.transport is not None
        self.transport.close()


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\nhello", LoadReply(200, b"hello", keep=False)),
        (http(b"hello")[:-1], "closed"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"hello", mtime=0)[:-1], "malformed"),
    ],
)
async def test_an_answer_may_end_with_the_connection_if_no_part_is_missing(reply: bytes, said: Outcome) -> None:
    async with serving(lambda: HangsUp([reply])) as url, ConnectionPool(parse(url), 1) as pool:
        assert await pool.post(BODY, 5.0) == said


async def test_more_bytes_than_a_reply_has_are_a_failure_and_end_the_connection() -> None:
    async with serving(lambda: Scripted([http(b"x") + http(b"y"), http(b"z")])) as url:
        pool = ConnectionPool(parse(url), 1)
        assert await pool.post(BODY, 5.0) == "malformed"
        assert await pool.post(BODY, 5.0) == "malformed"
        assert pool.opened == 2
        await pool.close()


async def test_a_large_answer_comes_in_pieces() -> None:
    responder = Responder(3_000_000)
    async with serving(lambda: Protocol(responder)) as url, ConnectionPool(parse(url), 1) as pool:
        outcome = await pool.post(BODY.replace(b"eth_chainId", b"eth_getBlockByNumber"), 5.0)
        assert len(reply_of(outcome).body) > 3_000_000


async def test_a_node_is_called_over_tls_where_its_certificate_is_trusted(tmp_path: Path) -> None:
    pem = tmp_path / "node.pem"
    async with SimNode(knobs=knobs(connect="20ms"), tls=server_context(pem)) as node:
        with trusted(pem):
            async with ConnectionPool(parse(node.url, keep=False), 2) as pool:
                outcomes = [await pool.post(BODY, 30.0) for _ in range(3)]
        assert all(reply_of(outcome).status == 200 for outcome in outcomes)
        assert node.counts.connections == 3
        async with ConnectionPool(parse(node.url), 2) as pool:
            assert await pool.post(BODY, 30.0) == "connect"
