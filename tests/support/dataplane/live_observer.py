"""What a perfect observer of the served branch would have sent, and whether a client was sent that.

Nothing here knows how the product does it: there are only the tree of blocks, the served heads in their order, and the
notifications of one client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rpcaccel.core.live.subscription import HEADS
from tests.support.dataplane.live_tree import Tree, TreeBlock, log_of, matches
from tests.support.dataplane.live_world import LiveClient, LiveWorld

Sent = list[tuple[bool, TreeBlock]]
"""Blocks in order; True: taken back."""


def perfect(tree: Tree, served: Sequence[str], joined: int, first: int | None = None) -> Sent:
    """What an observer sends who sends every served head at once, to a client that comes after `joined` of them.

    Args:
        first: the block with which the client wants to begin.
    """
    tip = served[0]
    for head in served[1:joined]:
        tip = tip if tree.has(tip, head) else head  # a head may go back on its own branch
    sent: Sent = []
    if first is None:  # the blocks above a head that went back are new to a client that comes then
        first = tree.blocks[served[joined - 1]].number + 1
    if first is not None:
        low = tree.below(tip, first - 1)
        sent = [(False, block) for block in tree.between(low.hash, tip)]
    told = {block.hash for _, block in sent}
    for head in served[joined:]:
        if tree.has(tip, head):
            continue
        fork = tree.fork(tip, head)
        gone = tree.between(fork.hash, tip)
        sent += [(True, block) for block in gone if block.hash in told]
        came = tree.between(fork.hash, head)
        sent += [(False, block) for block in came]
        told = (told - {block.hash for block in gone}) | {block.hash for block in came}
        tip = head
    return sent


def notifications(sent: Sent, client: LiveClient) -> list[Any]:
    """The notifications of one client about these blocks: hashes of heads, or logs."""
    if client.kind == HEADS:
        return [block.hash for back, block in sent if not back]
    assert client.filter is not None
    criteria = client.filter.params()
    return [
        log_of(block, place, block.hash, removed=back)
        for back, block in sent
        for place in range(len(block.logs))
        if matches(criteria, block.logs[place])
    ]


def wanted(world: LiveWorld, client: LiveClient) -> list[Any]:
    """What a perfect observer sends who begins when the client came."""
    return notifications(perfect(world.tree, world.served, client.joined_at, client.first), client)


def received(client: LiveClient) -> list[Any]:
    """What the client was sent."""
    return [one["hash"] for one in client.results] if client.kind == HEADS else client.results


class Judge:
    """Judges the stream of one client where the follower could not see every served head at once.

    Then a served head that was left at once may be missing, but not more: what the client has must link, block by
    block, without gap or double, must consist of blocks of branches that were served, and must end at the served head.

    Args:
        believable: tips of branches that no follower could know to be false (LiveWorld.believable).
    """

    def __init__(self, tree: Tree, served: Sequence[str], client: LiveClient, believable: Sequence[str] = ()) -> None:
        self.tree, self.served, self.client = tree, served, client
        self.lives = [*served[max(0, client.known - 1) :], *believable]
        """The heads that were served in the client's life, and before it since everything had been sent; and those
        that could not be told from served ones."""
        self.start = served[client.joined_at - 1]
        """The served head when the client came."""

    def look(self, *, at_rest: bool) -> None:
        """Raise AssertionError when something is wrong. `at_rest`: everything has been sent."""
        blocks = self._heads() if self.client.kind == HEADS else self._logs(at_rest=at_rest)
        if at_rest:
            self._complete(blocks)

    def _heads(self) -> list[str]:
        """The heads that the client was sent and that were not left."""
        have: list[str] = []
        for head in received(self.client):
            block = self.tree.blocks[head]
            self._was_served(block)
            assert head not in have, f"block {block.number} comes twice"
            if have:
                assert self.tree.fork(have[-1], head).hash == block.parent, f"a gap before block {block.number}"
            else:
                self._first(block)
            if have and have[-1] != block.parent:
                have = [one for one in have if self.tree.has(head, one)]
            have.append(head)
        return have

    def _logs(self, *, at_rest: bool) -> list[str]:
        """The blocks whose logs the client was sent and that were not taken back. Of the last one before some are taken
        back, or before the end, there may be a part: the client did not read on."""
        have: dict[str, int] = {}
        """How many logs of each block it was sent."""
        results, at = received(self.client), 0
        while at < len(results):
            first, head, back = at == 0, results[at]["blockHash"], results[at]["removed"]
            block = self.tree.blocks[head]
            if back:
                assert head in have, f"block {block.number} is taken back twice, or was not sent"
                gone = list(have)[list(have).index(head) :]
                each = [notifications([(True, self.tree.blocks[one])], self.client)[: have.pop(one)] for one in gone]
                wanted = [log for logs in each for log in logs]
            else:
                self._was_served(block)
                assert head not in have, f"block {block.number} comes twice"
                wanted = notifications([(False, block)], self.client)
                if have:
                    last = list(have)[-1]
                    assert self.tree.has(head, last), f"block {block.number} is on another branch than the last"
                    between = self.tree.between(last, head)[:-1]
                    skipped = notifications([(False, one) for one in between], self.client)
                    assert not skipped, f"a gap before block {block.number}"
                    assert self._whole(have, last), f"a gap before block {block.number}: a part of the last one"
                elif first:
                    self._first(block)
                wanted = wanted[: self._run(results, at)]
                have[head] = len(wanted)
            rest = results[at : at + len(wanted)]
            assert rest == wanted[: len(rest)], f"the logs from block {block.number} on are not those"
            assert len(rest) == len(wanted) or not at_rest, f"the logs from block {block.number} on are not all there"
            at += len(wanted)
        assert not at_rest or all(self._whole(have, head) for head in have), "a part of the last block is missing"
        return list(have)

    def _whole(self, have: dict[str, int], head: str) -> bool:
        return have[head] == len(notifications([(False, self.tree.blocks[head])], self.client))

    @staticmethod
    def _run(results: Sequence[Any], at: int) -> int:
        """How many logs of one block follow on one another."""
        ends = at
        while ends < len(results) and all(results[ends][one] == results[at][one] for one in ("blockHash", "removed")):
            ends += 1
        return ends - at

    def _was_served(self, block: TreeBlock) -> None:
        assert any(self.tree.has(head, block.hash) for head in self.lives), f"block {block.number} was never served"

    def _first(self, block: TreeBlock) -> None:
        """The first block is the one that the client asked for, or one of another branch that reaches further down; or,
        when the client asked for none, one that came after what had been sent before."""
        first = self.client.first
        if first is not None:
            below = self.tree.blocks[block.parent].number if self.client.kind == HEADS else -1
            exact = below < first <= block.number
            turned = block.number < first and not self.tree.has(self.start, block.hash)
            assert exact or turned, f"block {block.number} is not the first that was asked for"
            return
        before = self.lives[0]
        flipped = any(not self.tree.has(head, before) for head in self.lives)
        assert flipped or not self.tree.has(before, block.hash), f"block {block.number} had been sent before"

    def _complete(self, have: list[str]) -> None:
        """Everything above the block where the client began is there."""
        tip = self.served[-1]
        low = self.tree.fork(self.start, tip)
        if self.client.first is not None:
            low = self.tree.below(tip, min(self.client.first - 1, low.number))
        wanted = self.tree.between(low.hash, tip)
        if self.client.kind != HEADS:
            wanted = [block for block in wanted if notifications([(False, block)], self.client)]
        missing = [block.number for block in wanted if block.hash not in have]
        assert not missing, f"blocks {missing} are missing"
        assert all(self.tree.has(tip, one) for one in have), "the client has blocks that were left"
