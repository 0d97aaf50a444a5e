from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.live.block import LiveBlock
from rpcaccel.core.live.branch import (
    BLOCK_TRIES,
    BLOCKS_AT_ONCE,
    FAR_BLOCKS,
    RESTARTED,
    ROOT_BLOCKS,
    Abandoned,
    Appended,
    FollowedBranch,
    Want,
)
from tests.support.followed_branch import begun, block, followed, give, said


def test_the_first_block_is_wanted_by_its_hash_and_not_sent() -> None:
    branch = FollowedBranch(100, "100a", final_at_once=False)
    assert branch.wants() == [Want(100, "100a")]
    branch.take(Want(100, "100a"), block(100))
    assert branch.tip.hash == "100a"
    assert branch.moves() == []


def test_blocks_between_are_wanted_by_number_side_by_side() -> None:
    branch = begun()
    branch.aim(104, "104a")
    assert branch.wants() == [Want(104, "104a"), Want(101), Want(102), Want(103)]
    give(branch, *(block(number) for number in range(101, 105)))
    assert said(branch.moves()) == ["101a", "102a", "103a", "104a"]


def test_nothing_is_sent_before_it_links_to_the_served_head() -> None:
    branch = begun()
    branch.aim(103, "103a")
    branch.take(Want(101), block(101))
    branch.take(Want(102), block(102))
    assert branch.moves() == []
    branch.take(Want(103, "103a"), block(103))
    assert said(branch.moves()) == ["101a", "102a", "103a"]


def test_a_block_of_another_branch_that_a_node_gave_by_number_is_not_sent() -> None:
    branch = begun()
    told = followed(
        branch, 103, "103a",
        block(101), block(102), block(103), block(101, "x", "100a"), block(102, "x"),
    )  # fmt: skip
    assert told == ["101a", "102a", "103a"]


def test_a_reorganisation_is_walked_down_by_hash_and_told_oldest_first() -> None:
    branch = begun()
    followed(branch, 102, "102a", block(101), block(102))
    branch.aim(103, "103b")
    assert branch.wants()[0] == Want(103, "103b")
    give(branch, block(103, "b"))
    assert branch.moves() == []
    assert branch.wants()[0] == Want(102, "102b")
    give(branch, block(102, "b"))
    assert branch.moves() == []
    assert branch.wants()[0] == Want(101, "101b")
    give(branch, block(101, "b", "100a"))
    assert said(branch.moves()) == ["-101a", "-102a", "101b", "102b", "103b"]


def test_a_head_that_goes_back_on_its_branch_sends_nothing() -> None:
    branch = begun()
    followed(branch, 102, "102a", block(101), block(102))
    for number, block_hash in ((101, "101a"), (100, ""), (7, "7a"), (102, "")):
        branch.aim(number, block_hash)
        assert branch.moves() == []
        assert all(want.number < 100 for want in branch.wants())


def test_a_branch_that_comes_back_is_not_fetched_again() -> None:
    branch = begun()
    followed(branch, 101, "101a", block(101))
    followed(branch, 101, "101b", block(101, "b", "100a"))
    branch.aim(101, "101a")
    assert said(branch.moves()) == ["-101b", "101a"]


def test_a_fork_below_the_first_block_is_found_by_the_blocks_below_it() -> None:
    branch = begun()
    below = [block(number) for number in range(90, 100)]
    told = followed(
        branch, 101, "101b", block(101, "b"), block(100, "b"), block(99, "b"), block(98, "b", "97a"), *below
    )
    assert told == ["-98a", "-99a", "-100a", "98b", "99b", "100b", "101b"]


def test_blocks_that_were_never_sent_are_abandoned_without_having_been() -> None:
    branch = begun()
    branch.aim(101, "101a")
    give(branch, block(101))
    branch.moves()
    branch.aim(101, "101b")
    for one in (block(101, "b"), block(100, "b", "99a")):
        branch.take(Want(one.number, one.hash), one)
    abandoned = [(move.block.hash, move.sent) for move in branch.moves() if isinstance(move, Abandoned)]
    assert abandoned == [("100a", False), ("101a", True)]


def test_a_fork_below_everything_that_is_remembered_is_lost() -> None:
    branch = begun(most=4)
    followed(branch, 110, "110a", *(block(number) for number in range(90, 111)))
    other = [block(number, "b") for number in range(100, 112)]
    assert followed(branch, 111, "111b", *other) == []
    assert branch.lost == RESTARTED
    assert branch.wants() == []


def test_a_fork_below_a_block_that_no_node_has_is_lost() -> None:
    branch = begun()
    branch.aim(100, "100b")
    give(branch, block(100, "b"))
    for _ in range(BLOCK_TRIES):
        assert branch.moves() == []
        assert not branch.lost
        branch.failed(Want(99, "99a"), lacked=True)
    branch.moves()
    assert branch.lost


def test_a_failure_to_reach_a_node_loses_nothing() -> None:
    branch = FollowedBranch(100, "100a", final_at_once=False)
    for _ in range(100):
        branch.failed(Want(100, "100a"), lacked=False)
    assert not branch.lost


def test_a_first_block_that_no_node_has_is_lost() -> None:
    branch = FollowedBranch(100, "100a", final_at_once=False)
    for _ in range(2 * BLOCK_TRIES):
        branch.failed(Want(100, "100a"), lacked=True)
    assert branch.lost


def test_without_a_hash_a_block_that_links_is_the_next() -> None:
    branch = begun()
    branch.aim(102)
    assert branch.wants() == [Want(101), Want(102)]
    give(branch, block(101), block(102))
    assert said(branch.moves()) == ["101a", "102a"]


@pytest.mark.parametrize("above", [1, BLOCKS_AT_ONCE, BLOCKS_AT_ONCE + 1, FAR_BLOCKS, FAR_BLOCKS + 1])
def test_without_a_hash_a_head_that_does_not_link_is_walked_down_from(above: int) -> None:
    branch = begun()
    followed(branch, 101, "101a", block(101))
    blocks = [block(101, "b", "100a"), *(block(number, "b") for number in range(102, 102 + above))]
    assert followed(branch, 101 + above, "", *blocks) == ["-101a", *(one.hash for one in blocks)]


def test_a_far_head_is_approached_in_chunks() -> None:
    branch = begun()
    far = 100 + 3 * FAR_BLOCKS
    branch.aim(far, f"{far}a")
    assert branch.moves() == []
    assert branch.wants() == [Want(101 + i) for i in range(BLOCKS_AT_ONCE)]
    give(branch, *(block(101 + i) for i in range(BLOCKS_AT_ONCE)))
    assert len(branch.moves()) == BLOCKS_AT_ONCE
    everything = [block(number) for number in range(101, far + 1)]
    assert len(followed(branch, far, f"{far}a", *everything)) == 3 * FAR_BLOCKS - BLOCKS_AT_ONCE


def test_a_far_head_is_pursued_though_a_node_lacks_a_block_below_the_first_one() -> None:
    branch = begun()
    far = 100 + 2 * FAR_BLOCKS
    branch.aim(far, f"{far}b")
    give(branch, *(block(number, "b") for number in range(101, 101 + BLOCKS_AT_ONCE)))
    branch.moves()
    give(branch, block(100, "b"))
    branch.moves()
    assert branch.wants()[0] == Want(99, "99a")
    branch.failed(Want(99, "99a"), lacked=True)
    assert branch.wants()[0] == Want(99, "99a")


@pytest.mark.parametrize("tip", ["a", ""])
@pytest.mark.parametrize(
    "above", [1, BLOCKS_AT_ONCE + 1, FAR_BLOCKS, FAR_BLOCKS + 1, FAR_BLOCKS + BLOCKS_AT_ONCE, 2 * FAR_BLOCKS]
)
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_a_head_is_reached_though_the_nodes_asked_first_were_behind(tip: str, above: int, rounds: int) -> None:
    branch = begun()
    head = 100 + above
    branch.aim(head, tip and f"{head}a")
    for _ in range(rounds):
        assert branch.moves() == []
        for want in branch.wants():
            if not want.hash:
                branch.failed(want, lacked=True)
    blocks = [block(number) for number in range(101, head + 1)]
    assert followed(branch, head, tip and f"{head}a", *blocks) == [one.hash for one in blocks]


def test_an_older_head_is_not_given_up_for_a_newer_one() -> None:
    branch = begun()
    branch.aim(101, "101a")
    branch.wants()
    branch.aim(102, "102a")
    assert {Want(101, "101a"), Want(102, "102a")} <= set(branch.wants())
    branch.take(Want(101, "101a"), block(101))
    assert said(branch.moves()) == ["101a"]


def test_an_older_head_that_fails_is_given_up() -> None:
    branch = begun()
    branch.aim(101, "101b")
    branch.aim(102, "102a")
    branch.failed(Want(101, "101b"), lacked=True)
    assert Want(101, "101b") not in branch.wants()


def test_an_older_head_is_not_given_up_because_no_node_can_be_reached() -> None:
    branch = begun()
    branch.aim(101, "101b")
    branch.aim(102, "102a")
    branch.failed(Want(101, "101b"), lacked=False)
    assert Want(101, "101b") in branch.wants()


def test_a_pushed_header_takes_the_place_of_a_fetch() -> None:
    branch = begun()
    branch.announce(LiveBlock(101, "101a", "100a", b"as the node sent it"))
    branch.aim(101, "101a")
    (move,) = branch.moves()
    assert isinstance(move, Appended)
    assert move.announced
    assert move.block.header == b"as the node sent it"


def test_pushed_headers_are_bounded() -> None:
    branch = begun(final_at_once=True)
    for number in range(101, 300):
        branch.announce(block(number))
    branch.aim(101)
    assert branch.moves() == []
    assert branch.wants() == [Want(101)]


def test_where_blocks_are_final_at_once_a_block_that_does_not_link_is_asked_for_again() -> None:
    branch = begun(final_at_once=True)
    branch.aim(101)
    branch.take(Want(101), block(101, "x"))
    assert branch.moves() == []
    assert branch.wants() == [Want(101)]
    branch.take(Want(101), block(101))
    assert said(branch.moves()) == ["101a"]
    assert not branch.lost


def test_where_blocks_are_final_at_once_a_branch_that_never_links_is_lost() -> None:
    branch = begun(final_at_once=True)
    branch.aim(101)
    for _ in range(BLOCK_TRIES):
        assert not branch.lost
        branch.take(Want(101), block(101, "x"))
        assert branch.moves() == []
    assert branch.lost


def test_where_blocks_are_final_at_once_each_that_links_is_sent_at_once() -> None:
    branch = begun(final_at_once=True)
    branch.aim(103)
    branch.take(Want(101), block(101))
    assert said(branch.moves()) == ["101a"]
    branch.take(Want(103), block(103))
    assert branch.moves() == []


def test_at_rest_the_blocks_below_the_first_one_are_wanted_for_comparison() -> None:
    branch = begun()
    assert branch.wants()[0] == Want(99, "99a")
    for _ in range(ROOT_BLOCKS):
        give(branch, *(block(number) for number in range(50, 100)))
    assert branch.first.number == 100 - ROOT_BLOCKS
    assert branch.wants() == []


def test_a_window_reaches_further_down_when_it_is_asked_to() -> None:
    branch = begun()
    assert not branch.reach(60)
    for _ in range(60):
        give(branch, *(block(number) for number in range(50, 100)))
    assert branch.reach(60)
    assert branch.first.number == 60


def test_a_window_is_bounded_in_blocks_and_in_bytes() -> None:
    branch = begun(most=32)
    followed(branch, 160, "160a", *(block(number) for number in range(80, 161)))
    assert branch.tip.number - branch.first.number == 31
    assert branch.wants() == []
    branch = begun(most_bytes=10_000)
    followed(branch, 160, "160a", *(block(number, size=500) for number in range(80, 161)))
    assert branch.tip.number == 160
    assert branch.tip.number - branch.first.number <= 20
    assert len(branch.wants()) <= BLOCKS_AT_ONCE


GAPS = st.integers(0, 30).map(lambda drawn: max(0, drawn - 25) if drawn < 30 else 70)
"""Heights without a block below a block: mostly none."""


class _RandomTree:
    """Blocks of branches that are drawn, and nodes that give any of them by number."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.known = {one.hash: one for one in map(block, range(84, 101))}
        self.tips = ["100a"]
        self.branch, self.sent = begun(), ["100a"]

    def look(self) -> None:
        """Take the moves: what is appended links to what was sent before it."""
        for move in self.branch.moves():
            if isinstance(move, Appended):
                assert not self.sent or move.block.parent == self.sent[-1]
                self.sent.append(move.block.hash)
            elif move.block.hash in self.sent:
                del self.sent[self.sent.index(move.block.hash) :]

    def grow(self, down: int, blocks: int) -> None:
        """Another head, so many blocks above one that is so many below the head."""
        on = self.known[self.tips[-1]]
        for _ in range(down):
            on = self.known.get(on.parent, on)
        gaps = self.data.draw(st.lists(GAPS, min_size=blocks, max_size=blocks))
        for gap in gaps:
            number = on.number + 1 + gap
            on = LiveBlock(number, f"{number}-{len(self.known)}", on.hash, b"")
            self.known[on.hash] = on
        self.flip(on.hash)

    def flip(self, tip: str) -> None:
        """Another head."""
        self.tips.append(tip)
        self.branch.aim(self.known[tip].number, tip)

    def answer(self, *, by_hash: bool) -> None:
        """What is wanted is given: by number from any branch, by hash only sometimes."""
        for want in self.branch.wants():
            found = [
                one
                for one in self.known.values()
                if (one.hash == want.hash if want.hash else one.number == want.number) and one.number <= want.number
            ]
            if found and (by_hash or not want.hash):
                self.branch.take(want, self.data.draw(st.sampled_from(found)))
            elif not found:
                self.branch.failed(want, lacked=True)

    @property
    def reached(self) -> bool:
        tip = self.tips[-1]
        return self.branch.holds(self.known[tip].number, tip)


@given(st.data())
def test_what_is_sent_always_links_and_ends_at_the_served_head(data: st.DataObject) -> None:
    tree = _RandomTree(data)
    for _ in range(data.draw(st.integers(1, 25))):
        what = data.draw(st.sampled_from(["grow", "fork", "flip", "answer", "lie", "push"]))
        if what in ("grow", "fork"):
            tree.grow(0 if what == "grow" else data.draw(st.integers(0, 4)), data.draw(st.integers(1, 20)))
        elif what == "flip":
            tree.flip(data.draw(st.sampled_from(tree.tips)))
        elif what == "push":
            tree.branch.announce(tree.known[data.draw(st.sampled_from(sorted(tree.known)))])
        else:
            tree.answer(by_hash=what == "answer")
        tree.look()
    for _ in range(2000):
        tree.look()
        if tree.reached:
            break
        tree.answer(by_hash=True)
    assert tree.reached
    assert not tree.branch.lost
