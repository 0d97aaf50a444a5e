"""What a host of `world.py` can know of the branches of a chain that can reorganise: what its probes met."""

from __future__ import annotations

from collections import Counter, defaultdict
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
        self._on: dict[str, int] = {}
        """By node: the branch the node was on when it was last probed."""
        self._told: dict[str, int] = {}
        """The same when the data plane was last told."""
        self._heads: dict[str, int] = {}
        """By node: the newest block it had then."""
        self._looks: Counter[str] = Counter()
        """By node: how often it was probed since any node was found on another branch than before."""
        self._met: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
        """By node: the blocks that probes met there, by number and fork."""
        self._left: set[tuple[int, int]] = set()
        """Those of them that a node was seen to have left."""
        for node in nodes:
            self.probe(node)

    def __repr__(self) -> str:
        return f"<branches met from {self.oldest} on, nodes on {self._on}>"

    def probe(self, node: SimNode) -> None:
        """The host's prober looks at a node."""
        number, head = node.knobs.branch % len(self._branches), node.brain.head
        if self._on.get(node.name) != number:
            self._looks.clear()
        self._looks[node.name] += 1
        self._on[node.name], self._heads[node.name] = number, head
        branch = self._branches[number]
        self._met[node.name] |= {(block, branch.fork_of(block)) for block in range(head + 1 - DEPTH, head + 1)}

    def tell(self) -> None:
        """The host's data plane hears what the prober knows: what most nodes have left is abandoned."""
        self._told = dict(self._on)
        ((branch, those),) = Counter(self._on.values()).most_common(1)
        if those > len(self._on) / 2 and self._shown([name for name, on in self._on.items() if on == branch]):
            self.oldest = max(self.oldest, branch)
        for name, met in self._met.items():
            its = self._branches[self._on[name]]
            self._left |= {(block, fork) for block, fork in met if its.fork_of(block) != fork}

    def _shown(self, names: Sequence[str]) -> bool:
        """Is it shown that these nodes are on one branch?

        A node tells its newest block and the one before. Nodes that are further apart show what they have in common
        when they are asked for it, at the second look.
        """
        heads = [self._heads[name] for name in names]
        return max(heads) - min(heads) <= 1 or all(self._looks[name] > 1 for name in names)

    def allows(self, branch: int, since: int, node: str) -> bool:
        """May a node's answer come from a branch, for a call that came in when `since` was the oldest?

        A node may leave a branch before the host has met any of the branch's own blocks there. Then nothing tells the
        host that an answer under way, about such a block, is of no branch any more. A call that came in after the
        branch was abandoned must not get it, and no call may get the answer of a node that is known to be on it.
        """
        if branch >= self.oldest:
            return True
        return branch >= since and self._told.get(node, 0) >= self.oldest and not self._seen_to_be_left(branch)

    def _seen_to_be_left(self, branch: int) -> bool:
        """Was a node seen to leave the first block in which a branch differs from the oldest that is not abandoned?"""
        its, others = self._branches[branch], self._branches[self.oldest]
        first = next(block for block in count() if its.fork_of(block) != others.fork_of(block))
        return (first, its.fork_of(first)) in self._left
