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


SCRIPTS: dict[str, tuple[dict[str, float], str]] = {
    "a run of failures trips it": ({"failures": 3}, """
        1 failure failure success failure failure: closed
        1 failure: open, shut"""),
    "half of the calls failing trip it": ({"failures": 100, "volume": 20, "ratio": 0.5},
        "1" + 10 * " success failure" + ": open, shut"),
    "what is ignored never trips it": ({}, "1" + 100 * " ignore" + ": closed"),
    "after its rest one trial passes at a time, and enough of them close it": ({"failures": 1, "rest": 1.0}, """
        0 failure: open, shut
        0.9: open, shut
        1: open
        1 begin: half-open, shut
        1.1 end success: half-open
        1.2 success: closed"""),
    "a failed trial opens it for twice as long, up to a bound": ({"failures": 1, "rest": 1.0, "rest_max": 3.0}, """
        0 failure: open, shut
        1 failure: open, shut
        2.9: open, shut
        3 failure: open, shut
        5.9: open, shut
        6: open"""),
    "a trial that is ignored is given back": ({"failures": 1}, """
        0 failure: open, shut
        2 ignore ignore ignore: half-open"""),
    "a permit from before the last move changes nothing": ({"failures": 1, "rest": 1.0}, """
        0 begin failure: open, shut
        1 begin: half-open, shut
        1 end failure: half-open, shut
        1 end success: half-open"""),
    "a probe that is answered invites it back": ({"failures": 1}, """
        0 failure: open, shut
        0.1 answered answered: half-open"""),
    "while probes go unanswered no client pays for a trial": ({"failures": 1, "rest": 1.0}, """
        0 failure: open, shut
        0.5 unanswered: open, shut
        1000 failure: open, shut
        2000: open, shut
        2000 answered: half-open"""),
    "a probe alone opens nothing: calls are well as long as calls are answered": ({}, "0 unanswered: closed"),
    "a forced call may end the rest but not lengthen it": ({"failures": 1, "rest": 10.0}, """
        0 failure: open, shut
        1 failure: open, shut
        9.9: open, shut
        9.9 success: half-open"""),
    "a node that was well for long rests shortly again": ({"failures": 1, "rest_max": 8.0, "passes": 1}, """
        0 failure: open, shut
        1 success: closed
        2 failure: open, shut
        3.9: open, shut
        4 success: closed
        100 failure: open, shut
        101: open"""),
}  # fmt: skip


@pytest.mark.parametrize("story", SCRIPTS)
def test_as_the_script_says(story: str) -> None:
    """Each line is a time, events, and the state that follows; "shut" where no call may pass then. A verdict alone is a
    call that begins and ends; `begin` leaves one under way, and `end` gives the oldest of those its verdict."""
    options, script = SCRIPTS[story]
    breaker, held = Breaker(BreakerPolicy(**options)), list[int]()  # type: ignore[arg-type]
    for line in script.strip().splitlines():
        said, _, wanted = line.strip().partition(": ")
        at, *events = said.split()
        for number, event in enumerate(events):
            if event == "begin":
                held.append(breaker.force(float(at)))
            elif event in ("answered", "unanswered"):
                breaker.probed(float(at), answered=event == "answered")
            elif event != "end":
                permit = held.pop(0) if events[number - 1] == "end" else breaker.force(float(at))
                breaker.learn(permit, event, float(at))  # type: ignore[arg-type]
        state = breaker.state.value + ("" if breaker.allows(float(at)) else ", shut")
        assert state == wanted, line


def test_a_trial_is_given_back_only_once() -> None:
    breaker = tripped()
    trial = acquired(breaker, 2.0)
    breaker.learn(trial, "success", 2.0)
    with pytest.raises(RuntimeError):
        breaker.learn(trial, "success", 2.0)


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
