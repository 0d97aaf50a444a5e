"""Chains on which some heights have no block."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.live.block import LiveBlock
from rpcaccel.core.live.branch import FAR_BLOCKS, MAX_EMPTY_HEIGHTS, FollowedBranch, Want
from tests.support.followed_branch import begun, block, said


class Node:
    """A node with one branch, which may not have some of its newest blocks yet."""

    def __init__(self, *blocks: LiveBlock) -> None:
        self.blocks = list(blocks)
        self.asked = 0

    def answer(self, branch: FollowedBranch) -> None:
        for want in branch.wants():
            self.asked += 1
            for one in self.blocks:
                if one.hash == want.hash or (not want.hash and one.number == want.number):
                    branch.take(want, one)
                    break
            else:
                branch.failed(want, lacked=True)


def told(branch: FollowedBranch, node: Node, rounds: int = 100) -> list[str]:
    heads: list[str] = []
    for _ in range(rounds):
        heads += said(branch.moves())
        node.answer(branch)
    return heads


def chain(*numbers: int) -> list[LiveBlock]:
    """Blocks with these numbers on block 100."""
    below = [block(number) for number in range(80, 101)]
    for number in numbers:
        below.append(block(number, "a", below[-1].hash))
    return below


@pytest.mark.parametrize("hashed", [True, False])
@given(gaps=st.lists(st.sampled_from([0, 0, 1, 2, 15, 16, 17, FAR_BLOCKS, 2 * FAR_BLOCKS + 3]), min_size=1, max_size=8))
def test_every_block_is_sent_once_whatever_lies_between(hashed: bool, gaps: list[int]) -> None:
    numbers = [100 + place + sum(gaps[: place + 1]) for place in range(len(gaps))]
    numbers = [number + 1 for number in numbers]
    node, branch = Node(*chain(*numbers)), begun()
    branch.aim(numbers[-1], f"{numbers[-1]}a" if hashed else "")
    assert told(branch, node) == [f"{number}a" for number in numbers]
    assert not branch.lost


@pytest.mark.parametrize("final", [True, False])
def test_the_next_block_shows_that_a_height_has_none(final: bool) -> None:
    branch = begun(final_at_once=final)
    node = Node(*chain(102))
    branch.aim(101)
    assert told(branch, node) == []
    branch.aim(102)
    assert told(branch, node) == ["102a"]


@pytest.mark.parametrize("hashed", [True, False])
def test_a_block_that_a_node_does_not_have_yet_is_not_skipped(hashed: bool) -> None:
    branch = begun()
    blocks = chain(101, 102, 104)
    late = Node(*(one for one in blocks if one.number != 101))
    branch.aim(104, "104a" if hashed else "")
    assert told(branch, late) == []
    assert told(branch, Node(*blocks)) == ["101a", "102a", "104a"]


def test_on_a_chain_whose_blocks_are_final_at_once_a_missing_block_is_waited_for() -> None:
    branch = begun(final_at_once=True)
    blocks = chain(101, 102, 104)
    branch.aim(104)
    assert told(branch, Node(*(one for one in blocks if one.number != 101))) == []
    assert not branch.lost
    assert told(branch, Node(*blocks)) == ["101a", "102a", "104a"]


@pytest.mark.parametrize("false", [LiveBlock(102, "102a", "100a", b""), LiveBlock(101, "102a", "100a", b"")])
def test_a_header_that_was_only_pushed_skips_no_block(false: LiveBlock) -> None:
    branch = begun()
    branch.announce(false)
    branch.aim(102, "102a")
    assert branch.moves() == []
    branch.aim(103, "103a")
    assert told(branch, Node(*chain(101, 102, 103))) == ["101a", "102a", "103a"]


def test_a_pushed_header_above_an_empty_height_is_sent_once_the_block_was_fetched() -> None:
    branch = begun()
    above = block(103, "a", "100a")
    branch.announce(above)
    branch.aim(103, "103a")
    assert branch.moves() == []
    assert branch.wants()[0] == Want(103, "103a")
    assert told(branch, Node(*chain(103))) == ["103a"]


def test_a_reorganisation_over_empty_heights_takes_back_what_stood_there() -> None:
    branch = begun()
    branch.aim(104, "104a")
    assert told(branch, Node(*chain(101, 102, 104))) == ["101a", "102a", "104a"]
    branch.aim(105, "105b")
    assert told(branch, Node(*chain(), block(105, "b", "101a"))) == ["-102a", "-104a", "105b"]
    branch.aim(106, "106c")
    below = [one for one in chain(101) if one.number != 99]
    other = [block(103, "c", "98a"), block(106, "c", "103c")]
    assert told(branch, Node(*below, *chain(), *other))[-2:] == ["103c", "106c"]
    assert not branch.lost


def test_nodes_that_have_nothing_are_not_asked_about_all_heights() -> None:
    branch, node = begun(), Node()
    branch.aim(10**9)
    assert told(branch, node) == []
    assert max(want.number for want in branch.wants()) <= 100 + MAX_EMPTY_HEIGHTS + FAR_BLOCKS
