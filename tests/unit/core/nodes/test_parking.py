"""Rests of a node and of its methods: after refusals, and after errors that other nodes contradict."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.nodes.parking import (
    CONTRADICTED_ERRORS,
    CONTRADICTED_SECONDS,
    DIFFERENT_CALLS,
    MANY_CONTRADICTED_ERRORS,
    MAX_REST_SECONDS,
    MAX_RESTING_CALLS,
    MAX_UNNAMED_REST_SECONDS,
    MAX_UNSURE_REST_SECONDS,
    REFUSED_AFTER_REST,
    REFUSED_METHODS,
    SAME_REFUSAL_SECONDS,
    SHOWN_SECONDS,
    Contradictions,
    Parking,
)

NEVER = float("-inf")
METHODS = [f"m{number}" for number in range(REFUSED_METHODS + 2)]
DAY = 86_400.0


def refuse(parking: Parking, count: int, now: float = 0.0, retry_after: float | None = None) -> None:
    """So many methods are refused, one after the other."""
    for method in METHODS[:count]:
        parking.refused(method, now, retry_after)


def test_one_method_that_is_refused_for_a_day_leaves_the_others_alone_and_is_tried_again_soon() -> None:
    parking = Parking()
    for _ in range(20):
        parking.refused("trace", 0.0, DAY)
    assert (parking.until, parking.of("other"), parking.of("trace")) == (NEVER, NEVER, MAX_REST_SECONDS)
    assert parking.resting(0.0) == {"trace": MAX_REST_SECONDS}
    assert parking.resting(MAX_REST_SECONDS) == {}


def test_a_named_time_is_kept_to() -> None:
    parking = Parking()
    parking.refused("m", 10.0, 7.0)
    parking.refused("m", 11.0, 2.0)
    assert parking.of("m") == 17.0


def test_without_a_time_the_rest_doubles_up_to_a_bound_and_begins_anew_once_it_is_answered() -> None:
    parking, now, rests = Parking(), 0.0, []
    for _ in range(8):
        parking.refused("m", now, None)
        parking.refused("m", now, None)  # a second call that met the same limit
        rests.append(parking.of("m") - now)
        now = parking.of("m")
    assert rests == [1, 2, 4, 8, 16, 32, MAX_UNNAMED_REST_SECONDS, MAX_UNNAMED_REST_SECONDS]
    parking.answered("m", now)
    parking.refused("m", now, None)
    assert parking.of("m") - now == 1.0


def test_several_methods_refused_with_none_answered_between_rest_the_whole_node() -> None:
    parking = Parking()
    refuse(parking, REFUSED_METHODS - 1, retry_after=DAY)
    assert parking.until == NEVER
    refuse(parking, REFUSED_METHODS, retry_after=DAY)
    assert parking.until == MAX_REST_SECONDS


def test_a_node_that_answers_other_methods_is_not_left_alone_for_those_it_refuses() -> None:
    parking = Parking()
    for second in range(100):
        for number in range(REFUSED_METHODS - 1):
            parking.refused(METHODS[(second + number) % len(METHODS)], float(second), DAY)
        parking.answered("other", second + 0.5)
    assert parking.until == NEVER


def test_refusals_long_ago_say_nothing_of_now() -> None:
    parking = Parking()
    for number, method in enumerate(METHODS):
        parking.refused(method, number * SAME_REFUSAL_SECONDS / (REFUSED_METHODS - 1), 0.0)
    assert parking.until == NEVER


def test_methods_that_the_node_counts_by_themselves_say_nothing_of_the_node() -> None:
    parking = Parking()
    for method in METHODS:
        parking.refused(method, 0.0, None, own_limiter=True)
        parking.refused(method, 0.1, None, own_limiter=True)
    assert (parking.until, set(parking.resting(1.0))) == (NEVER, set(METHODS))
    assert parking.resting(1.2) == {}, "and rest a second each time"


def test_a_probe_answered_after_the_node_was_left_alone_brings_it_back_and_not_what_it_refuses() -> None:
    parking = Parking()
    parking.probed(5.0)
    refuse(parking, REFUSED_METHODS, 6.0, DAY)
    parking.probed(5.0)
    assert parking.until == 6.0 + MAX_REST_SECONDS, "that one was answered before"
    parking.probed(5.9)
    assert parking.until == 6.0 + MAX_REST_SECONDS, "that one may have been, and was on its way"
    parking.probed(7.0)
    assert parking.until == NEVER
    assert set(parking.resting(7.0)) == set(METHODS[:REFUSED_METHODS])


def test_an_answer_to_a_call_that_was_sent_before_the_refusal_ends_no_rest() -> None:
    parking = Parking()
    parking.refused("m", 0.0, 10.0)
    parking.answered("m", 1.0)
    assert parking.of("m") == 10.0
    assert repr(parking) == "<parking, 1 methods refused>"


def test_a_call_that_is_refused_rests_alone_longer_each_time_until_it_is_answered() -> None:
    parking, now, rests = Parking(), 0.0, []
    for _ in range(3):
        parking.refused("m", now, None, call=1)
        rests.append(parking.of("m", 1) - now)
        now = parking.of("m", 1)
    assert rests == [1, 2, 4]
    assert (parking.of("m", 2), parking.of("m"), parking.resting(0.0)) == (NEVER, NEVER, {})
    parking.answered("m", now, 1)
    parking.refused("m", now, None, call=1)
    assert parking.of("m", 1) - now == 1.0


def test_different_calls_park_their_method_for_some_seconds_at_the_most() -> None:
    parking, now, parked = Parking(), 0.0, []
    for number in range(DIFFERENT_CALLS + 4 * REFUSED_AFTER_REST):
        parking.refused("m", now, None, call=number)
        parked.append(max(0.0, round(parking.of("m") - now, 6)))
        now = max(now + 0.01, parking.of("m"))
    first, later = [0.0] * (DIFFERENT_CALLS - 1), [0.0] * (REFUSED_AFTER_REST - 1)
    assert parked == [
        *first,
        1.0,
        *later,
        2.0,
        *later,
        4.0,
        *later,
        MAX_UNSURE_REST_SECONDS,
        *later,
        MAX_UNSURE_REST_SECONDS,
    ]
    assert parking.until == NEVER


def test_one_caller_among_others_keeps_them_from_next_to_nothing_however_its_calls_fall() -> None:
    refused, asked = 0, 0
    for seed in range(100):
        parking, random = Parking(), Random(seed)
        for number in range(400):
            now = number / 10
            if random.random() < 0.5:
                parking.refused("m", now, None, call=number)
            else:
                asked += 1
                refused += now < parking.of("m", number)
                parking.answered("m", now, number)
    assert refused / asked < 0.005


def test_refusals_of_single_calls_are_forgotten_within_bounds() -> None:
    parking = Parking()
    for number in range(2 * MAX_RESTING_CALLS):
        parking.refused("m", 0.0, None, call=number)
    assert (parking.of("other", 0), parking.of("other", 2 * MAX_RESTING_CALLS - 1)) == (NEVER, 1.0)


EVENTS = st.lists(
    st.tuples(
        st.floats(0.0, 400.0),
        st.sampled_from(METHODS),
        st.one_of(st.none(), st.floats(0.0, 1e9)),
        st.sampled_from(["refused", "limiter", "answered", "probed"]),
        st.none() | st.integers(0, 9),
    ),
    max_size=60,
)


@given(EVENTS)
def test_whatever_a_node_says_it_is_asked_again_within_minutes(
    events: list[tuple[float, str, float | None, str, int | None]],
) -> None:
    parking, now = Parking(), 0.0
    for pause, method, retry_after, what, call in events:
        now += pause
        if what == "answered":
            parking.answered(method, now, call)
        elif what == "probed":
            parking.probed(now)
        else:
            parking.refused(method, now, retry_after, call=call, own_limiter=what == "limiter")
    assert parking.until <= now + MAX_REST_SECONDS
    assert all(until <= now + MAX_REST_SECONDS for until in parking.resting(now).values())
    assert len(parking.methods) <= len(METHODS)


def failing(method: str, count: int, now: float, node: Contradictions) -> None:
    for _ in range(count):
        node.noted(method, now)


def test_some_errors_over_a_while_or_many_at_once_make_a_rest() -> None:
    for errors in ([0.0] * (CONTRADICTED_ERRORS - 1) + [CONTRADICTED_SECONDS], [0.0] * MANY_CONTRADICTED_ERRORS):
        node = Contradictions()
        for now in errors[:-1]:
            node.noted("m", now)
        assert node.until("m", NEVER) == NEVER
        node.noted("m", errors[-1])
        assert node.until("m", NEVER) == errors[-1] + 1.0
        assert node.until("other", NEVER) == NEVER


def test_each_trial_begins_a_longer_rest_and_an_answer_ends_them() -> None:
    node, rests, now = Contradictions(), [], 0.0
    failing("m", MANY_CONTRADICTED_ERRORS, now, node)
    for _ in range(8):
        rests.append(node.until("m", NEVER) - now)
        now = node.until("m", NEVER)
        node.asked("m", now)  # the trial
        node.noted("m", now + 0.1)
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60]
    assert node.learnt(now) == ["m"]
    assert node.learnt(now + SHOWN_SECONDS + 61) == [], "nobody calls it any more"
    node.answered("m")
    assert node.until("m", NEVER) == NEVER
    failing("m", CONTRADICTED_ERRORS, now, node)
    assert node.until("m", NEVER) == NEVER, "it begins anew"


def test_a_node_that_answers_nothing_else_either_is_asked_last_for_all() -> None:
    node = Contradictions()
    for method in ("a", "b", "c"):
        failing(method, MANY_CONTRADICTED_ERRORS, 10.0, node)
    assert node.until("d", answered_at=9.0) == 11.0
    assert node.until("d", answered_at=10.5) == NEVER, "it answered another method meanwhile"


@given(st.lists(st.tuples(st.integers(0, MANY_CONTRADICTED_ERRORS - 1), st.floats(0.0, 1.0))))
def test_good_answers_between_keep_a_node_its_share(rows: list[tuple[int, float]]) -> None:
    node, now = Contradictions(), 0.0
    for errors, passes in rows:
        failing("m", errors, now, node)
        now += passes
        node.answered("m")
        assert node.until("m", NEVER) == NEVER
