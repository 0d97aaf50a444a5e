"""The table of what a connection may do about the requests of its client."""

from __future__ import annotations

from typing import Any, cast

import pytest

from rpcaccel.dataplane.http.fast_protocol import NEXT, READING, FastProtocol, RequestState

BY_AIOHTTP = {RequestState.LENT, RequestState.GIVEN}
WAITING = {RequestState.ASKED, RequestState.FULL}


def reached_from(start: RequestState, *without: str) -> set[RequestState]:
    """Every state that some events lead to, these `without` aside."""
    found, new = set[RequestState](), {start}
    while new:
        found |= new
        new = {after for state in new for event, after in NEXT[state].items() if event not in without} - found
    return found


def test_every_state_has_its_events_and_is_reached() -> None:
    assert set(NEXT) == set(RequestState) == reached_from(RequestState.IDLE)


@pytest.mark.parametrize("state", [state for state in RequestState if state is not RequestState.CLOSED])
def test_a_client_may_leave_at_any_time_and_a_closed_connection_stays_closed(state: RequestState) -> None:
    assert NEXT[state]["lost"] is RequestState.CLOSED
    assert RequestState.CLOSED in reached_from(state)
    assert reached_from(RequestState.CLOSED) == {RequestState.CLOSED}


def test_one_request_is_answered_at_a_time() -> None:
    for state in WAITING:
        assert NEXT[state].keys().isdisjoint({"wait", "whole", "lend", "give", "head", "body"})
        assert NEXT[state]["answered"] is RequestState.IDLE
    assert {state for state in RequestState if "wait" in NEXT[state]} == {RequestState.IDLE}


def test_a_request_is_handed_over_only_while_none_is_under_way_here() -> None:
    for event in ("lend", "give"):
        assert {state for state in RequestState if event in NEXT[state]} <= READING
    assert reached_from(RequestState.IDLE, "lend", "give").isdisjoint(BY_AIOHTTP)


def test_a_lent_connection_comes_back_and_a_given_one_never_does() -> None:
    assert NEXT[RequestState.LENT]["back"] is RequestState.IDLE
    assert NEXT[RequestState.LENT]["more"] is RequestState.GIVEN
    assert reached_from(RequestState.GIVEN) == {RequestState.GIVEN, RequestState.CLOSED}


def test_the_head_of_a_request_is_not_waited_for_again_once_it_is_whole() -> None:
    assert "head" not in NEXT[RequestState.BODY]


def test_an_illegal_event_raises_and_changes_nothing() -> None:
    connection = FastProtocol(cast(Any, None))
    with pytest.raises(KeyError):
        connection.back()
    assert connection.state is RequestState.IDLE
