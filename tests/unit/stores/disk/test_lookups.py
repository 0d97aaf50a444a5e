"""Lookups that travel together, within their deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rpcaccel.core.cache.entry import Entry
from rpcaccel.stores.disk.lookups import MAX_KEYS, MAX_SLOW_JOBS, Lookups, OnRead
from tests.support.instant_time import instantly
from tests.support.stores.disk import lasting
from tests.support.waiting import until


class Reader:
    """Answers when it is told to: every key with itself."""

    def __init__(self, *, hangs: bool) -> None:
        self.hangs = hangs
        self.jobs: list[tuple[Sequence[bytes], OnRead]] = []
        self.slow = 0

    def __call__(self, keys: Sequence[bytes], on_read: OnRead) -> None:
        self.jobs.append((keys, on_read))
        if not self.hangs:
            asyncio.get_running_loop().call_soon(self.answer)

    def answer(self) -> None:
        keys, on_read = self.jobs[-1]
        on_read({key: lasting(key) for key in keys}, True)

    def too_slow(self) -> None:
        self.slow += 1


def reading(deadline: float = 10.0, *, hangs: bool = False) -> tuple[Reader, Lookups]:
    reader = Reader(hangs=hangs)
    return reader, Lookups(reader, deadline, reader.too_slow)


async def looked_up(lookups: Lookups, *keys: bytes) -> list[bytes | None]:
    answers: list[bytes | None] = []
    for key in keys:
        lookups.ask(key, lambda entry: answers.append(None if entry is None else entry.result))
    await until(lambda: len(answers) == len(keys))
    return answers


@instantly
async def test_keys_of_one_turn_of_the_loop_travel_together() -> None:
    reader, lookups = reading()
    assert await looked_up(lookups, b"a", b"b", b"a") == [b"a", b"a", b"b"]
    assert [keys for keys, _ in reader.jobs] == [[b"a", b"b"]]


@instantly
async def test_keys_that_come_while_a_job_is_under_way_make_the_next_one() -> None:
    reader, lookups = reading(hangs=True)
    first = asyncio.ensure_future(looked_up(lookups, b"a"))
    await until(lambda: reader.jobs)
    others = asyncio.ensure_future(looked_up(lookups, b"b", b"c"))
    await asyncio.sleep(0)
    reader.answer()
    assert await first == [b"a"]
    await until(lambda: len(reader.jobs) == 2)
    reader.answer()
    assert await others == [b"b", b"c"]


@instantly
async def test_a_lookup_is_a_miss_after_its_deadline_and_the_answer_to_it_is_lost() -> None:
    reader, lookups = reading(0.01, hangs=True)
    assert await looked_up(lookups, b"a", b"b") == [None, None]
    assert lookups.late == 2
    await until(lambda: lookups.stuck)
    reader.answer()
    assert not lookups.stuck
    reader.hangs = False
    assert await looked_up(lookups, b"c") == [b"c"]


@instantly
async def test_a_lookup_that_was_not_sent_has_the_same_deadline() -> None:
    reader, lookups = reading(0.05, hangs=True)
    first = asyncio.ensure_future(looked_up(lookups, b"a"))
    await until(lambda: reader.jobs)
    assert await looked_up(lookups, b"b") == [None]
    assert await first == [None]
    assert len(reader.jobs) == 1


async def test_a_disk_that_is_late_again_and_again_is_too_slow() -> None:
    reader, lookups = reading(0.001, hangs=True)
    for _ in range(MAX_SLOW_JOBS):
        assert reader.slow == 0
        assert await looked_up(lookups, b"a") == [None]
        reader.answer()
    assert reader.slow == 1


@instantly
async def test_a_disk_that_is_late_now_and_then_is_not() -> None:
    reader, lookups = reading(0.05)
    for _ in range(MAX_SLOW_JOBS + 1):
        reader.hangs = False
        await looked_up(lookups, b"a")
        await looked_up(lookups, b"b")
        reader.hangs = True
        await looked_up(lookups, b"c")
        reader.answer()
    assert lookups.late > MAX_SLOW_JOBS
    assert reader.slow == 0


async def test_many_keys_make_several_jobs_and_few_keys_go_before_them() -> None:
    reader, lookups = reading(hangs=True)
    keys = [b"%d" % number for number in range(3 * MAX_KEYS)]
    many = asyncio.ensure_future(looked_up(lookups, *keys))
    await until(lambda: reader.jobs)
    few = asyncio.ensure_future(looked_up(lookups, b"light"))
    await asyncio.sleep(0)
    reader.answer()
    assert [list(asked) for asked, _ in reader.jobs[:2]] == [keys[:MAX_KEYS], [b"light"]]
    reader.answer()
    assert await few == [b"light"]
    while not many.done():
        reader.answer()
        await asyncio.sleep(0)
    assert sorted(key or b"" for key in await many) == sorted(keys)
    assert len(reader.jobs) == 4


@instantly
async def test_what_a_job_left_out_is_asked_for_again() -> None:
    reader, lookups = reading(hangs=True)
    waiting = asyncio.ensure_future(looked_up(lookups, b"a", b"b"))
    await until(lambda: reader.jobs)
    reader.jobs[0][1]({b"a": lasting(b"a")}, False)
    assert [list(asked) for asked, _ in reader.jobs] == [[b"a", b"b"], [b"b"]]
    reader.jobs[1][1]({}, True)
    assert await waiting == [b"a", None]


@instantly
async def test_a_turn_of_which_parts_are_on_read_is_not_late() -> None:
    reader, lookups = reading(0.05, hangs=True)
    keys = [b"%d" % number for number in range(5 * MAX_KEYS)]
    many = asyncio.ensure_future(looked_up(lookups, *keys))
    await until(lambda: reader.jobs)
    while not many.done():
        await asyncio.sleep(0.02)  # the whole takes longer than a lookup may, no part of it does
        reader.answer()
    assert lookups.late == 0
    assert None not in await many


@instantly
async def test_giving_up_answers_everybody() -> None:
    reader, lookups = reading(hangs=True)
    first = asyncio.ensure_future(looked_up(lookups, b"a"))
    await until(lambda: reader.jobs)
    second = asyncio.ensure_future(looked_up(lookups, b"b"))
    await asyncio.sleep(0)
    lookups.give_up()
    assert await first == [None]
    assert await second == [None]
    reader.answer()


@instantly
async def test_one_who_fails_to_take_his_answer_keeps_no_other_from_his() -> None:
    told = list[Entry | None]()
    _, lookups = reading()
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, about: errors.append(about["exception"]))

    def fails(_entry: Entry | None) -> None:
        raise ZeroDivisionError

    lookups.ask(b"a", fails)
    lookups.ask(b"a", told.append)
    await until(lambda: told)
    assert [type(error) for error in errors] == [ZeroDivisionError]
