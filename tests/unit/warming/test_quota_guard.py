"""What is left of quotas for clients."""

from __future__ import annotations

import asyncio
from math import inf

from rpcaccel.warming.quota_guard import EVERY, SETTLE, UNKNOWN, QuotaGuard, QuotaPart, Spare, spare
from tests.support.instant_time import instantly


def part(used: float, limit: float = 1000.0, *, window: str = "day", heavy: float = 1.0) -> QuotaPart:
    return QuotaPart(node="paid", window=window, used=used, limit=limit, renews="midnight", heavy=heavy)


def test_the_tightest_quota_says_how_much_there_is_to_spare() -> None:
    found = spare([part(100), part(700, 2000, window="month")], 0.5)
    assert found.calls == 300
    assert found.why == "paid has 65% of its month's quota left, which renews at midnight"


def test_clients_keep_their_share() -> None:
    assert spare([part(500)], 0.5).calls == 0
    assert spare([part(900)], 0.5).calls == 0
    assert spare([part(900)], 0.01).calls == 90
    assert spare([], 0.5).calls == inf


def test_where_clients_keep_nothing_the_proxy_itself_stops_at_the_quota() -> None:
    assert spare([part(1000)], 0.0) == Spare(inf)


def test_a_heavy_call_may_cost_many() -> None:
    assert spare([part(100, heavy=20)], 0.5).calls == 20


class Use:
    """A quota as the admin side tells it."""

    def __init__(self, calls: float) -> None:
        self.found: Spare | None = Spare(calls, "spent")
        self.looks: list[float] = []

    async def read(self) -> Spare | None:
        self.looks.append(asyncio.get_running_loop().time())
        return self.found


@instantly
async def test_no_call_is_handed_out_before_the_use_is_known() -> None:
    use = Use(3)
    use.found = None
    guard = QuotaGuard(use.read)
    await guard.look()
    assert (guard.free, guard.why) == (False, UNKNOWN)


@instantly
async def test_no_more_calls_are_handed_out_than_there_are_to_spare() -> None:
    use = Use(3)
    guard = QuotaGuard(use.read)
    await guard.look()
    handed = 0
    while guard.free:
        guard.spend()
        handed += 1
    assert handed == 3
    assert repr(guard) == "<QuotaGuard 0 calls left>"


@instantly
async def test_what_cost_no_node_anything_is_given_back() -> None:
    guard = QuotaGuard(Use(1).read)
    await guard.look()
    guard.spend()
    assert not guard.free
    guard.give_back()
    assert guard.free


@instantly
async def test_calls_that_may_not_be_counted_yet_are_taken_off() -> None:
    guard = QuotaGuard(Use(10).read)
    await guard.look()
    for _ in range(4):
        guard.spend()
    await guard.look()
    assert repr(guard) == "<QuotaGuard 6 calls left>"


@instantly
async def test_when_all_is_spent_it_waits_until_the_use_is_counted_and_looks_again() -> None:
    use = Use(2)
    guard = QuotaGuard(use.read)
    await guard.look()
    watching = asyncio.create_task(guard.watch())
    await asyncio.sleep(1)
    guard.spend()
    guard.spend()
    await asyncio.sleep(SETTLE + 0.1)
    assert use.looks[1:] == [use.looks[0] + 1 + SETTLE]
    assert guard.free
    watching.cancel()


@instantly
async def test_it_says_why_it_hands_out_none_and_goes_on_when_there_is_something_again() -> None:
    use = Use(0)
    guard = QuotaGuard(use.read)
    await guard.look()
    assert (guard.free, guard.why) == (False, "spent")
    watching = asyncio.create_task(guard.watch())
    use.found = Spare(5, "spent")
    await asyncio.sleep(EVERY - 1)
    assert not guard.free
    await asyncio.sleep(2)
    assert (guard.free, guard.why) == (True, "")
    watching.cancel()


@instantly
async def test_what_was_known_holds_while_the_use_is_not_told() -> None:
    use = Use(5)
    guard = QuotaGuard(use.read)
    await guard.look()
    use.found = None
    watching = asyncio.create_task(guard.watch())
    await asyncio.sleep(EVERY + 1)
    assert len(use.looks) == 2
    assert repr(guard) == "<QuotaGuard 5 calls left>"
    watching.cancel()
