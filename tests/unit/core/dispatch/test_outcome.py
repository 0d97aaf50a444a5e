"""The outcome as a value, and whose doing its error is."""

from __future__ import annotations

import pytest

from rpcaccel.core.dispatch.outcome import Outcome, fault_of
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass, Rule
from rpcaccel.core.replies.failure import FailureKind, is_node_fault
from rpcaccel.core.stats.counters import AnswerSource

HEAD = 100


def test_an_outcome_says_where_it_came_from_and_is_a_success_unless_told_otherwise() -> None:
    outcome = Outcome(source=AnswerSource.MEMORY, result=b"1")
    assert (outcome.http, outcome.node, outcome.block, outcome.error) == (200, "", -1, None)


@pytest.mark.parametrize(
    ("kind", "known", "block", "expected"),
    [
        (FailureKind.REVERT, True, None, True),
        (FailureKind.INVALID_PARAMS, True, None, True),
        (FailureKind.METHOD_MISSING, False, None, True),
        (FailureKind.METHOD_MISSING, True, None, True),
        (FailureKind.NODE_BEHIND, True, HEAD + 1, True),
        (FailureKind.NODE_BEHIND, True, HEAD, False),
        (FailureKind.NODE_BEHIND, True, None, False),
        (FailureKind.PRUNED, True, 1, True),
        (FailureKind.BEYOND_WINDOW, True, 1, True),
        (FailureKind.ROLE_MISSING, True, None, True),
        (FailureKind.OVERSIZED, True, None, True),
        (FailureKind.TIMEOUT, True, None, False),
        (FailureKind.CLIENT_DEADLINE, True, None, True),
        (FailureKind.UNKNOWN, True, None, False),
        (FailureKind.NO_NODE, True, None, False),
        (None, True, None, False),
    ],
)
def test_an_error_is_the_clients_own_where_every_node_would_say_the_same_or_none_has_what_is_asked(
    kind: FailureKind | None, known: bool, block: int | None, expected: bool
) -> None:
    rule = Rule(method="m" if known else "", cache=CacheClass.HEAD)
    plan = Plan(network="n", method="m", rule=rule, params=b"[]", asked=b"[]", cache=CacheClass.HEAD, block=block)
    outcome = Outcome(source=AnswerSource.NODE, error=b"{}", block=HEAD, kind=kind)
    assert fault_of(plan, outcome) == ("client" if expected else "service")


def test_a_node_is_at_fault_for_what_it_failed_at_and_not_for_what_it_lacks_or_rightly_refused() -> None:
    assert all(map(is_node_fault, ("timeout", "connect", "http-status", "rate-limited", "unknown")))
    assert not any(map(is_node_fault, ("method-missing", "node-behind", "pruned", "revert", "invalid-params")))
    assert not any(map(is_node_fault, ("cancelled", "overtaken", "other", "oversized-answer")))
