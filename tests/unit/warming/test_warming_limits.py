"""What bounds a job: its pace, the quotas, and how far it may go."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

import pytest

from rpcaccel.warming.warming_limits import (
    MAX_PAUSE_SECONDS,
    QUOTA_LOOK_SECONDS,
    UNKNOWN,
    Pace,
    QuotaGuard,
    Spare,
    backoff,
    blocks_in_doubt,
    newest_kept,
    spare,
)
from tests.support.instant_time import instantly


def test_a_late_timer_is_made_up_for_and_a_pause_is_not() -> None:
    pace = Pace(10)
    pace.take(100.0)
    pace.take(100.15)
    assert abs(pace.wait(100.15) - 0.05) < 1e-9
    pace.take(160.0)
    assert abs(pace.wait(160.0) - 0.1) < 1e-9


def test_without_a_rate_nothing_waits_but_for_a_pause() -> None:
    pace = Pace()
    pace.take(100.0)
    assert pace.wait(100.0) <= 0
    pace.hold(7.0, 100.0)
    pace.hold(1.0, 100.0)
    assert pace.wait(100.0) == 7.0
    assert pace.wait(107.0) <= 0


def test_pauses_grow_up_to_a_bound() -> None:
    assert [backoff(times) for times in (1, 2, 3, 4)] == [1, 2, 4, 8]
    assert backoff(10_000) == MAX_PAUSE_SECONDS


def node(used: float, limit: float = 1000.0, *, window: str = "day") -> dict[str, Any]:
    """A node as the admin API tells it."""
    return {"id": "paid", "quota": [{"window": window, "used": used, "limit": limit, "renews": "midnight"}]}


def test_the_tightest_quota_says_how_much_there_is_to_spare() -> None:
    found = spare([node(100), node(700, 2000, window="month")], {}, 0.5)
    assert found.calls == 300
    assert found.why == "paid has 65% of its month's quota left, which renews at midnight"


def test_clients_keep_their_share() -> None:
    assert spare([node(500)], {}, 0.5).calls == 0
    assert spare([node(900)], {}, 0.5).calls == 0
    assert spare([node(900)], {}, 0.01).calls == 90
    assert spare([], {}, 0.5).calls == inf


def test_where_clients_keep_nothing_the_proxy_itself_stops_at_the_quota() -> None:
    assert spare([node(1000)], {}, 0.0) == Spare(inf)


def test_a_heavy_call_may_cost_many() -> None:
    assert spare([node(100)], {"paid": 20}, 0.5).calls == 20


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
async def test_calls_that_may_not_be_counted_yet_are_taken_off() -> None:
    guard = QuotaGuard(Use(10).read)
    await guard.look()
    for _ in range(4):
        guard.spend()
    await guard.look()
    assert guard.left == 6


@instantly
async def test_when_all_is_spent_it_waits_until_the_use_is_counted_and_looks_again() -> None:
    use = Use(2)
    guard = QuotaGuard(use.read)
    await guard.look()
    watching = asyncio.create_task(guard.watch())
    await asyncio.sleep(1)
    guard.spend()
    guard.spend()
    await asyncio.sleep(QUOTA_LOOK_SECONDS)
    assert (len(use.looks), guard.free) == (2, False)  # the calls may not be in that use yet
    await asyncio.sleep(QUOTA_LOOK_SECONDS)
    assert (len(use.looks), guard.free) == (3, True)
    watching.cancel()


@instantly
async def test_what_was_known_holds_while_the_use_is_not_told() -> None:
    use = Use(5)
    guard = QuotaGuard(use.read)
    await guard.look()
    use.found = None
    watching = asyncio.create_task(guard.watch())
    await asyncio.sleep(QUOTA_LOOK_SECONDS + 1)
    assert len(use.looks) == 2
    assert guard.left == 5
    watching.cancel()


class Chain:
    """A chain whose blocks up to `final` are kept."""

    def __init__(self, final: int) -> None:
        self.final = final
        self.asked = 0

    async def kept(self, block: int) -> bool:
        assert block >= 0
        self.asked += 1
        return block <= self.final


@pytest.mark.parametrize("head", [0, 1, 2, 150, 1_000_000])
@pytest.mark.parametrize("behind", [0, 1, 2, 3, 64, 900, 999_999])
async def test_the_newest_block_that_is_kept_is_found_by_few_questions(head: int, behind: int) -> None:
    chain = Chain(max(head - behind, -1))
    assert await newest_kept(chain.kept, head) == chain.final
    assert chain.asked <= 45


def test_the_newest_half_hour_is_in_doubt() -> None:
    assert blocks_in_doubt(1800.0, 2.0) == 901
    assert blocks_in_doubt(0.0, 2.0) == 1
