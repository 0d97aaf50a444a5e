"""What a host of `world.py` can know of the branches of a chain that can reorganise: what its probes met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count

from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.dataplane.world import DEPTH


class BranchesMet:
    """The branches of a chain as one host met them since it was started. Branches have numbers, the newest the last."""

    def __init__(self, chain: SimChain, nodes: Sequence[SimNode]) -> None:
        self.oldest = 0
        """The first branch that was not seen abandoned."""
        self._branches = chain.branches
        self._nodes = nodes
        self._on: dict[str, int] = {}
        """By node: the branch the node was on when it was last probed."""
        self._blocks: set[tuple[int, int]] = set()
        """The blocks that were met, by number and fork."""
        for node in nodes:
            self.probe(node)

    def __repr__(self) -> str:
        return f"<branches met from {self.oldest} on, nodes on {self._on}>"

    def probe(self, node: SimNode) -> None:
        """The host's prober looks at a node."""
        number = self._on[node.name] = node.knobs.branch % len(self._branches)
        branch, head = self._branches[number], node.brain.head
        self._blocks |= {(block, branch.fork_of(block)) for block in range(head + 1 - DEPTH, head + 1)}

    def tell(self) -> None:
        """The host's data plane hears what the prober knows: what most nodes have left is abandoned."""
        ((branch, on_it),) = Counter(self._on.values()).most_common(1)
        if on_it > len(self._nodes) / 2:
            self.oldest = max(self.oldest, branch)

    def allows(self, branch: int, since: int) -> bool:
        """May an answer come from a branch, for a call that came in when `since` was the oldest?

        A branch may have been abandoned before the host met any block of its own. Nothing then tells the host that an
        answer under way, about such a block, is of no branch any more. A call that came in later must not get it.
        """
        return branch >= self.oldest or (branch >= since and not self._seen_to_part(branch))

    def _seen_to_part(self, branch: int) -> bool:
        """Was the first block met in which a branch differs from the oldest that was not abandoned?"""
        its, others = self._branches[branch], self._branches[self.oldest]
        first = next(block for block in count() if its.fork_of(block) != others.fork_of(block))
        return (first, its.fork_of(first)) in self._blocks
