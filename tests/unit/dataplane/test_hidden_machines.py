"""A URL that hides several machines, of which some lag or stand on another branch: nothing that only such a machine
says is kept for good, in memory or in Redis, while probes meet whichever machine they meet."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from rpcaccel.config.model import NetworkSettings, Settings
from rpcaccel.core.plan.range_segments import cut
from rpcaccel.simnode.chain.knobs import Knobs
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.dataplane.asked import Asked, draw
from tests.support.dataplane.witness import said
from tests.support.dataplane.world import World

HARMONY, ETHEREUM = "one", "three"
LONG_CHAIN = 2600
"""Blocks of the chains to begin with: far more than what is doubted."""
BEHIND = (0, 0, 1, 3, 40, 600)
"""Blocks by which the machines behind each Harmony URL lag."""
BEHIND_ON_A_BRANCH = (0, 0, 0, 1, 2)
"""The same behind each Ethereum URL, where the second and the third may stand on another branch."""
BRANCHED = 3
"""Blocks that differ there."""
OFFSETS = (0, 0, -1, -2, -5, -30, -100, -590, -1200, -2000)
"""Blocks that calls are about, from the head."""
ROUNDS = 12
CALLS_OF_A_ROUND = 25


@dataclass
class HidingWorld(World):
    """Each node is a URL behind which several machines answer, each call by whichever is drawn."""

    kinds: dict[str, str] = field(default_factory=lambda: {HARMONY: "harmony", ETHEREUM: "ethereum"})
    head: int = LONG_CHAIN
    seed: int = 0
    probes_meet_all: bool = False
    """Do probes meet any machine, too? Otherwise they meet the best one, which is worse."""

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.behind: dict[str, list[SimNode]] = {}
        super().__post_init__()

    def settings_with(
        self, without: frozenset[str] = frozenset(), weights: dict[str, int] | None = None, **net: Any
    ) -> Settings:
        """As an operator has it who knows nothing of these machines."""
        usual = NetworkSettings.model_fields["hidden_lag"].default
        return super().settings_with(without, weights, **{"refresh": 0.0, "hidden_lag": usual, **net})

    def answering(self, node: SimNode, *, probe: bool) -> SimNode:
        if node.name not in self.behind:
            lags = BEHIND if self.kinds[node.name.rpartition("-")[0]] == "harmony" else BEHIND_ON_A_BRANCH
            self.behind[node.name] = [
                SimNode(node.chain, name=node.name, knobs=Knobs(limiters=False, lag=lag), clock=self.clock)
                for lag in lags
            ]
        machines = self.behind[node.name]
        return machines[0] if probe and not self.probes_meet_all else self.rng.choice(machines)

    def branch_off(self) -> None:
        """Some machines of each Ethereum URL stay on a branch that the others leave; those that had stayed follow."""
        chain = self.chains[ETHEREUM]
        for node in self.nodes[ETHEREUM]:
            machines = self.behind[node.name]
            for machine in machines:
                machine.knobs.branch = -1
            for machine in machines[1:3]:
                machine.knobs.branch = len(chain.branches) - 1
        chain.reorg(BRANCHED)

    def next_head(self, network: str) -> None:
        """A block comes, every host hears of it: what was true at the head before is out of reach."""
        self.chains[network].advance(1)
        for host in self.hosts:
            for node in self.nodes[network]:
                self.run(host.probe(node))
            self.run(host.see(network))
        self.let_through()

    def ask(self, host: int, asked: Asked) -> None:
        """A call, and everything that follows from it."""
        self.start(self.hosts[host].ask(asked.network, asked.body))
        self.let_through()
        while self.shared.writes:
            self.shared.write(0)

    def pieces(self, asked: Asked) -> list[Asked]:
        """The call itself, and the settled pieces it is cut into if it is about a range."""
        served = self.hosts[0].state.networks[asked.network]
        span = served.plan(asked.method, asked.params).range
        cuts = [] if span is None else cut(span, served.settings.ranges.segment)
        return [asked] + [replace(asked, params=span.params(c.first, c.last)) for c in cuts if span and not c.open]

    def lasting(self, asked: Asked) -> list[bytes]:
        """What the tiers of all hosts keep for good of a call."""
        found = []
        for host in self.hosts:
            key = host.state.networks[asked.network].plan(asked.method, asked.params).key
            entries = [] if key is None else [host.memory.peek(key, self.clock.now()), self.shared.held.get(key)]
            found += [entry.result for entry in entries if entry is not None]
        return found

    def truths(self, asked: Asked) -> set[bytes]:
        """What is true of a call; what names a block by its hash is true on whatever branch that is."""
        chain = self.chains[asked.network]
        branches = range(len(chain.branches))
        return {
            said(self.truth(asked.network, asked.method, asked.params, branch, chain.head))
            for branch in (branches if asked.by_hash else branches[-1:])
        }


def story(seed: int, rounds: int, *, probes_meet_all: bool) -> tuple[int, int]:
    """A long story; how many answers were found kept for good about blocks near the head, and about deep ones."""
    world = HidingWorld(seed=seed, probes_meet_all=probes_meet_all)
    rng, asked, near, deep = Random(seed), dict[Asked, int](), 0, 0
    try:
        for _ in range(rounds):
            network = rng.choice((HARMONY, ETHEREUM))
            if network == ETHEREUM and rng.random() < 0.5:
                world.branch_off()
            world.next_head(network)
            for _ in range(CALLS_OF_A_ROUND):
                offset = rng.choice(OFFSETS)
                one = draw(
                    network, world.chains[network], rng.randrange(30), offset, rng.randrange(3), rng.randrange(4)
                )
                for _ in range(rng.randint(1, 3)):
                    world.ask(rng.randrange(2), one)
                asked |= dict.fromkeys(world.pieces(one), world.chains[network].head + offset)
            for name in (HARMONY, ETHEREUM):
                world.next_head(name)
            for one, block in asked.items():
                for result in world.lasting(one):
                    assert result in world.truths(one), f"{one.method} {one.params!r}: {result[:200]!r}"
                    head = world.chains[one.network].head
                    near, deep = near + (block > head - 100), deep + (block < head - 1000)
    finally:
        world.close()
    return near, deep


@pytest.mark.parametrize("probes_meet_all", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_nothing_that_only_a_hidden_machine_says_is_kept_for_good(seed: int, probes_meet_all: bool) -> None:
    near, deep = story(seed, ROUNDS, probes_meet_all=probes_meet_all)
    assert near, "what shows that its machine had the block is kept at once"
    assert deep, "what lies deep is kept whatever it looks like"
