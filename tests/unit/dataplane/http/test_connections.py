"""What the connections of a worker have in common."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import Any, cast

from rpcaccel.config.sections import HttpSettings
from rpcaccel.dataplane.http.connections import Lanes
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.proxy import proxying

HEAD = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nX: %d\r\n\r\n"


def lanes() -> Lanes:
    class Front:
        settings = HttpSettings()

        def malformed(self) -> None: ...

        def lost(self, why: str) -> None: ...

    return Lanes(cast(Any, Front()), cast(Any, None))


async def test_a_head_is_read_once() -> None:
    known = lanes()
    assert known.head(HEAD % 1) is known.head(HEAD % 1)
    assert known.head(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n") is None


async def test_remembering_heads_is_bounded() -> None:
    known = lanes()
    for number in range(5000):
        assert known.head(HEAD % number) is not None
    assert len(known._heads) <= 1024


async def test_a_head_over_the_limit_is_not_read() -> None:
    assert lanes().head(HEAD.replace(b"%d", b"x" * 20_000)) is None


async def test_answers_carry_the_date_of_their_second() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        date = proxy.worker._lanes.date
        for _ in range(2):
            date.until = 0.0  # another second has begun
            reply = await proxy.call("net_peerCount")
            assert abs(parsedate_to_datetime(reply.headers["Date"]).timestamp() - time.time()) < 2.0
            assert date.until > 0.0


async def test_connections_are_counted_while_they_are_open() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        await proxy.get("/healthz")
        assert len(proxy.worker._lanes.open) == 1
        assert "1 connections" in repr(proxy.worker._lanes)


async def test_an_idle_connection_is_closed_when_its_time_is_over() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, http={"keepalive": 0.05, "read_timeout": 0.2}) as proxy:
        await proxy.get("/healthz")
        (lane,) = proxy.worker._lanes.open
        lane.look(lane._touched + 1.0, 0.05, 30.0)
        assert lane.transport is not None
        assert lane.transport.is_closing()
