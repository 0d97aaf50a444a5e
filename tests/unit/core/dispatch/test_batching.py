"""When calls are gathered, and how many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.dispatch.batching import FEWEST_SLOTS, MOST_ITEMS, SLOT_SECONDS, Gathering


def test_a_distant_node_is_asked_in_parallel_and_a_near_one_is_gathered_for() -> None:
    near, far = Gathering(), Gathering()
    near.single_took(0.0002)
    far.single_took(0.1)
    assert near.slots == FEWEST_SLOTS
    assert far.slots == 200


def test_our_own_queue_does_not_make_a_near_node_a_distant_one() -> None:
    near = Gathering()
    for _ in range(20):
        near.single_took(0.0005)
        for _ in range(30):
            near.single_took(0.02)
    assert near.slots <= 2 * FEWEST_SLOTS


def test_a_node_that_became_slower_is_seen_to_be_so() -> None:
    node = Gathering()
    node.single_took(0.0005)
    for _ in range(600):
        node.single_took(0.1)
    assert node.slots > 150


def test_batches_grow_while_they_are_full_and_take_little_longer_than_a_single_call() -> None:
    gathering = Gathering()
    gathering.single_took(0.001)
    for _ in range(10):
        gathering.batch_took(gathering.items, 0.0015, 0.0)
    assert gathering.items == MOST_ITEMS


def test_a_batch_that_is_not_full_proves_nothing_about_longer_ones() -> None:
    gathering = Gathering()
    gathering.single_took(0.001)
    before = gathering.items
    gathering.batch_took(2, 0.0011, 0.0)
    assert gathering.items == before


def test_a_slow_batch_halves_the_length_and_a_node_always_slow_with_two_rests() -> None:
    gathering = Gathering()
    gathering.single_took(0.010)
    gathering.batch_took(4, 0.040, 0.0)
    assert gathering.items == 2
    for _ in range(7):
        gathering.batch_took(2, 0.030, 100.0)
    assert gathering.rest_until <= 100.0
    gathering.batch_took(2, 0.030, 100.0)
    assert gathering.rest_until == 400.0


def test_a_node_that_refuses_batches_gets_none_for_a_while() -> None:
    gathering = Gathering()
    gathering.refused(0.0)
    assert gathering.rest_until == 300.0


def test_only_what_comes_thick_and_fast_travels_together_before_slots_are_short() -> None:
    gathering = Gathering()
    assert not any(gathering.called(now / 400) for now in range(4000))
    assert any(gathering.called(10 + now / 5000) for now in range(500))
    assert not gathering.called(12.0)


def test_the_turns_of_our_own_loop_are_not_held_against_a_batch() -> None:
    idle, busy = Gathering(), Gathering()
    for _ in range(100):
        busy.turn_took(0.002)
    for gathering in (idle, busy):
        gathering.single_took(0.001)
        gathering.batch_took(4, 0.012, 0.0)
    assert (idle.items, busy.items) == (2, 8)


def test_now_and_then_one_call_goes_alone_to_compare_with() -> None:
    gathering = Gathering()
    lengths = [gathering.together() for _ in range(64)]
    assert lengths.count(1) == 2
    assert set(lengths) == {1, gathering.items}


@given(st.lists(st.tuples(st.integers(1, 64), st.floats(0.0, 1.0), st.booleans()), max_size=50))
def test_the_length_stays_within_its_bounds_whatever_is_learnt(events: list[tuple[int, float, bool]]) -> None:
    gathering = Gathering()
    for now, (items, seconds, single) in enumerate(events):
        if single:
            gathering.single_took(seconds)
        else:
            gathering.batch_took(items, seconds, float(now))
        assert 2 <= gathering.items <= MOST_ITEMS
        assert gathering.slots >= FEWEST_SLOTS
    assert "gathering" in repr(gathering)


def test_a_slot_is_kept_for_some_times_what_a_call_takes_and_not_for_ever() -> None:
    gathering = Gathering()
    assert gathering.patience() == SLOT_SECONDS
    gathering.single_took(0.001)
    assert gathering.patience() == SLOT_SECONDS
    gathering.single_took(2.0)
    assert SLOT_SECONDS < gathering.patience() < 4.0


def test_batches_stay_within_what_the_node_was_found_to_answer() -> None:
    gathering = Gathering()
    gathering.bound(10)
    gathering.single_took(0.001)
    for _ in range(10):
        gathering.batch_took(gathering.items, 0.0015, 0.0)
    assert gathering.items == 10
    gathering.bound(None)
    for _ in range(10):
        gathering.batch_took(gathering.items, 0.0015, 0.0)
    assert gathering.items == MOST_ITEMS


def test_a_node_that_takes_no_batches_gets_none_until_another_examination() -> None:
    gathering = Gathering()
    gathering.bound(1)
    gathering.refused(5.0)
    assert gathering.rest_until == float("inf")
    gathering.bound(1000)
    assert gathering.rest_until == float("-inf")
    assert gathering.most == MOST_ITEMS
