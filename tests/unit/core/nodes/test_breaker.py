from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.nodes.breaker import MOVES, Breaker, BreakerPolicy, BreakerState, Verdict


def tripped(now: float = 0.0, **settings: float) -> Breaker:
    breaker = Breaker(BreakerPolicy(**settings))  # type: ignore[arg-type]
    for _ in range(breaker.settings.failures):
        breaker.learn(breaker.force(now), "failure", now)
    assert breaker.state is BreakerState.OPEN
    return breaker


def acquired(breaker: Breaker, now: float) -> int:
    assert breaker.allows(now)
    return breaker.force(now)


def test_a_run_of_failures_trips_it() -> None:
    breaker = Breaker(BreakerPolicy(failures=3))
    for verdict in ("failure", "failure", "success", "failure", "failure"):
        breaker.learn(acquired(breaker, 1.0), verdict, 1.0)  # type: ignore[arg-type]
    assert breaker.state is BreakerState.CLOSED
    breaker.learn(acquired(breaker, 1.0), "failure", 1.0)
    assert breaker.state is BreakerState.OPEN
    assert not breaker.allows(1.5)


def test_half_of_the_calls_failing_trips_it() -> None:
    breaker = Breaker(BreakerPolicy(failures=100, volume=20, ratio=0.5))
    for number in range(20):
        breaker.learn(acquired(breaker, 1.0), "failure" if number % 2 else "success", 1.0)
    assert breaker.state is BreakerState.OPEN


def test_what_is_ignored_never_trips_it() -> None:
    breaker = Breaker()
    for _ in range(100):
        breaker.learn(acquired(breaker, 1.0), "ignore", 1.0)
    assert breaker.state is BreakerState.CLOSED


def test_after_its_rest_one_trial_passes_at_a_time() -> None:
    breaker = tripped(rest=1.0)
    assert not breaker.allows(0.9)
    assert breaker.allows(1.0)
    trial = acquired(breaker, 1.0)
    assert breaker.state is BreakerState.HALF_OPEN
    assert not breaker.allows(1.0)
    breaker.learn(trial, "success", 1.1)
    breaker.learn(acquired(breaker, 1.1), "success", 1.2)
    assert breaker.state is BreakerState.CLOSED


def test_a_failed_trial_opens_it_for_twice_as_long() -> None:
    breaker = tripped(rest=1.0, rest_max=3.0)
    breaker.learn(acquired(breaker, 1.0), "failure", 1.0)
    assert breaker.rest_until == 3.0
    breaker.learn(acquired(breaker, 3.0), "failure", 3.0)
    assert breaker.rest_until == 6.0


def test_a_trial_closed_with_ignore_is_given_back() -> None:
    breaker = tripped()
    for _ in range(10):
        breaker.learn(acquired(breaker, 2.0), "ignore", 2.0)
    assert breaker.state is BreakerState.HALF_OPEN
    assert breaker.allows(2.0)


def test_a_permit_from_before_the_last_move_changes_nothing() -> None:
    breaker = Breaker(BreakerPolicy(failures=1, rest=1.0))
    old = acquired(breaker, 0.0)
    breaker.learn(acquired(breaker, 0.0), "failure", 0.0)
    trial = acquired(breaker, 1.0)
    breaker.learn(old, "failure", 1.0)
    assert breaker.state is BreakerState.HALF_OPEN
    assert not breaker.allows(1.0)
    breaker.learn(trial, "success", 1.0)
    assert breaker.allows(1.0)


def test_a_trial_is_given_back_only_once() -> None:
    breaker = tripped()
    trial = acquired(breaker, 2.0)
    breaker.learn(trial, "success", 2.0)
    with pytest.raises(RuntimeError):
        breaker.learn(trial, "success", 2.0)


def test_the_prober_may_invite_it_back() -> None:
    breaker = tripped()
    breaker.probed(0.1, answered=True)
    assert breaker.state is BreakerState.HALF_OPEN
    breaker.probed(0.1, answered=True)
    assert breaker.allows(0.1)


def test_while_probes_go_unanswered_no_client_pays_for_a_trial() -> None:
    breaker = tripped(rest=1.0)
    breaker.probed(0.5, answered=False)
    assert not breaker.allows(1000.0)
    breaker.learn(breaker.force(1000.0), "failure", 1000.0)  # for want of a better node
    assert not breaker.allows(2000.0)
    breaker.probed(2000.0, answered=True)
    assert breaker.state is BreakerState.HALF_OPEN
    assert breaker.allows(2000.0)
    healthy = Breaker()
    healthy.probed(0.0, answered=False)
    assert healthy.allows(0.0), "calls are well as long as calls are answered"


def test_a_forced_call_may_end_the_rest_but_not_lengthen_it() -> None:
    breaker = tripped(rest=10.0)
    breaker.learn(breaker.force(1.0), "failure", 1.0)
    assert breaker.rest_until == 10.0
    breaker.learn(breaker.force(2.0), "success", 2.0)
    assert breaker.state is BreakerState.HALF_OPEN


def test_a_node_that_was_well_for_long_rests_shortly_again() -> None:
    breaker = tripped(rest=1.0, rest_max=8.0, passes=1)
    breaker.learn(acquired(breaker, 1.0), "success", 1.0)
    for _ in range(5):
        breaker.learn(acquired(breaker, 2.0), "failure", 2.0)
    assert breaker.rest_until == 4.0
    breaker.learn(acquired(breaker, 4.0), "success", 4.0)
    for _ in range(5):
        breaker.learn(acquired(breaker, 100.0), "failure", 100.0)
    assert breaker.rest_until == 101.0
    assert repr(breaker) == "<breaker open>"


def test_every_state_can_be_left() -> None:
    assert {state for state, _ in MOVES} == set(BreakerState)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["failure", "ignore", "success"]), st.floats(0.0, 3.0))))
def test_no_order_of_events_shuts_a_node_out_for_ever(events: list[tuple[int, Verdict, float]]) -> None:
    breaker = Breaker()
    now, held = 0.0, []
    for action, verdict, passed in events:
        now += passed
        if (action <= 1 and breaker.allows(now)) or action == 2:
            held.append(breaker.force(now))
        elif action == 3:
            breaker.probed(now, answered=verdict != "failure")
        elif held:
            breaker.learn(held.pop(0), verdict, now)
    for permit in held:
        breaker.learn(permit, "ignore", now)
    now += breaker.settings.rest_max
    breaker.probed(now, answered=True)
    for _ in range(breaker.settings.passes):
        breaker.learn(acquired(breaker, now), "success", now)
    assert breaker.state is BreakerState.CLOSED


def test_a_hanging_call_whose_cost_a_client_chose_does_not_hold_the_trial_of_light_ones() -> None:
    breaker = tripped(1.0)
    breaker.probed(1.5, answered=True)
    hanging = breaker.force(2.0, light=False)
    assert not breaker.allows(2.0, light=False)
    for _ in range(breaker.settings.passes):
        breaker.learn(acquired(breaker, 2.0), "success", 2.0)
    assert breaker.state is BreakerState.CLOSED
    breaker.learn(hanging, "failure", 12.0, light=False)
    assert breaker.state is BreakerState.CLOSED
