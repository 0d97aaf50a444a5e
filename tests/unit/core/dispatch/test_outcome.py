"""The outcome as a value."""

from __future__ import annotations

from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.stats.counters import AnswerSource


def test_an_outcome_says_where_it_came_from_and_is_a_success_unless_told_otherwise() -> None:
    outcome = Outcome(source=AnswerSource.MEMORY, result=b"1")
    assert (outcome.http, outcome.node, outcome.block, outcome.error) == (200, "", -1, None)
