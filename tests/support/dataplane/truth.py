"""Everything that can happen, one thing at a time or as a storm: what the tests of truth let loose on a witness."""

from __future__ import annotations

import os
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.replies.failure import FailureKind
from tests.support.dataplane.witness import FORKING, LOST, NETWORKS, SELECTIONS, STALLING, Witness
from tests.support.dataplane.world import DEPTH

SHORT_STORMS, STORMS = range(2), range(2, 18)
"""The storms that every run goes through, and those that are left to the long one."""
MORE_STORMS = range(first := int(os.environ.get("TRUTH_FROM", "18")), first + int(os.environ.get("TRUTH_STORMS", "0")))
"""Those that somebody asks for (`make truth`)."""
MOVES_OF_A_STORM = 200

HOST = st.sampled_from([0, 1])
NETWORK = st.sampled_from(sorted(set(NETWORKS)))
WHICH = st.integers(0, 9)
CHOICE = st.tuples(NETWORK, st.integers(0, 30), st.integers(-3, 2), st.integers(0, 3), st.integers(0, 1))
"""Which network, which kind of call, about which block (from the head), how spelled, about whom."""
MOVES = st.lists(st.tuples(WHICH, st.booleans()), min_size=1, max_size=6)


class Truth(RuleBasedStateMachine):
    """Everything that can happen, one thing at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.witness = Witness()

    def teardown(self) -> None:
        self.witness.world.close()

    @invariant()
    def nothing_is_a_lie(self) -> None:
        self.witness.look_at_everything()

    @rule(host=HOST, choices=st.lists(CHOICE, min_size=1, max_size=5))
    def call(self, host: int, choices: list[tuple[str, int, int, int, int]]) -> None:
        for network, which, offset, how, who in choices:
            self.witness.call(host, network, which, offset, how, who)

    @rule(hosts=st.lists(HOST, min_size=1, max_size=3), which=WHICH)
    def call_again(self, hosts: list[int], which: int) -> None:
        for host in hosts:
            self.witness.call_again(host, which)

    @rule(which=WHICH)
    def leave(self, which: int) -> None:
        self.witness.leave(which)

    @precondition(lambda self: self.witness.world.sent)
    @rule(moves=MOVES)
    def answer(self, moves: list[tuple[int, bool]]) -> None:
        for which, back in moves:
            self.witness.answer(which, back=back)

    @precondition(lambda self: self.witness.world.sent)
    @rule(which=WHICH, kind=st.sampled_from(LOST))
    def lose(self, which: int, kind: FailureKind) -> None:
        self.witness.lose(which, kind)

    @rule(moves=MOVES)
    def redis(self, moves: list[tuple[int, bool]]) -> None:
        for which, write in moves:
            self.witness.redis(which, write=write)

    @rule()
    def redis_dies_or_comes_back(self) -> None:
        self.witness.redis_dies_or_comes_back()

    @rule()
    def let_through(self) -> None:
        self.witness.world.let_through()

    @rule(network=NETWORK, blocks=st.integers(1, 2))
    def advance(self, network: str, blocks: int) -> None:
        self.witness.advance(network, blocks)

    @rule(name=st.sampled_from(STALLING))
    def stall(self, name: str) -> None:
        self.witness.stall(name)

    @rule(depth=st.integers(1, DEPTH // 2), late=st.integers(0, 7))
    def reorganise(self, depth: int, late: int) -> None:
        self.witness.reorganise(depth, late)

    @rule(which=st.integers(0, 2))
    def follow(self, which: int) -> None:
        self.witness.follow(which)

    @rule(network=NETWORK)
    def send(self, network: str) -> None:
        self.witness.send(network)

    @rule(host=HOST, which=st.integers(0, 8))
    def probe(self, host: int, which: int) -> None:
        self.witness.probe(host, list(self.witness.world.by_id.values())[which])

    @rule(host=HOST, network=NETWORK)
    def tell(self, host: int, network: str) -> None:
        self.witness.tell(host, network)

    @rule(network=NETWORK)
    def look(self, network: str) -> None:
        self.witness.look(network)

    @rule(seconds=st.sampled_from([0.5, 3.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self.witness.world.clock.advance(seconds)

    @rule(
        out=st.sets(st.sampled_from(["one-2", "two-1"])),
        weights=st.dictionaries(st.sampled_from(["one-0", "one-1"]), st.integers(0, 3)),
        attempts=st.integers(1, 3),
    )
    def adopt(self, out: set[str], weights: dict[str, int], attempts: int) -> None:
        self.witness.adopt(frozenset(out), weights, attempts)

    @rule(host=HOST)
    def restart(self, host: int) -> None:
        self.witness.restart(host)

    @rule(host=HOST, selection=st.sampled_from(SELECTIONS))
    def purge(self, host: int, selection: Selection) -> None:
        self.witness.purge(host, selection)


def tell_stories(number: int) -> None:
    """So many stories of fifty things each, made up by Hypothesis."""
    run_state_machine_as_test(Truth, settings=settings(max_examples=number, stateful_step_count=50, deadline=None))


def weather(storm: int) -> None:
    """A long story with the usual things more often: what the machine above is slow to come upon. A story that is told
    with the suite must also be one in which something happens; one of the others may be quiet."""
    witness = Witness()
    try:
        for move in range(MOVES_OF_A_STORM):
            witness.anything(Random(storm * MOVES_OF_A_STORM + move))
    finally:
        witness.world.close()
    if storm in SHORT_STORMS or storm in STORMS:
        assert FORKING in {asked.network for asked in witness.recent}
        assert witness.seen["node"] > 20
        assert witness.seen["kept"] > 100
