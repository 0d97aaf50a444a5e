"""Which entry goes first, by policy."""

from __future__ import annotations

from math import inf

import pytest

from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.cache.eviction import CHANCES, HUSKS, POLICIES, CacheSlot, Eviction, Lru, S3Fifo, Sieve
from rpcaccel.core.cache.memory import ENTRY_BYTES, MemoryTier
from rpcaccel.core.plan.rules import CacheClass


def entry(*, expires: float = inf) -> Entry:
    return Entry(result=b"1", cache=CacheClass.HEAD, network="s0", method="m", stored_at=0.0, expires=expires)


def slot(name: str, *, uses: int = 0, expires: float = inf) -> CacheSlot:
    return CacheSlot(name.encode(), entry(expires=expires), 100, uses)


def gone(policy: Eviction, count: int, now: float = 0.0) -> list[str]:
    """The names of the next victims, in order."""
    names = []
    for _ in range(count):
        victim = policy.victim(now)
        assert victim is not None
        victim.entry = None
        names.append(victim.key.decode())
    return names


def remove(policy: Eviction, gone_slot: CacheSlot) -> None:
    policy.forget(gone_slot)
    gone_slot.entry = None


@pytest.fixture(params=sorted(POLICIES))
def policy(request: pytest.FixtureRequest) -> Eviction:
    return POLICIES[request.param]()


def test_an_empty_policy_has_no_victim(policy: Eviction) -> None:
    assert policy.victim(0.0) is None


def test_without_hits_the_oldest_goes_first(policy: Eviction) -> None:
    for name in "abcd":
        policy.admit(slot(name))
    assert gone(policy, 4) == ["a", "b", "c", "d"]
    assert policy.victim(0.0) is None


def test_a_removed_slot_is_never_a_victim(policy: Eviction) -> None:
    slots = [slot(f"{n:03}") for n in range(HUSKS * 3)]
    for each in slots:
        policy.admit(each)
    for each in slots[: HUSKS * 2 + 10]:
        remove(policy, each)
    remaining = [each.key.decode() for each in slots[HUSKS * 2 + 10 :]]
    assert gone(policy, len(remaining)) == remaining
    assert policy.victim(0.0) is None


def test_entries_that_come_and_go_leave_no_husks_behind(policy: Eviction) -> None:
    for n in range(HUSKS * 20):
        passing = slot(str(n))
        policy.admit(passing)
        remove(policy, passing)
    if isinstance(policy, Sieve | S3Fifo):
        assert len(policy._first._slots) + len(policy._second._slots) <= HUSKS + 1
    assert policy.overhead == 0


def test_an_expired_entry_gets_no_second_chance(policy: Eviction) -> None:
    policy.admit(slot("over", uses=3, expires=5.0))
    policy.admit(slot("new"))
    assert gone(policy, 1, now=5.0) == ["over"]


def test_one_eviction_looks_at_a_bounded_number_of_slots(policy: Eviction) -> None:
    slots = [slot(str(n), uses=3) for n in range(CHANCES * 3)]
    for each in slots:
        policy.admit(each)
    assert policy.victim(0.0) is not None
    assert sum(each.uses < 3 for each in slots) <= CHANCES


def test_lru_spares_what_was_used_last() -> None:
    policy = Lru()
    slots = [slot(name) for name in "abc"]
    for each in slots:
        policy.admit(each)
    assert policy.on_hit is not None
    policy.on_hit(slots[0])
    assert gone(policy, 3) == ["b", "c", "a"]


def test_sieve_spares_the_used_in_their_place_and_its_hand_goes_on() -> None:
    policy = Sieve()
    slots = {name: slot(name) for name in "abcd"}
    for each in slots.values():
        policy.admit(each)
    slots["a"].uses = slots["c"].uses = 1
    assert gone(policy, 1) == ["b"]
    policy.admit(slot("e"))
    # The hand stands before c: c is spared, d goes, then e; only then does it come round to a.
    assert gone(policy, 4) == ["d", "e", "a", "c"]


def test_sieve_counts_husks_in_the_queue_that_holds_them() -> None:
    policy = Sieve()
    slots = [slot(str(n), uses=1) for n in range(4)]
    for each in slots:
        policy.admit(each)
    assert gone(policy, 1) == ["0"]
    remove(policy, slots[1])
    policy.admit(slot("4"))
    assert gone(policy, 3) == ["2", "3", "4"]


def test_s3fifo_settles_what_was_used_twice_on_probation() -> None:
    policy = S3Fifo()
    twice, once = slot("twice", uses=2), slot("once", uses=1)
    policy.admit(twice)
    policy.admit(once)
    assert gone(policy, 1) == ["once"]
    assert twice.settled


def test_s3fifo_takes_a_ghost_that_comes_back_straight_into_the_main_queue() -> None:
    policy = S3Fifo()
    for name in "abcd":
        policy.admit(slot(name))
    assert gone(policy, 1) == ["a"]
    assert policy.overhead > 0
    again = slot("a")
    policy.admit(again)
    assert again.settled
    assert gone(policy, 3) == ["b", "c", "d"]


def test_s3fifo_keeps_no_more_ghosts_than_residents() -> None:
    policy = S3Fifo()
    for n in range(100):
        policy.admit(slot(str(n)))
    gone(policy, 90)
    assert len(policy._ghosts) <= 10
    gone(policy, 10)
    assert policy.overhead == 0


@pytest.mark.parametrize(("name", "spared"), [("s3fifo", True), ("sieve", True), ("lru", False)])
def test_a_scan_does_not_flush_the_hot_set_unless_it_is_lru(name: str, spared: bool) -> None:
    """A thousand warm keys asked for in turn, with twice the tier's room scanned through between."""
    tier = MemoryTier((ENTRY_BYTES + 200) * 1_500, 10_000, policy=name)
    hot = [b"hot%d" % n for n in range(1_000)]
    for _ in range(3):
        for key in hot:
            if tier.get(key, 0.0) is None:
                tier.put(key, entry(), 0.0)
    hits = 0
    for turn in range(10):
        for n in range(3_000):
            tier.put(b"scan%d:%d" % (turn, n), entry(), 0.0)
        for key in hot:
            if tier.get(key, 0.0) is None:
                tier.put(key, entry(), 0.0)
            else:
                hits += 1
    assert (hits / 10_000 > 0.95) is spared
