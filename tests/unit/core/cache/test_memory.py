"""The memory tier: bounded in bytes, true to what was put and complete in its purges."""

from __future__ import annotations

import subprocess
import sys
from math import inf

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from rpcaccel.core.cache.entry import Entry, Selection
from rpcaccel.core.cache.memory import ENTRY_BYTES, MemoryTier
from rpcaccel.core.plan.rules import CacheClass
from tests.support.properties import examples


def entry(result: bytes = b'"0x1"', *, method: str = "call", expires: float = inf) -> Entry:
    return Entry(result=result, cache=CacheClass.HEAD, network="s0", method=method, stored_at=0.0, expires=expires)


def weight_of(key: bytes, kept: Entry) -> int:
    """The bytes that are counted for an entry."""
    return ENTRY_BYTES + len(key) + len(kept.result)


@pytest.fixture
def tier() -> MemoryTier:
    return MemoryTier(20_000, 5_000)


class Model(RuleBasedStateMachine):
    """Random puts, gets, purges, resizes and waits against a plain dict of everything ever put."""

    keys = Bundle("keys")

    @initialize(max_bytes=st.integers(600, 20_000))
    def start(self, max_bytes: int) -> None:
        self.tier = MemoryTier(max_bytes, 4_000)
        self.model: dict[bytes, Entry] = {}
        self.now = 0.0

    @rule(target=keys, network=st.sampled_from(["s0", "s1"]), method=st.sampled_from(["a", "b"]), n=st.integers(0, 30))
    def name(self, network: str, method: str, n: int) -> bytes:
        return f"{network}:{method}:{n}".encode()

    @rule(key=keys, size=st.integers(0, 5_000), life=st.one_of(st.just(inf), st.floats(-1, 20)))
    def put(self, key: bytes, size: int, life: float) -> None:
        new = entry(b"x" * size, expires=self.now + life)
        kept = self.tier.put(key, new, self.now)
        self.model[key] = new
        assert self.tier.peek(key, self.now) is (new if kept else None)

    @rule(key=keys)
    def get(self, key: bytes) -> None:
        found = self.tier.get(key, self.now)
        if found is not None:
            assert found is self.model.get(key)
            assert found.expires > self.now

    @rule(seconds=st.floats(0, 15))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(network=st.sampled_from(["", "s0"]), method=st.sampled_from(["", "a"]))
    def purge(self, network: str, method: str) -> None:
        before = len(self.tier)
        selection = Selection(network=network, method=method)
        assert self.tier.purge(selection) == before - len(self.tier)
        for key in [key for key in self.model if selection.matches(key)]:
            del self.model[key]
            assert self.tier.get(key, self.now) is None

    @rule(key=keys)
    def purge_key(self, key: bytes) -> None:
        self.tier.purge(Selection(key=key))
        self.model.pop(key, None)
        assert self.tier.peek(key, self.now) is None

    @rule(max_bytes=st.integers(0, 20_000))
    def resize(self, max_bytes: int) -> None:
        self.tier.resize(max_bytes, 4_000, self.now)

    @invariant()
    def bounded_and_counted(self) -> None:
        if not hasattr(self, "tier"):
            return
        assert self.tier.size <= self.tier.max_bytes
        kept = [(key, self.tier._slots[key].entry) for key in self.tier._slots]
        counted = sum(weight_of(key, value) for key, value in kept if value is not None)
        assert counted + self.tier._eviction.overhead == self.tier.size
        assert len(kept) == len(self.tier) == self.tier.stats().entries


Model.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestModel = Model.TestCase


def test_a_hit_returns_the_entry_itself(tier: MemoryTier) -> None:
    kept = entry()
    assert tier.put(b"k", kept, 0.0)
    assert tier.get(b"k", 1.0) is kept
    assert tier.stats().hits == 1


def test_an_expired_entry_is_a_miss_and_is_dropped(tier: MemoryTier) -> None:
    tier.put(b"k", entry(expires=10.0), 0.0)
    assert tier.get(b"k", 9.99) is not None
    assert tier.get(b"k", 10.0) is None
    stats = tier.stats()
    assert (stats.entries, stats.misses, stats.expired, stats.bytes) == (0, 1, 1, 0)


def test_an_entry_past_its_time_is_not_taken_in_and_ends_the_one_before(tier: MemoryTier) -> None:
    tier.put(b"k", entry(), 0.0)
    assert not tier.put(b"k", entry(expires=4.0), 5.0)
    assert tier.get(b"k", 5.0) is None


def test_an_entry_too_large_is_rejected_counted_and_ends_the_one_before(tier: MemoryTier) -> None:
    tier.put(b"k", entry(b"old"), 0.0)
    assert not tier.put(b"k", entry(b"x" * 5_000), 0.0)
    assert tier.get(b"k", 0.0) is None
    assert tier.stats().rejected == 1


def test_an_entry_larger_than_the_whole_tier_is_rejected() -> None:
    tier = MemoryTier(1_000, 5_000)
    assert not tier.put(b"k", entry(b"x" * 1_000), 0.0)
    assert (len(tier), tier.stats().rejected) == (0, 1)


def test_a_full_tier_evicts_and_says_how_many(tier: MemoryTier) -> None:
    for n in range(100):
        tier.put(b"k%d" % n, entry(), 0.0)
    stats = tier.stats()
    assert stats.evictions == 100 - stats.entries > 0
    assert stats.bytes <= stats.max_bytes
    assert stats.puts == 100


def test_what_is_asked_for_again_and_again_is_there_after_a_scan_of_many_times_the_tier() -> None:
    tier = MemoryTier(1_000_000, 10_000)

    def ask(key: str, size: int) -> bool:
        found = tier.get(key.encode(), 0.0) is not None
        if not found:
            tier.put(key.encode(), entry(b"x" * size), 0.0)
        return found

    for turn in range(20):
        for number in range(200):
            ask(f"hot {number}", 1_000)
        for number in range(100):
            ask(f"scan {turn}: {number}", 4_000)
    for number in range(2_500):
        ask(f"a long scan: {number}", 4_000)
    assert sum(ask(f"hot {number}", 1_000) for number in range(200)) > 190


def test_peek_counts_and_moves_nothing(tier: MemoryTier) -> None:
    tier.put(b"k", entry(expires=5.0), 0.0)
    assert tier.peek(b"k", 0.0) is not None
    assert tier.peek(b"k", 5.0) is None
    assert tier.peek(b"nothing", 0.0) is None
    assert (tier.stats().hits, tier.stats().misses, len(tier)) == (0, 0, 1)


def test_what_is_found_counts_nothing(tier: MemoryTier) -> None:
    tier.put(b"k", entry(expires=5.0), 0.0)
    assert tier.find(b"nothing", 0.0) is None
    assert tier.find(b"k", 5.0) is None
    slot = tier.find(b"k", 4.9)
    assert slot is not None
    assert (slot.key, slot.uses, tier.stats().hits, tier.stats().misses) == (b"k", 0, 0, 0)


def test_a_compressed_form_is_made_once_counted_and_gone_with_its_entry(tier: MemoryTier) -> None:
    tier.put(b"k", entry(b"1" * 1000), 0.0)
    (slot,), before = tier._slots.values(), tier.size
    squeezed = tier.squeeze(slot, b"1" * 1000, 0.0)
    assert tier.squeeze(slot, b"other", 0.0) is squeezed
    assert tier.size == before + len(squeezed) == slot.weight
    tier.put(b"k", entry(b"2" * 1000), 0.0)
    assert (slot.squeezed, tier.size) == (b"", before)
    tier.squeeze(slot, b"2" * 1000, 0.0)
    tier.discard(b"k")
    assert (slot.squeezed, tier.size) == (b"", 0)


def test_a_compressed_form_makes_room_for_itself(tier: MemoryTier) -> None:
    weight = weight_of(b"0", entry(b"1" * 1000))
    tier.resize(4 * weight, 4 * weight, 0.0)
    for number in range(4):
        tier.put(b"%d" % number, entry(b"1" * 1000), 0.0)
    tier.squeeze(tier._slots[b"3"], bytes(range(256)), 0.0)
    assert len(tier) < 4
    assert tier.size <= 4 * weight
    assert tier.stats().evictions == 4 - len(tier)


def test_purging_everything_leaves_nothing_and_the_tier_goes_on(tier: MemoryTier) -> None:
    for n in range(10):
        tier.put(b"k%d" % n, entry(), 0.0)
    assert tier.purge(Selection()) == 10
    assert (len(tier), tier.size, tier.stats().purged) == (0, 0, 10)
    assert tier.put(b"k", entry(), 0.0)


def test_the_repr_is_short() -> None:
    tier = MemoryTier(2_000, 1_000)
    tier.put(b"k", entry(b"1"), 0.0)
    assert repr(tier) == f"<MemoryTier 1 entries {ENTRY_BYTES + 2}/2000 B>"


FILL = """
import gc, random, sys
from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.plan.rules import CacheClass

def resident():
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * 4096

limit, size, rounds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
rng = random.Random(1)
tier = MemoryTier(limit, 8 << 20)
gc.collect()
before, most, written, n = resident(), 0, 0, 0
while written < limit * rounds:
    n += 1
    result = b"x" * int(size * rng.choice((0.1, 0.3, 1, 1, 3, 8)))
    key = b"harmony-s0:hmyv2_getBalanceByBlockNumber:%040d:%d" % (n, n)
    tier.put(key, Entry(result=result, cache=CacheClass.BY_NUMBER, block=1000 + n, network="harmony-s0",
                        method="hmyv2_getBalanceByBlockNumber", stored_at=n * 1.5, expires=n * 1.5 + 1e9), 0.0)
    if rng.random() < 0.2:
        tier.get(key, 0.0)
    written += len(result) + 500
    if n % 2000 == 0:
        most = max(most, resident())
print((max(most, resident()) - before) / limit, tier.size / limit)
"""


def growth(limit: int, size: int, rounds: float) -> float:
    """Resident growth of a process that fills a tier, as a share of the configured bytes."""
    arguments = [str(limit), str(size), str(rounds)]
    run = subprocess.run([sys.executable, "-c", FILL, *arguments], capture_output=True, text=True, check=True)
    grown, counted = (float(word) for word in run.stdout.split())
    assert counted > 0.9
    return grown


needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads resident memory from /proc")


@needs_linux
@pytest.mark.parametrize("size", [50, 1_700, 20_000])
def test_a_full_tier_costs_the_process_what_it_counts(size: int) -> None:
    assert 0.7 < growth(24 << 20, size, 3.0) < 1.25


@needs_linux
@pytest.mark.deep
def test_half_a_gigabyte_costs_the_process_what_it_counts() -> None:
    assert 0.7 < growth(512 << 20, 1_700, 2.0) < 1.25


@pytest.mark.parametrize("selection", [Selection(), Selection(network="s0")])
def test_a_purge_goes_on_in_steps_while_entries_come_and_go(selection: Selection) -> None:
    tier = MemoryTier(50_000_000, 1_000)
    for n in range(3000):
        tier.put(b"s0:a:%d" % n, entry(), 0.0)
    steps, removed = tier.purge_steps(selection), 0
    for number, _ in enumerate(steps):
        tier.put(b"s1:a:%d" % number, entry(), 0.0)
        removed += tier.discard(b"s0:a:%d" % (2999 - number))
    assert number >= 3000 // 256
    assert not any(tier.peek(b"s0:a:%d" % n, 0.0) for n in range(3000))
    assert len(tier) == number + 1
    assert tier.size == sum(weight_of(b"s1:a:%d" % n, entry()) for n in range(number + 1))
    assert tier.stats().purged == 3000 - removed
    assert len(list(tier.count_steps(selection))) >= 1
