"""Which branch is served, on chains that can reorganise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.heads.chain_view import BLOCKS_OF_A_NODE, Sighting
from rpcaccel.core.heads.head_book import reached_by_most
from tests.support.head_book import FRESH, WAIT, block, blocks, book


def test_a_reorganisation_moves_the_fork_epoch_and_lets_the_head_go_back() -> None:
    heads = book("depth", depth=3)
    blocks(heads, ["a"], 8, 9, 10)
    before = heads.served(1.0)
    block(heads, "a", 9, branch="b")
    after = heads.served(1.0)
    assert (before.head, after.head) == (10, 9)
    assert after.fork_epoch == before.fork_epoch + 1
    assert after.note == ""


def test_a_reorganisation_between_two_polls_is_seen_when_the_old_head_is_asked_for_again() -> None:
    heads = book("tag")
    block(heads, "a", 10)
    block(heads, "a", 14, branch="b")
    assert heads.served(1.0).fork_epoch == 0
    heads.confirm("a", 10, "b10")
    assert heads.served(1.0).fork_epoch == 1


def test_a_wrong_node_moves_no_epoch() -> None:
    heads = book("tag")
    block(heads, "a", 10)
    heads.weigh("x", 1, eligible=False)
    block(heads, "x", 10)
    block(heads, "x", 10, branch="z")
    heads.confirm("x", 10, "y10")
    assert heads.served(1.0).fork_epoch == 0


def test_when_the_nodes_of_the_served_branch_leave_the_other_branch_moves_the_epoch() -> None:
    heads = book("tag")
    blocks(heads, "ab", 10)
    block(heads, "c", 10, branch="z")
    assert heads.served(1.0).fork_epoch == 0
    assert heads.served(2.0).fork_epoch == 0, "a minority on another branch moves nothing"
    heads.gone("a")
    assert heads.served(3.0).fork_epoch == 0, "on a tie the served branch stays"
    heads.gone("b")
    assert heads.served(4.0).fork_epoch == 1
    assert heads.served(5.0).fork_epoch == 1


def test_a_branch_that_was_left_behind_is_not_served_again_when_the_nodes_of_the_served_one_part() -> None:
    """Three nodes on three branches: the third is the one that most of them had left before."""
    heads = book("depth", depth=8)
    block(heads, "stayed", 59)
    block(heads, "stayed", 60)
    for node in "ab":
        block(heads, node, 59)
        block(heads, node, 60, branch="b")
    heads.served(1.0)
    assert heads.usable_head_of("stayed") == -1
    heads.confirm("b", 60, "c60")
    block(heads, "b", 59, branch="c")
    block(heads, "b", 61, branch="c")
    block(heads, "a", 61, branch="b")
    assert heads.served(2.0).head == 61
    assert [heads.usable_head_of(node) for node in ("stayed", "a", "b")] == [-1, 61, 52]


def test_what_one_node_has_reached_makes_nothing_final_while_the_others_are_leaving_its_branch() -> None:
    """The branches part at block 50. Who was looked at last is heard first, on either branch."""
    heads = book("depth", depth=8)
    blocks(heads, ("stayed", "a", "b"), 54, 55)
    assert heads.served(1.0).final == 47
    heads.confirm("a", 55, "z55")
    block(heads, "a", 60, branch="z")
    block(heads, "stayed", 60)
    before = heads.served(2.0)
    assert (before.head, before.final) == (60, 47)
    heads.confirm("b", 55, "z55")
    block(heads, "b", 60, branch="z")
    after = heads.served(3.0)
    assert (after.head, after.final, after.fork_epoch > before.fork_epoch) == (60, 52, True)
    assert heads.usable_head_of("stayed") == 47, "block 52 is another one there"


@pytest.mark.parametrize("weight", [1.0, 10.0])
def test_a_node_on_a_fork_of_its_own_does_not_keep_blocks_from_being_final_for_ever(weight: float) -> None:
    heads = book("depth", depth=5)
    heads.weigh("a", weight)
    finals = []
    for number in range(60):
        for node in "ab":
            block(heads, node, number, branch="fork" if node == "b" and number > 10 else "a")
        finals.append(heads.served(1.0).final)
    assert finals[10] == 5
    assert finals[19] == (5 if weight == 1.0 else 14), "of two equal nodes either may be right"
    assert finals[59] == 54


def test_a_node_far_behind_does_not_keep_blocks_from_being_final() -> None:
    heads = book("depth", depth=8)
    block(heads, "a", 100)
    block(heads, "behind", 91)
    assert heads.served(1.0).final == 92
    block(heads, "behind", 92)
    assert heads.served(1.0).final == 92, "it does not go back"


def test_falling_back_to_an_older_head_moves_the_epoch_where_blocks_are_not_final() -> None:
    heads = book("depth", depth=2)
    for node, number in (("a", 10), ("b", 7)):
        block(heads, node, number)
    heads.served(1.0)
    heads.gone("a")
    heads.served(2.0)
    served = heads.served(2.0 + WAIT)
    assert (served.head, served.fork_epoch) == (7, 1)
    assert "following the best one left, at block 7" in served.note


def test_the_finalized_tag_counts_once_half_of_the_weight_has_it() -> None:
    heads = book("tag")
    heads.observe("a", Sighting(100, final=90), 1.0)
    heads.observe("b", Sighting(100, final=64), 1.0)
    heads.observe("c", Sighting(100, final=64), 1.0)
    assert heads.served(1.0).final == 64


REPORTS = st.lists(st.tuples(st.integers(0, 100), st.integers(1, 9)), min_size=1, max_size=6)


@given(REPORTS)
def test_a_number_is_reached_by_most_when_more_than_half_have_it_and_never_by_one_of_several(
    reports: list[tuple[int, int]],
) -> None:
    number = reached_by_most(reports)
    holding = [weight for other, weight in reports if other >= number]
    assert sum(holding) > sum(weight for _, weight in reports) / 2
    assert len(holding) > 1 or len(reports) == 1
    assert number in {other for other, _ in reports}
    if len(reports) == 2:
        assert number == min(reports)[0]
    assert reached_by_most([*reports, (2**53 - 1, sum(weight for _, weight in reports))]) <= max(reports)[0]


TAGS = st.one_of(st.none(), st.integers(0, 110))


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 3), TAGS, TAGS, st.sampled_from(["", "gone", "fork"])),
        min_size=1,
        max_size=40,
    )
)
def test_what_the_tags_name_never_goes_back_on_one_branch_whatever_nodes_tell(
    steps: list[tuple[str, int, int | None, int | None, str]],
) -> None:
    heads, now, number, branch = book("tag"), 1.0, 50, "a"
    before = heads.served(now), -1, -1
    for node, ahead, final, safe, event in steps:
        number, now = number + ahead, now + 0.1
        branch = chr(ord(branch) + 1) if event == "fork" else branch
        if event == "gone":
            heads.gone(node)
        else:
            sighting = Sighting(number, f"{branch}{number}", f"{branch}{number - 1}", final, None, safe)
            heads.observe(node, sighting, now)
        served = heads.served(now)
        if served.fork_epoch == before[0].fork_epoch:
            assert heads.finalized >= before[1]
            assert heads.safe >= before[2]
        assert heads.safe == -1 or heads.finalized <= heads.safe <= served.head
        before = served, heads.finalized, heads.safe


def test_of_two_nodes_at_one_head_the_lower_one_says_what_is_final_and_safe() -> None:
    heads = book("tag")
    for final, safe in ((868, 900), (900, 868), (1000, 1000)):
        heads.observe("a", Sighting(1000, final=868, safe=868), 1.0)
        heads.observe("b", Sighting(1000, final=final, safe=safe), 1.0)
        heads.served(1.0)
        assert (heads.finalized, heads.safe) == (868, 868)


@pytest.mark.parametrize("stands", [0, 16, 1000])
def test_of_two_nodes_one_that_is_far_behind_does_not_say_what_is_final(stands: int) -> None:
    heads = book("tag")
    heads.observe("b", Sighting(stands, final=max(0, stands - 32), safe=max(0, stands - 16)), 1.0)
    for number in range(1001, 1200):
        heads.observe("a", Sighting(number, final=number - 32, safe=number - 16), 1.0)
        heads.served(1.0)
    assert (heads.finalized, heads.safe) == (1199 - 32, 1199 - 16)


@pytest.mark.parametrize("safe", [None, 90, 64, 10, 100])
def test_safe_is_not_below_finalized_and_is_not_told_where_no_node_tells_it(safe: int | None) -> None:
    heads = book("tag")
    heads.observe("a", Sighting(100, final=64, safe=safe), 1.0)
    heads.served(1.0)
    assert heads.safe == (-1 if safe is None else max(64, safe))


def test_what_was_safe_on_a_branch_that_was_left_may_be_so_no_longer() -> None:
    heads = book("tag")
    heads.observe("a", Sighting(100, "a100", "a99", final=64, safe=96), 1.0)
    heads.served(1.0)
    heads.observe("a", Sighting(101, "b101", "b100", final=64, safe=64), 2.0)
    heads.served(2.0)
    assert (heads.finalized, heads.safe) == (64, 64)


@pytest.mark.parametrize("finality", ["tag", "depth"])
def test_what_was_called_final_above_the_chain_that_is_served_was_not(finality: str) -> None:
    heads = book(finality, depth=12)
    heads.observe("a", Sighting(1000, "a1000", "a999", final=988), 1.0)
    assert heads.served(1.0).final == 988
    for number in (3, 4, 5):  # the chain begins anew, or a node spoke of another one
        heads.observe("a", Sighting(number, f"b{number}", f"b{number - 1}"), 2.0)
        served = heads.served(2.0)
    assert (served.head, served.final, heads.finalized) == (5, -1, -1)
    assert served.doubted > 0
    heads.observe("a", Sighting(20, "b20", "b19", final=8), 3.0)
    assert heads.served(3.0).final == 8


@pytest.mark.parametrize(("behind", "doubted"), [(50, False), (500, True)])
def test_what_was_final_is_in_doubt_unless_the_nodes_that_are_left_know_the_branch(behind: int, doubted: bool) -> None:
    """A node that lags says the hashes that are known; of one far behind, or of another chain, that cannot be told."""
    heads = book("depth", depth=5)
    for number in range(1000 - 60, 1001):
        block(heads, "a", number)
        heads.served(1.0)
    block(heads, "b", 1000 - behind)
    assert heads.served(1.0).final == 995
    heads.gone("a")
    heads.served(2.0)
    block(heads, "b", 1000 - behind)
    served = heads.served(2.0 + WAIT)
    assert (served.head, served.final) == (1000 - behind, 1000 - behind - 5)
    assert (served.doubted == served.fork_epoch) is doubted
    assert served.doubted in {-1, served.fork_epoch}


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("finality", ["depth", "tag"])
def test_a_final_block_that_is_replaced_while_the_head_stays_above_it_is_in_doubt(finality: str, deep: bool) -> None:
    heads, fork = book(finality, depth=5), 93 if deep else 98
    final = {} if finality == "depth" else {"final": 95, "final_hash": "a95"}
    for node in "ab":
        for number in range(90, 101):
            heads.observe(node, Sighting(number, f"a{number}", **final), 1.0)  # type: ignore[arg-type]
            heads.served(1.0)
    assert heads.served(1.0).final == 95
    for node in "ab":
        heads.observe(node, Sighting(102, "b102", "b101"), 2.0)
        heads.confirm(node, 100, "b100")  # the head told last is asked for again
        heads.served(2.0)
        asked = heads.in_question(node)
        assert asked in {95, 97}, "how deep the node left its branch is asked for, at what is final by now"
        heads.confirm(node, asked, f"{'b' if asked >= fork else 'a'}{asked}")
        assert heads.in_question(node) != asked
    served = heads.served(3.0)
    assert served.head == 102
    assert (served.doubted == served.fork_epoch) is deep
    assert (served.doubted == -1) is not deep
    for node in "ab":
        block(heads, node, 103, 4.0, branch="b")
    assert heads.served(4.0).doubted == served.doubted, "once"


def test_finality_by_depth_is_never_below_nothing() -> None:
    heads = book("depth", depth=12)
    block(heads, "a", 5)
    assert heads.served(1.0).final == -1
    block(heads, "a", 20)
    assert heads.served(1.0).final == 8


def test_a_node_on_a_branch_left_behind_is_asked_about_nothing_that_was_not_final_when_it_stayed_behind() -> None:
    heads = book("depth", depth=4)
    blocks(heads, "abc", 10)
    heads.served(1.0)
    blocks(heads, "ab", 10, branch="b")
    heads.served(1.0)
    assert [heads.usable_head_of(node) for node in "abcx"] == [10, 10, 6, -1]
    for node in "ab":
        block(heads, node, 14, branch="b")
        heads.confirm(node, 10, "b10")
    assert heads.served(1.0).final == 10
    assert heads.usable_head_of("c") == 6, "how far down it left the branch is not known"
    heads.confirm("c", 10, "b10")
    block(heads, "c", 14, branch="b")
    heads.served(1.0)
    assert heads.usable_head_of("c") == 14


def test_a_node_on_another_branch_is_sure_of_nothing_once_a_final_block_was_replaced() -> None:
    heads = book("depth", depth=5)
    for node in "abc":
        for number in range(90, 101):
            block(heads, node, number)
            heads.served(1.0)
    for node in "ab":
        block(heads, node, 102, branch="b")
        heads.confirm(node, 100, "b100")
    heads.served(2.0)
    assert heads.usable_head_of("c") == 95
    for node in "ab":
        heads.confirm(node, 95, "b95")
    heads.served(3.0)
    assert heads.usable_head_of("c") == -1


def test_a_silent_node_is_not_taken_to_have_followed_the_others_to_another_branch() -> None:
    heads = book("depth", depth=8)
    blocks(heads, "abc", 60)
    heads.served(1.0)
    for node in "ab":
        block(heads, node, 60, FRESH + 2.0, branch="b")
    assert heads.served(FRESH + 2.0).head == 60
    assert [heads.usable_head_of(node) for node in "abc"] == [60, 60, 52]


def test_a_node_of_an_abandoned_branch_that_speaks_first_after_a_silence_is_not_followed_at_once() -> None:
    heads = book("depth", depth=8)
    for node in "abc":
        block(heads, node, 60, branch="a" if node == "c" else "b")
    before, later = heads.served(1.0), FRESH + 2.0
    block(heads, "c", 60, later)
    served = heads.served(later)
    assert (served.head, served.fork_epoch) == (before.head, before.fork_epoch)
    assert served.note == "waiting for a node on the served branch"
    block(heads, "c", 60, later + WAIT)
    assert heads.served(later + WAIT).fork_epoch == before.fork_epoch + 1
    assert heads.usable_head_of("c") == 60


def test_a_node_that_stands_still_on_another_branch_is_not_trusted_again_once_the_others_forget_that_block() -> None:
    heads = book("depth", depth=8)
    blocks(heads, "ab", 62, branch="b")
    block(heads, "c", 62)
    heads.served(1.0)
    for number in range(63, 63 + 2 * BLOCKS_OF_A_NODE):
        blocks(heads, "ab", number, branch="b")
        heads.served(1.0)
        assert heads.usable_head_of("c") == -1


@pytest.mark.parametrize("along", [False, True])
def test_an_old_block_in_common_does_not_show_that_a_node_followed_the_others_to_another_branch(along: bool) -> None:
    heads = book("depth", depth=8)
    blocks(heads, "abc", 53, 62)
    blocks(heads, "ab", 63)
    assert heads.served(1.0).head == 63
    for node in "ab":
        heads.confirm(node, 63, "b63")  # the branches part at 63, or below: c does not tell
        block(heads, node, 66, branch="b")
        heads.confirm(node, 53, "a53")  # what is final by now
    assert heads.served(1.0).head == 66
    assert heads.usable_head_of("c") <= 58
    assert heads.in_question("a") == 62
    for node in "ab":
        heads.confirm(node, 62, "a62" if along else "b62")
    heads.served(1.0)
    assert heads.usable_head_of("c") == (62 if along else 55)


def test_a_node_is_asked_for_a_block_that_shows_whether_it_is_on_the_branch_of_others() -> None:
    heads = book("tag")
    block(heads, "a", 20)
    block(heads, "b", 16)
    heads.served(1.0)
    assert [heads.in_question(node) for node in "abx"] == [16, None, None]
    heads.confirm("a", 16, "a16")
    assert heads.in_question("a") is None


def test_a_node_is_asked_for_a_block_between_two_of_its_reports_at_which_another_stands() -> None:
    heads = book("depth", depth=8)
    blocks(heads, "abc", 49)
    block(heads, "c", 50)
    blocks(heads, "ab", 52, branch="b")
    heads.served(1.0)
    for node in "ab":
        assert heads.in_question(node) == 50, "that all had block 49 shows nothing about it"
        heads.confirm(node, 50, "b50")
        assert heads.in_question(node) is None
    heads.served(1.0)
    assert [heads.usable_head_of(node) for node in "abc"] == [52, 52, 44]


def test_a_node_that_stands_still_at_a_final_block_of_another_branch_is_found_out_and_sure_of_nothing() -> None:
    heads = book("depth", depth=8)
    block(heads, "c", 52)
    blocks(heads, "ab", 60, branch="b")
    assert heads.served(1.0).final == 52
    for node in "ab":
        assert heads.in_question(node) == 52
        heads.confirm(node, 52, "b52")
    heads.served(1.0)
    assert heads.usable_head_of("c") == -1


def test_a_new_book_goes_on_counting_where_the_old_one_ended() -> None:
    assert book("tag", fork_epoch=7).served(1.0).fork_epoch == 7


def test_nodes_on_another_branch_have_no_say_about_the_head() -> None:
    heads = book("tag")
    blocks(heads, "ab", 9, 10)
    block(heads, "a", 9, branch="b")
    assert heads.served(1.0).head == 9, "on a tie the branch that a node has just turned to counts"
