"""Which branch counts, and who is known to be on it."""

from __future__ import annotations

import pytest

from rpcaccel.core.heads.chain_view import ChainView, Sighting
from rpcaccel.core.heads.fork_choice import lead


def told(branch: str, *numbers: int, weight: float = 1.0, turned: int = 0) -> ChainView:
    view = ChainView()
    for number in numbers:
        view.see(Sighting(number, f"{branch}{number}"), 1.0, may_reorganise=True)
    view.weight, view.turned = weight, turned
    return view


def test_the_branch_with_most_of_the_weight_counts_and_the_others_do_not_go_along() -> None:
    one, two, other = told("a", 9, 10), told("a", 10), told("b", 10, weight=1.5)
    branch, along = lead([one, two, other], {})
    assert (branch, along) == ({9: "a9", 10: "a10"}, [one, two])


def test_on_a_tie_the_served_branch_stays_and_without_one_the_one_turned_to_last_counts() -> None:
    old, new = told("a", 10), told("b", 10, turned=1)
    assert lead([old, new], {10: "a10"})[1] == [old]
    assert lead([old, new], {})[1] == [new]


@pytest.mark.parametrize("turned", [0, 1])
def test_on_a_tie_a_node_that_was_not_on_the_served_branch_does_not_outvote_one_that_was(turned: int) -> None:
    was_elsewhere, stays = told("a", 10, turned=turned), told("b", 10)
    was_elsewhere.keep_to(5, along=False)
    assert lead([was_elsewhere, stays], {})[1] == [stays]


def test_nodes_without_a_block_in_common_follow_the_one_that_was_on_the_served_branch() -> None:
    was_elsewhere, stays = told("a", 10, turned=1), told("b", 12)
    was_elsewhere.keep_to(5, along=False)
    assert lead([was_elsewhere, stays], {})[1] == [stays]


def test_who_left_the_branch_below_has_no_say_above() -> None:
    stays, stays_too, left = told("a", 9), told("a", 9, 10), told("b", 9, 10, weight=1.5)
    assert lead([stays, stays_too, left], {})[0] == {9: "a9", 10: "a10"}


def test_nodes_that_told_nothing_in_common_are_trusted_as_long_as_no_node_ever_left_a_branch() -> None:
    views = [told("a", 9), told("b", 20), ChainView()]
    assert lead(views, {})[1] == views


def test_what_only_a_node_tells_that_does_not_go_along_is_no_part_of_the_branch() -> None:
    turned, stays = told("b", 19, 20, turned=1), told("a", 16, 17)
    branch, along = lead([turned, stays], {})
    assert (branch, along) == ({19: "b19", 20: "b20"}, [turned])
    turned.record(17, "b17")  # asked for, to compare
    assert lead([turned, stays], branch)[1] == [turned], "what was served is no reason for the other"


def test_after_a_turn_a_node_is_trusted_once_it_shows_a_block_in_common() -> None:
    turned, too, behind = told("b", 19, 20, turned=1), told("b", 20, 21, turned=2), told("a", 16)
    assert set(lead([turned, too, behind], {})[1]) == {turned, too}
    behind.see(Sighting(20, "b20"), 2.0, may_reorganise=True)
    assert set(lead([turned, too, behind], {})[1]) == {turned, too, behind}


def test_an_old_block_in_common_shows_nothing_once_any_node_left_a_branch_above_it() -> None:
    turned, jumped, stays = told("b", 59, 60, turned=1), told("b", 50, 60, 61), told("b", 50, 58)
    turned.turned_at = 59
    assert set(lead([turned, jumped, stays], {})[1]) == {turned, jumped}
    jumped.record(58, "b58")
    assert set(lead([turned, jumped, stays], {})[1]) == {turned, jumped, stays}


def test_a_chain_of_common_blocks_is_enough() -> None:
    low, middle, high = told("b", 10, turned=1), told("b", 10, 15), told("b", 15, 20)
    assert set(lead([low, high, middle], {})[1]) == {low, middle, high}


def test_who_shares_a_block_has_a_say_about_all_that_lies_under_it() -> None:
    left, low, high = told("a", 50, 51), told("b", 50, 51), told("b", 51, 52)
    assert lead([left, low, high], {})[1] == [low, high]
