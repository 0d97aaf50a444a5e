"""Reads: gathered by turn, bounded by the deadline, falling back, blaming the right one."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from rpcaccel.stores.redis.reads import HOLD_SECONDS, MAX_MGET_KEYS, UNHELD_COMMANDS, Reads
from rpcaccel.stores.redis.replies import LATE
from rpcaccel.stores.redis.topology import FAILURES, Server
from tests.support.instant_time import instantly
from tests.support.stores.fakes import ScriptedServer, ScriptedTopology, broken, never, values


def make(*servers: Server, timeout: float = 2.0, limit: int = 16) -> Reads:
    topology = ScriptedTopology(*servers)
    return Reads(topology, topology.for_reading, timeout=timeout, limit=limit)


async def asked(reads: Reads, *keys: bytes) -> list[bytes | None]:
    futures = [reads.ask(key) for key in keys]
    return [await future if future is not None else None for future in futures]


@instantly
async def test_the_keys_of_a_turn_are_one_command_and_each_gets_its_own_value() -> None:
    server = ScriptedServer("a", values)
    reads = make(server)
    assert await asked(reads, b"x", b"y", b"x") == [b"X", b"Y", b"X"]
    assert server.asked == [("MGET", b"x", b"y")]
    assert await asked(reads, b"x") == [b"X"]
    assert reads.commands == 2


@instantly
async def test_beside_commands_under_way_keys_wait_for_the_end_of_one_and_travel_together() -> None:
    answer = asyncio.Event()

    async def when_told(*command: Any) -> list[bytes | None]:
        await answer.wait()
        return await values(*command)

    server = ScriptedServer("a", when_told)
    reads = make(server)
    waiting = []
    for key in (b"a", b"b", b"c", b"d"):  # each in a turn of its own
        waiting.append(asyncio.create_task(asked(reads, key)))
        while len(server.asked) < min(len(waiting), UNHELD_COMMANDS):
            await asyncio.sleep(0)
    assert server.asked == [("MGET", b"a"), ("MGET", b"b")]
    answer.set()
    assert await asyncio.gather(*waiting) == [[b"A"], [b"B"], [b"C"], [b"D"]]
    assert server.asked[UNHELD_COMMANDS:] == [("MGET", b"c", b"d")]


@instantly
async def test_nobody_waits_for_company_beside_a_server_that_is_silent() -> None:
    server = ScriptedServer("a", never)
    reads = make(server)
    for number in range(UNHELD_COMMANDS + 2):
        assert reads.ask(b"%d" % number) is not None
        async with asyncio.timeout(1.0):
            while len(server.asked) <= number:
                await asyncio.sleep(HOLD_SECONDS / 10)


@instantly
async def test_more_keys_than_a_command_holds_are_several() -> None:
    server = ScriptedServer("a", values)
    await asked(make(server), *(b"%d" % n for n in range(MAX_MGET_KEYS + 1)))
    assert [len(command) - 1 for command in server.asked] == [MAX_MGET_KEYS, 1]


@instantly
async def test_absent_keys_are_counted_for_each_who_asked() -> None:
    async def nothing(*command: Any) -> list[None]:
        return [None] * (len(command) - 1)

    reads = make(ScriptedServer("a", nothing))
    assert await asked(reads, b"x", b"x", b"y") == [None] * 3
    assert (reads.absent, reads.late, reads.errors) == (3, 0, 0)


@instantly
async def test_past_the_deadline_it_is_a_miss_and_the_server_is_blamed() -> None:
    server = ScriptedServer("a", never)
    reads = make(server, timeout=0.03)
    assert await asked(reads, b"x", b"y") == [None, None]
    assert (reads.late, server._in_a_row, server.error) == (2, 1, LATE)


@instantly
async def test_an_answer_after_the_deadline_is_nobodys() -> None:
    go = asyncio.Event()

    async def slow(*_command: Any) -> list[bytes | None]:
        await go.wait()
        return [b"late"]

    server = ScriptedServer("a", slow)
    reads = make(server, timeout=0.02)
    assert await asked(reads, b"x") == [None]
    go.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert (server.error, reads.absent) == (LATE, 0)


async def test_a_process_that_was_busy_itself_does_not_blame_the_server() -> None:
    server = ScriptedServer("a", values)
    reads = make(server, timeout=0.02)
    future = reads.ask(b"x")
    assert future is not None
    time.sleep(0.05)  # noqa: ASYNC251 - the loop is meant to stand still
    assert await future == b"X"
    assert (reads.late, server._in_a_row) == (0, 0)


async def test_long_turns_of_this_process_are_not_time_that_the_server_took() -> None:
    async def in_rounds(*command: Any) -> list[bytes | None]:
        for _ in range(3):  # the bytes arrive, the parser reads them, the task goes on
            await asyncio.sleep(0)
        return await values(*command)

    def turn() -> None:
        nonlocal busy
        time.sleep(0.02)
        busy = asyncio.get_running_loop().call_soon(turn)

    server = ScriptedServer("a", in_rounds)
    reads = make(server, timeout=0.01)
    busy = asyncio.get_running_loop().call_soon(turn)
    try:
        assert await asked(reads, b"x", b"y") == [b"X", b"Y"]
    finally:
        busy.cancel()
    assert (reads.late, server._in_a_row) == (0, 0)


@instantly
async def test_the_deadline_begins_when_the_command_is_sent() -> None:
    release = asyncio.Event()

    async def when_told(*command: Any) -> list[bytes | None]:
        if command[1] in (b"0", b"1"):
            await release.wait()
        await asyncio.sleep(0.0199)
        return await values(*command)

    server = ScriptedServer("a", when_told, trusted=True)
    reads = make(server, timeout=0.02)
    ahead = []
    for number in range(UNHELD_COMMANDS):
        ahead.append(asyncio.create_task(asked(reads, b"%d" % number)))
        while len(server.asked) <= number:
            await asyncio.sleep(0)
    held = asyncio.create_task(asked(reads, b"x"))
    assert await held == [b"X"], "it waited for company before it was sent"
    release.set()
    await asyncio.gather(*ahead)


async def test_a_key_that_comes_after_the_deadline_of_those_that_wait_has_a_deadline_of_its_own() -> None:
    server = ScriptedServer("a", never, trusted=True)
    reads = make(server, timeout=0.05)
    for number in range(UNHELD_COMMANDS):
        reads.ask(b"%d" % number)
        while len(server.asked) <= number:
            await asyncio.sleep(0)
    waiting = reads.ask(b"x")
    assert waiting is not None
    time.sleep(0.051)  # noqa: ASYNC251 - the loop stands still until the deadline of those that were sent
    assert await waiting is None
    late = reads.ask(b"y")
    assert late is not None
    async with asyncio.timeout(60.0):
        assert await late is None


@instantly
async def test_a_server_late_several_times_in_a_row_is_asked_no_more() -> None:
    server = ScriptedServer("a", never)
    reads = make(server, timeout=0.01)
    for _ in range(FAILURES + 2):
        assert await asked(reads, b"x") == [None]
    assert not server.up
    assert (reads.late, reads.down) == (FAILURES, 2)


@instantly
async def test_when_a_server_fails_another_is_asked() -> None:
    first, second = ScriptedServer("a", broken), ScriptedServer("b", values)
    reads = make(first, second)
    assert await asked(reads, b"x") == [b"X"]
    assert (first._in_a_row, second._in_a_row, reads.errors) == (1, 0, 0)
    assert first.error == "no connection"


@instantly
async def test_when_all_fail_it_is_a_miss() -> None:
    reads = make(ScriptedServer("a", broken))
    assert await asked(reads, b"x", b"y") == [None, None]
    assert reads.errors == 2


@instantly
async def test_keys_that_no_server_holds_are_misses_and_the_others_are_not() -> None:
    reads = make(ScriptedServer("a", values))
    assert await asked(reads, b"x", b"nowhere") == [b"X", None]
    assert reads.down == 1


@instantly
async def test_beyond_the_limit_reads_are_misses_at_once() -> None:
    reads = make(ScriptedServer("a", never), timeout=0.05, limit=1)
    waiting = asyncio.create_task(asked(reads, b"x"))
    await asyncio.sleep(0.005)
    assert await asked(reads, b"y") == [None]
    assert not waiting.done()
    assert await waiting == [None]
    assert (reads.busy, reads.late) == (1, 1)


@instantly
async def test_a_waiter_that_left_before_the_turn_ended_is_not_asked_for() -> None:
    server = ScriptedServer("a", values)
    reads = make(server)
    future = reads.ask(b"x")
    assert future is not None
    future.cancel()
    assert await asked(reads, b"y") == [b"Y"]
    assert server.asked == [("MGET", b"y")]


@instantly
async def test_closing_leaves_nobody_waiting() -> None:
    server = ScriptedServer("a", never)
    reads = make(server, timeout=30.0)
    waiting = []
    for key in (b"u", b"v", b"w", b"x"):
        waiting.append(asyncio.create_task(asked(reads, key)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert len(server.asked) == UNHELD_COMMANDS, "others wait for company"
    late = reads.ask(b"z")
    assert late is not None
    await reads.close()
    assert await asyncio.wait_for(asyncio.gather(*waiting, late), 1.0) == [[None]] * 4 + [None]
    assert len(server.asked) == UNHELD_COMMANDS
