"""The search for a bound, over every kind of node: honest, flaky, and one that is wrong once."""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.heads.bound_search import BoundSearch, Reach

Answer = Callable[[int, int], bool | None]
"""What a node answers at a distance, to a question of this number."""


def searched(most: int, answer: Answer, *, stride: int = 64, limit: int = 2000) -> tuple[Reach, list[int]]:
    """The result, and the distances that were asked about."""
    search = BoundSearch(most, stride=stride)
    asked: list[int] = []
    while (distance := search.next()) is not None:
        assert 0 <= distance <= most
        assert len(asked) < limit
        search.tell(distance, answer(distance, len(asked)))
        asked.append(distance)
    return search.found(), asked


@given(st.integers(0, 10**9).flatmap(lambda most: st.tuples(st.just(most), st.integers(-1, most))), st.integers(1, 512))
def test_every_bound_is_found_with_few_questions(bounds: tuple[int, int], stride: int) -> None:
    most, reach = bounds
    found, asked = searched(most, lambda distance, _: distance <= reach, stride=stride)
    assert found == Reach(reach)
    assert len(asked) <= 2 * log2(most + 1) + 8


@given(st.integers(1, 10**8), st.floats(0, 1), st.lists(st.booleans(), min_size=400, max_size=400))
def test_answers_that_say_neither_lead_to_no_wrong_bound(most: int, at: float, silent: list[bool]) -> None:
    reach = int(at * most)
    found, _ = searched(most, lambda distance, number: None if silent[number % 400] else distance <= reach)
    assert found.greatest in (reach, None)


@given(st.integers(1, 10**8), st.floats(0, 1), st.integers(0, 60))
def test_one_wrong_answer_makes_no_wrong_bound(most: int, at: float, wrong: int) -> None:
    reach = int(at * most)
    found, asked = searched(most, lambda distance, number: (distance <= reach) is not (number == wrong))
    if wrong < len(asked) - 1:  # the very last answer is the second one to its question, or about a hole
        assert found == Reach(reach)


@given(st.integers(1000, 10**8), st.randoms(use_true_random=False))
def test_a_node_that_answers_at_random_ends_the_search(most: int, rng: Random) -> None:
    _, asked = searched(most, lambda _distance, _number: (None, True, False)[int(rng.random() * 3)])
    assert len(asked) <= 400


def test_a_hole_bounds_the_reach() -> None:
    """geth keeps the state of block 0, and of a few blocks between, of whose neighbours it keeps none."""
    found, _ = searched(20_000, lambda distance, _: distance <= 128 or distance == 20_000)
    assert found == Reach(128)


def test_a_window_that_moves_during_the_search_is_found_where_it_is_at_the_end() -> None:
    found, asked = searched(80_000_000, lambda distance, number: distance <= 128 - number // 8)
    assert len(asked) < 40
    assert found.greatest is not None
    assert 122 <= found.greatest <= 128


def test_a_pruned_node_costs_few_questions_on_a_long_chain() -> None:
    found, asked = searched(80_000_000, lambda distance, _: distance <= 127)
    assert found == Reach(127)
    assert len(asked) <= 18


def test_a_node_that_never_says_is_given_up() -> None:
    found, asked = searched(1000, lambda _distance, _number: None)
    assert found.greatest is None
    assert found.why == "it gave no answer that says so"
    assert asked == [0, 0, 0]


def test_what_is_not_ended_has_found_nothing_yet() -> None:
    search = BoundSearch(1000)
    search.tell(0, True)
    assert search.found().greatest is None
    assert search.answered == 0
    assert repr(search) == "<BoundSearch answers to 0, not from None>"


@pytest.mark.parametrize("most", [0, 1, 2])
def test_the_shortest_distances(most: int) -> None:
    for reach in range(-1, most + 1):
        assert searched(most, lambda distance, _, reach=reach: distance <= reach)[0] == Reach(reach)
