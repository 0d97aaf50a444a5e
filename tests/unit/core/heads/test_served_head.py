import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.heads.chain_view import Sighting
from rpcaccel.core.heads.head_book import reached_by_half
from rpcaccel.core.heads.served_head import NodeHead
from tests.support.head_book import FRESH, WAIT, book, tell

# -- half of the weight ------------------------------------------------------------------------------------------


def test_nothing_is_served_before_a_node_has_spoken() -> None:
    served = book().served(1.0)
    assert (served.head, served.final, served.note) == (-1, -1, "no node tells its head")


def test_one_node_far_ahead_of_two_does_not_make_the_head() -> None:
    heads = book()
    tell(heads, 1.0, a=100, b=100, c=5000)
    assert heads.served(1.0).head == 100


def test_of_two_equal_nodes_the_better_one_makes_the_head() -> None:
    heads = book()
    tell(heads, 1.0, a=100, b=101)
    assert heads.served(1.0).head == 101


def test_a_heavy_node_makes_the_head_alone() -> None:
    heads = book()
    heads.weigh("a", 10)
    tell(heads, 1.0, a=99, b=120, c=120)
    assert heads.served(1.0).head == 99


@pytest.mark.parametrize("eligible", [True, False])
def test_a_node_that_takes_no_calls_has_no_say(eligible: bool) -> None:
    heads = book()
    heads.weigh("a", 0 if eligible else 7, eligible=eligible)
    tell(heads, 1.0, a=500, b=100)
    assert heads.served(1.0).head == 100


def test_no_weight_at_all_reaches_nothing() -> None:
    assert reached_by_half([(5, 0.0)]) == -1
    assert reached_by_half([]) == -1


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), min_size=1, max_size=9))
def test_half_the_weight_has_the_head_and_less_than_half_has_anything_above(reports: list[tuple[int, int]]) -> None:
    head = reached_by_half([(number, float(weight)) for number, weight in reports])
    total = sum(weight for _, weight in reports)
    assert 2 * sum(weight for number, weight in reports if number >= head) >= total
    assert 2 * sum(weight for number, weight in reports if number > head) < total


# -- nodes come and go -------------------------------------------------------------------------------------------


def test_lag_is_counted_from_the_served_head() -> None:
    heads = book()
    assert heads.lag_of("a") is None
    tell(heads, 1.0, a=100, b=100, c=90, d=103)
    heads.served(1.0)
    assert [heads.lag_of(node) for node in "acdx"] == [0, 10, 0, None]


def test_the_head_waits_for_nodes_that_are_gone_then_follows_the_best_one_left_and_says_so() -> None:
    heads = book()
    tell(heads, 1.0, a=100, b=100, c=97, d=95)
    heads.weigh("a", 5)
    assert heads.served(1.0).head == 100
    for node in "ab":
        heads.gone(node)
    waiting = heads.served(2.0)
    assert (waiting.head, waiting.note) == (100, "waiting for a node at block 100: the best one left is at block 97")
    followed = heads.served(2.0 + WAIT)
    assert (followed.head, followed.since, followed.fork_epoch) == (97, 2.0 + WAIT, 0)
    assert followed.note == "the nodes at block 100 are gone: following the best one left, at block 97"
    tell(heads, 8.0, c=101)
    assert heads.served(8.0).note == ""


def test_a_node_that_comes_back_in_time_keeps_the_head() -> None:
    heads = book()
    tell(heads, 1.0, a=100, b=97)
    heads.served(1.0)
    heads.gone("a")
    assert heads.served(2.0).note
    tell(heads, 3.0, a=100)
    assert heads.served(3.0).note == ""
    heads.gone("a")
    assert heads.served(2.0 + WAIT).head == 100, "the wait starts anew"


def test_a_head_that_one_light_node_still_has_stays() -> None:
    heads = book()
    tell(heads, 1.0, a=100, b=100)
    heads.served(1.0)
    heads.forget("b")
    heads.weigh("c", 9)
    tell(heads, 2.0, c=98)
    assert heads.served(2.0).head == 100
    assert heads.served(3.0 + WAIT).head == 100


def test_a_silent_node_loses_its_say_without_anybody_reporting_it_gone() -> None:
    heads = book()
    tell(heads, 1.0, a=100, b=100, c=100)
    heads.served(1.0)
    tell(heads, 2.0 + FRESH, c=108)
    assert heads.served(2.0 + FRESH).head == 108


@pytest.mark.parametrize(
    ("others", "served"),
    [
        ({"a": 101, "b": 102}, [100, 101, 102]),  # it holds them up for a moment, and no longer
        ({"a": 10**9, "b": 10**9}, [100, 101, 103]),  # time explains no more: a light one makes no head of its own
        ({"a": 100, "b": 100, "c": 103}, [100, 100, 100]),  # nobody vouches for a block that the others have not told
        ({}, [100, 100, 100]),  # all are silent
    ],
)
def test_a_heavy_node_that_owes_its_head_is_believed_to_keep_pace(others: dict[str, int], served: list[int]) -> None:
    heads = book()
    heads.weigh("heavy", 9)
    tell(heads, 1.0, heavy=100)
    heads.asked("heavy", 2.0)
    heads.asked("heavy", 3.0)
    tell(heads, 3.4, **others)
    assert [heads.served(now).head for now in (3.4, 3.5, 7.0)] == served
    tell(heads, 7.1, heavy=100, a=10**9)
    assert heads.served(9.0).head == served[-1], "it has told one: they wait for it again"


def test_with_no_node_left_the_last_head_stays_and_it_is_said() -> None:
    heads = book()
    tell(heads, 1.0, a=100)
    heads.served(1.0)
    heads.gone("a")
    served = heads.served(500.0)
    assert (served.head, served.note) == (100, "no node tells its head; block 100 was the last")


def test_a_head_that_stands_still_is_noticed() -> None:
    heads = book(fresh=1000.0)
    tell(heads, 1.0, a=100)
    assert heads.served(40.0).note == ""
    assert heads.served(90.0).note == "no new block for 50 s"


def test_the_repr_is_short() -> None:
    assert repr(book()) == "<HeadBook instant head -1 epoch 0, 0 nodes>"


# -- over any history --------------------------------------------------------------------------------------------

STEP = st.one_of(
    st.tuples(st.just("tell"), st.sampled_from("abc"), st.integers(0, 30)),
    st.tuples(st.sampled_from(["gone", "asked"]), st.sampled_from("abc"), st.just(0)),
    st.tuples(st.just("weigh"), st.sampled_from("abc"), st.integers(0, 4)),
    st.tuples(st.just("time"), st.just("a"), st.integers(0, 12)),
)


@given(st.lists(STEP, max_size=60), st.sampled_from(["instant", "depth", "tag"]))
def test_the_served_head_keeps_its_promises_over_any_history(steps: list[tuple[str, str, int]], finality: str) -> None:
    heads = book(finality, depth=4)
    now, told, last_low = 1.0, -1, 0.0
    previous = heads.served(now)
    for kind, node, number in steps:
        if kind == "tell":
            heads.observe(node, Sighting(number, f"h{number}", final=number // 2), now)
            told = max(told, number)
        elif kind == "gone":
            heads.gone(node)
        elif kind == "asked":
            heads.asked(node, now)
        elif kind == "weigh":
            heads.weigh(node, number)
        else:
            now += number
        served = heads.served(now)
        assert served.head <= told
        assert served.final <= told
        assert served.final >= previous.final or (finality != "instant" and served.head < previous.final)
        assert served.final <= served.head or finality == "instant"
        assert served.fork_epoch >= previous.fork_epoch
        assert all((lag := heads.lag_of(name)) is None or lag >= 0 for name in "abc")
        if finality == "instant":
            assert served.fork_epoch == 0
        if served.head < previous.head:
            if finality == "instant":
                assert now - last_low >= WAIT, "it waited for the nodes that had the head"
                assert served.note
            else:
                assert served.fork_epoch > previous.fork_epoch
        if not served.note.startswith(("waiting", "no node")):
            last_low = now
        previous = served


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=60))
def test_nodes_that_only_go_forward_on_one_branch_never_move_the_epoch(steps: list[tuple[str, int]]) -> None:
    heads = book("tag")
    numbers = dict.fromkeys("abc", 0)
    head = 0
    for node, ahead in steps:
        numbers[node] += ahead
        heads.observe(node, Sighting(numbers[node], f"h{numbers[node]}", f"h{numbers[node] - 1}"), 1.0)
        served = heads.served(1.0)
        assert served.fork_epoch == 0
        assert served.head >= head
        head = served.head


def test_whether_a_first_look_at_a_node_has_ended() -> None:
    assert not NodeHead(id="a").looked_at
    assert NodeHead(id="a", note="no connection").looked_at
    assert NodeHead(id="a", seen_at=3.0).looked_at
    assert NodeHead(id="a", answering=True).looked_at


# -- what one node's report makes final --------------------------------------------------------------------------


def test_a_block_is_final_by_the_report_of_one_node_as_finality_goes_on_the_chain() -> None:
    instant, tag, depth = book("instant"), book("tag", depth=64), book("depth", depth=5)
    assert instant.is_final(7, Sighting(7))
    assert not instant.is_final(7, Sighting(6)), "the node does not have it"
    assert tag.is_final(7, Sighting(100, final=7))
    assert not tag.is_final(7, Sighting(100, final=6))
    assert tag.is_final(7, Sighting(71)), "a node that does not tell the tag"
    assert not tag.is_final(7, Sighting(70))
    assert depth.is_final(7, Sighting(12))
    assert not depth.is_final(7, Sighting(11))
    assert not book("tag").is_final(7, Sighting(1000))


def test_a_block_that_was_final_before_is_final_on_every_node_that_has_it() -> None:
    heads = book("depth", depth=5)
    tell(heads, 1.0, a=12)
    assert heads.served(1.0).final == 7
    assert heads.is_final(7, Sighting(8))
    assert not heads.is_final(7, Sighting(6))


@pytest.mark.parametrize("finality", ["instant", "tag"])
def test_after_a_call_changed_the_blocks_no_old_key_is_used_and_a_lower_head_is_not_waited_for(finality: str) -> None:
    heads = book(finality)
    tell(heads, 1.0, a=100)
    before = heads.served(1.0)
    tell(heads, 2.0, a=90)
    tell(heads, 2.1, a=90)
    heads.renew()
    after = heads.served(2.2)
    assert after.fork_epoch > before.fork_epoch
    assert after.head == (100 if finality == "instant" else 90)
