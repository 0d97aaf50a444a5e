"""A node that pushes false headers."""

from __future__ import annotations

import pytest

from rpcaccel.core.live.block import LiveBlock
from rpcaccel.core.live.branch import Want
from tests.support.followed_branch import begun, block, followed, give, said

FALSE_HEADERS = {
    "a false number": LiveBlock(106, "101a", "100a", b""),
    "a false parent": LiveBlock(101, "101a", "100x", b""),
    "a parent that is another block": LiveBlock(101, "101a", "99a", b""),
    "a false child of the tip": LiveBlock(101, "101x", "100a", b""),
    "a false child of the next block": LiveBlock(102, "102x", "101a", b""),
    "a false head": LiveBlock(102, "102a", "101x", b""),
}


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("when", ["before", "between", "always"])
@pytest.mark.parametrize("false", FALSE_HEADERS)
def test_a_false_header_neither_stops_nor_changes_what_is_fetched(false: str, when: str, final: bool) -> None:
    branch = begun(final_at_once=final)
    pushed, blocks = FALSE_HEADERS[false], [block(number) for number in range(80, 104)]
    if when != "between":
        branch.announce(pushed)
    if pushed.hash.endswith("x"):
        branch.announce(block(pushed.number))  # else nobody can tell, where blocks are got by number, which is true
    told: list[str] = []
    for number in (101, 102, 103):
        branch.aim(number, "" if final else f"{number}a")
        for _ in range(20):
            wants = branch.wants()
            give(branch, *blocks)
            for want in wants:
                if want.hash and want.hash not in {one.hash for one in blocks}:
                    branch.failed(want, lacked=True)
            if when != "before":
                branch.announce(pushed)
            told += said(branch.moves())
    assert told == ["101a", "102a", "103a"]
    assert not branch.lost


@pytest.mark.parametrize("first", ["a", "x"])
def test_of_two_headers_for_one_place_none_is_taken_where_blocks_are_final_at_once(first: str) -> None:
    branch = begun(final_at_once=True)
    for letter in (first, "x" if first == "a" else "a"):
        branch.announce(block(101, letter, "100a"))
    branch.aim(101)
    assert branch.moves() == []
    assert branch.wants() == [Want(101)]
    branch.take(Want(101), block(101))
    assert said(branch.moves()) == ["101a"]


def test_a_pushed_header_does_not_make_a_fetched_block_clash() -> None:
    branch = begun(final_at_once=True)
    branch.announce(block(101, "x", "100a"))
    branch.aim(102)
    branch.take(Want(102), block(102))
    assert branch.moves() == []
    assert branch.wants() == [Want(101)]
    branch.take(Want(101), block(101))
    assert said(branch.moves()) == ["101a", "102a"]


def test_no_block_is_abandoned_for_a_header_that_was_only_pushed() -> None:
    branch = begun()
    followed(branch, 102, "102a", block(101), block(102))
    branch.announce(block(103, "a", "102b"))
    branch.take(Want(102, "102b"), block(102, "b", "101a"))
    assert followed(branch, 103, "103a", block(103)) == ["103a"]
