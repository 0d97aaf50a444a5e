"""The outcome as a value: what a client is told, whose doing an error is, and why a call took long."""

from __future__ import annotations

import json

import pytest

from rpcaccel.core.dispatch.outcome import (
    Forwarded,
    Outcome,
    failed,
    fault_of,
    miss_reason,
    out_of_time,
    reason,
    refused,
    with_uniform_code,
)
from rpcaccel.core.plan.rules import UNKNOWN_RULE, CacheClass, Rule
from rpcaccel.core.replies.failure import Failure, FailureKind, is_node_fault
from rpcaccel.core.stats.counters import AnswerSource, Step
from tests.support.plans import plan_of

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
    plan = plan_of(rule=Rule(method="m" if known else "", cache=CacheClass.HEAD), block=block)
    outcome = Outcome(source=AnswerSource.NODE, error=b"{}", block=HEAD, kind=kind)
    assert fault_of(plan, outcome) == ("client" if expected else "service")


def test_a_node_is_at_fault_for_what_it_failed_at_and_not_for_what_it_lacks_or_rightly_refused() -> None:
    assert all(map(is_node_fault, ("timeout", "connect", "http-status", "rate-limited", "unknown")))
    assert not any(map(is_node_fault, ("method-missing", "node-behind", "pruned", "revert", "invalid-params")))
    assert not any(map(is_node_fault, ("cancelled", "overtaken", "other", "oversized-answer")))


def test_a_miss_has_one_of_a_few_reasons() -> None:
    assert miss_reason(plan_of(cache=CacheClass.NODE)) == "node"
    assert miss_reason(plan_of(off=True)) == "off"
    assert miss_reason(plan_of(cache=CacheClass.NEVER, rule=UNKNOWN_RULE, note="params are named")) == "not-understood"


def test_a_refused_method_does_not_exist_for_the_client() -> None:
    outcome = refused("not for you", 7)
    assert (json.loads(outcome.error or b"")["code"], outcome.block) == (-32601, 7)


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (b'{"code":-32000,"message":"x" }', None, b'{"code":-32000,"message":"x" }'),
        (b'{"code":3,"message":"r","data":"0x"}', FailureKind.REVERT, b'{"code":3,"message":"r","data":"0x"}'),
        (b'{"code":429,"message":"x","data":1}', FailureKind.REVERT, b'{"code":3,"message":"x","data":1}'),
        (b'{"data" : 1.50, "code":-38020}', None, b'{"data":1.50,"code":-32603}'),
        (b'{"code":4,"data":%b}' % (b"[" * 3_000 + b"]" * 3_000), None, None),
        (b'"text"', None, b'{"code":-32603,"message":"the node\'s error cannot be read"}'),
    ],
)
def test_a_nodes_error_gets_a_uniform_code_and_keeps_the_rest(
    error: bytes, kind: FailureKind | None, told: bytes | None
) -> None:
    found = with_uniform_code(error, None if kind is None else Failure(kind, ""))
    assert found.startswith(b'{"code":-32603,"data":[[') if told is None else found == told


def test_when_everybody_failed_the_proxy_says_so_itself() -> None:
    failure = Failure(FailureKind.RATE_LIMITED, "too much", retry_after=2.0)
    outcome = failed(Forwarded(answer=None, failure=failure, attempts=3), 7, ())
    assert json.loads(outcome.error or b"") == {"code": -32005, "message": "too much"}
    assert (outcome.http, outcome.retry_after, outcome.attempts, outcome.block) == (429, 2.0, 3, 7)
    assert failed(Forwarded(answer=None, failure=None), 7, ()).error is not None


def test_a_client_that_gave_too_little_time_gets_a_504() -> None:
    outcome = out_of_time(7)
    assert (outcome.http, outcome.block, outcome.kind) == (504, 7, FailureKind.CLIENT_DEADLINE)
    assert b"-32603" in (outcome.error or b"")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no connection to http://10.0.0.5:9500: refused", "no connection to the node's URL: refused"),
        ("no connection to https://[fd00::5]:9500 within 2 s", "no connection to the node's URL within 2 s"),
        ("no address for the name in https://inner.example", "no address for the name in the node's URL"),
        ("no answer within 10 s", "no answer within 10 s"),
    ],
)
def test_a_client_is_not_told_where_nodes_are(text: str, told: str) -> None:
    forwarded = Forwarded(answer=None, failure=Failure(FailureKind.CONNECT, text))
    assert json.loads(failed(forwarded, 7, ()).error or b"")["message"] == told


def outcome(
    *steps: tuple[str, float], node: str = "", attempts: int = 0, source: AnswerSource = AnswerSource.NODE
) -> Outcome:
    return Outcome(source=source, result=b"1", steps=steps, node=node, attempts=attempts)


@pytest.mark.parametrize(
    ("ended", "seconds", "said"),
    [
        (outcome((Step.FORWARD, 2.0), node="a", attempts=1), 2.1, "node a answered after 2.000 s"),
        (outcome((Step.FORWARD, 2.0), node="a", attempts=3), 2.1, "node a answered after 2.000 s, 3 attempts"),
        (outcome((Step.FORWARD, 2.0)), 2.1, "waited 2.000 s for the nodes"),
        (outcome((Step.SHARED, 0.9), (Step.FORWARD, 0.1)), 1.0, "waited 0.900 s for Redis"),
        (outcome((Step.DISK, 0.8), (Step.SHARED, 0.1)), 1.0, "waited 0.800 s for the disk"),
        (outcome((Step.FLIGHT, 3.0)), 3.0, "waited 3.000 s for the same call under way"),
        (outcome((Step.FORWARD, 0.5)), 3.0, "the proxy itself was busy: 2.500 s in no step"),
        (outcome(), 3.0, "the proxy itself was busy"),
        (outcome(source=AnswerSource.REFUSED), 3.0, "refused"),
    ],
)
def test_what_took_longest_is_named(ended: Outcome, seconds: float, said: str) -> None:
    assert reason(ended, seconds) == said
