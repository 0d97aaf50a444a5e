"""Which entry is evicted first."""

from __future__ import annotations

from math import inf

import pytest

from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.cache.eviction import CHANCES, HUSKS, CacheSlot, S3Fifo
from rpcaccel.core.plan.rules import CacheClass


def entry(*, expires: float = inf) -> Entry:
    return Entry(result=b"1", cache=CacheClass.HEAD, network="s0", method="m", stored_at=0.0, expires=expires)


def slot(name: str, *, uses: int = 0, expires: float = inf) -> CacheSlot:
    return CacheSlot(name.encode(), entry(expires=expires), 100, uses)


def gone(policy: S3Fifo, count: int, now: float = 0.0) -> list[str]:
    """The names of the next victims, in order."""
    names = []
    for _ in range(count):
        victim = policy.victim(now)
        assert victim is not None
        victim.entry = None
        names.append(victim.key.decode())
    return names


def remove(policy: S3Fifo, gone_slot: CacheSlot) -> None:
    policy.forget(gone_slot)
    gone_slot.entry = None


@pytest.fixture
def policy() -> S3Fifo:
    return S3Fifo()


def test_an_empty_policy_has_no_victim(policy: S3Fifo) -> None:
    assert policy.victim(0.0) is None


def test_without_hits_the_oldest_goes_first(policy: S3Fifo) -> None:
    for name in "abcd":
        policy.admit(slot(name))
    assert gone(policy, 4) == ["a", "b", "c", "d"]
    assert policy.victim(0.0) is None


def test_a_removed_slot_is_never_a_victim(policy: S3Fifo) -> None:
    slots = [slot(f"{n:03}") for n in range(HUSKS * 3)]
    for each in slots:
        policy.admit(each)
    for each in slots[: HUSKS * 2 + 10]:
        remove(policy, each)
    remaining = [each.key.decode() for each in slots[HUSKS * 2 + 10 :]]
    assert gone(policy, len(remaining)) == remaining
    assert policy.victim(0.0) is None


def test_entries_that_come_and_go_leave_no_husks_behind(policy: S3Fifo) -> None:
    for n in range(HUSKS * 20):
        passing = slot(str(n))
        policy.admit(passing)
        remove(policy, passing)
    assert len(policy._probation._slots) + len(policy._main._slots) <= HUSKS + 1
    assert policy.overhead == 0


def test_an_expired_entry_gets_no_second_chance(policy: S3Fifo) -> None:
    policy.admit(slot("over", uses=3, expires=5.0))
    policy.admit(slot("new"))
    assert gone(policy, 1, now=5.0) == ["over"]


def test_one_eviction_looks_at_a_bounded_number_of_slots(policy: S3Fifo) -> None:
    slots = [slot(str(n), uses=3) for n in range(CHANCES * 3)]
    for each in slots:
        policy.admit(each)
    assert policy.victim(0.0) is not None
    assert sum(each.uses < 3 for each in slots) <= CHANCES


def test_a_slot_used_twice_on_probation_settles(policy: S3Fifo) -> None:
    twice, once = slot("twice", uses=2), slot("once", uses=1)
    policy.admit(twice)
    policy.admit(once)
    assert gone(policy, 1) == ["once"]
    assert twice.settled


def test_a_ghost_that_comes_back_goes_straight_into_the_main_queue(policy: S3Fifo) -> None:
    for name in "abcd":
        policy.admit(slot(name))
    assert gone(policy, 1) == ["a"]
    assert policy.overhead > 0
    again = slot("a")
    policy.admit(again)
    assert again.settled
    assert gone(policy, 3) == ["b", "c", "d"]


def test_there_are_no_more_ghosts_than_residents(policy: S3Fifo) -> None:
    for n in range(100):
        policy.admit(slot(str(n)))
    gone(policy, 90)
    assert len(policy._ghosts) <= 10
    gone(policy, 10)
    assert policy.overhead == 0
