"""How far a call is taken: which end is told, what is waited for, and when a node is slow."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec.structs import replace

from rpcaccel.core.dispatch.dispatch_policy import (
    RECENT_BLOCKS,
    DispatchSettings,
    Hedging,
    Settle,
    dispatch_settings,
    error_rank,
)
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from tests.support.plans import plan_of

ERROR = Answer(error=b'{"code":-32000,"message":"m"}')


def end(kind: FailureKind, answer: Answer | None = None) -> Settle:
    return Settle(answer, Failure(kind, "t"), None)


def test_ends_from_the_least_to_the_most_telling() -> None:
    order = [
        end(FailureKind.ROLE_MISSING, Answer(result=b"null")),
        end(FailureKind.CONNECT),
        end(FailureKind.BROKEN_REPLY),
        end(FailureKind.RATE_LIMITED, ERROR),
        end(FailureKind.TIMEOUT),
        end(FailureKind.METHOD_MISSING, ERROR),
        end(FailureKind.NODE_BEHIND, ERROR),
        end(FailureKind.PRUNED, ERROR),
        end(FailureKind.UNKNOWN, ERROR),
        end(FailureKind.NODE_BEHIND, Answer(result=b"null")),
        Settle(Answer(result=b"1"), None, None),
    ]
    assert all(error_rank(less) < error_rank(more) for less, more in pairwise(order))


PLAN = plan_of(cache=CacheClass.BY_NUMBER)


def test_patience_is_for_what_some_node_has() -> None:
    settings = DispatchSettings(behind_attempts=2, behind_pause=1.0)
    nodes = [Node("a"), Node("b")]
    nodes[0].head = 7
    at = [dispatch_settings(settings, replace(PLAN, block=block), nodes) for block in (7, 8, None)]
    assert [(one.behind_attempts, one.behind_pause) for one in at] == [(2, 1.0), (0, None), (2, None)]
    nodes[1].head = 7 + RECENT_BLOCKS
    at = [dispatch_settings(settings, replace(PLAN, block=block), nodes) for block in (6, 7)]
    assert [(one.behind_attempts, one.behind_pause) for one in at] == [(2, 0.0), (2, 1.0)], "old ones do not come"
    waited = replace(settings, behind_pause=None)
    assert dispatch_settings(waited, replace(PLAN, block=6), nodes) is waited
    none = DispatchSettings(behind_attempts=0)
    assert dispatch_settings(none, PLAN, nodes) is none
    nodes[0].head = nodes[1].head = -1
    assert dispatch_settings(settings, replace(PLAN, block=8), nodes) is settings, "no head is known"


def with_answers(count: int, seconds: float) -> Node:
    node = Node("a")
    for number in range(count):
        node.pace.answered("m", seconds, float(number))
    return node


def test_a_node_is_slow_after_its_own_quantile_of_that_method() -> None:
    hedging = Hedging(at_least=0.1, samples=30)
    assert hedging.after("m", with_answers(30, 0.4)) == pytest.approx(0.4, rel=0.2)
    assert hedging.after("other", with_answers(30, 0.4)) is None


def test_a_quick_node_is_given_a_moment_all_the_same() -> None:
    assert Hedging(at_least=0.1, samples=30).after("m", with_answers(30, 0.002)) == 0.1


def test_nothing_is_called_slow_before_it_is_known_what_to_expect() -> None:
    assert Hedging(samples=30).after("m", with_answers(29, 0.4)) is None
