"""A server is up, or down and probed."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from rpcaccel.stores.redis.topology import FAILURES, Server
from tests.support.services import RedisServer
from tests.support.stores.fakes import ScriptedServer, broken
from tests.support.waiting import until


async def test_failures_in_a_row_take_it_down_and_a_success_between_does_not() -> None:
    server = ScriptedServer("a", broken)
    for _ in range(FAILURES * 2):
        server.failed("late")
        server.succeeded()
    assert server.up
    for _ in range(FAILURES):
        assert server.up
        server.failed("late")
    assert not server.up
    await server.close()


async def test_a_probe_brings_it_back_after_a_refresh_of_who_holds_what(own_server: RedisServer) -> None:
    refreshed = asyncio.Event()

    async def refresh() -> None:
        refreshed.set()

    async with Redis(port=own_server.port, protocol=2) as client:
        server = Server("a", "primary", client, before_probe=refresh)
        server.take_down()
        assert repr(server) == "<Server primary a down>"
        await until(lambda: server.up)
        assert refreshed.is_set()
        assert ["no maxmemory" in text for text in server.warnings()] == [True]
        await server.close()


async def test_a_probe_that_fails_is_asked_again() -> None:
    answers = iter([ConnectionError("still gone"), {"maxmemory": 5}])

    async def at_last(*_command: object) -> object:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    server = ScriptedServer("a", at_last)
    server.take_down()
    await until(lambda: server.error == "no connection")
    await until(lambda: server.up)
    assert (server.error, len(server.asked)) == ("", 2)
    await server.close()


async def test_a_server_that_does_not_answer_the_first_question_is_down() -> None:
    server = ScriptedServer("a", broken)
    await server.look()
    assert not server.up
    await server.close()


async def test_a_closed_server_is_not_probed() -> None:
    server = ScriptedServer("a", broken)
    await server.close()
    server.take_down()
    assert server.asked == []


@pytest.mark.parametrize(
    ("info", "warning"),
    [
        ({}, ""),
        ({"maxmemory": 0, "maxmemory_policy": "noeviction"}, "no maxmemory"),
        ({"maxmemory": 1, "maxmemory_policy": "noeviction"}, "refuses writes"),
        ({"maxmemory": 1, "maxmemory_policy": "volatile-random"}, "at random"),
        ({"maxmemory": 1, "maxmemory_policy": "volatile-ttl"}, ""),
    ],
)
async def test_an_unfit_memory_setting_is_warned_of(info: dict[str, object], warning: str) -> None:
    async def says(*_command: object) -> object:
        return info

    server = ScriptedServer("a", says)
    await server.look()
    assert [warning in text for text in server.warnings()] == ([True] if warning else [])
    server.role = "replica"
    assert server.warnings() == []
    await server.close()
