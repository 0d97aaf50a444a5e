"""What a client is told when no good answer ends its call."""

from __future__ import annotations

import json

import pytest
from msgspec import structs

from rpcaccel.core.dispatch.outcome import Forwarded, failed, miss_reason, out_of_time, refused, with_uniform_code
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import UNKNOWN_RULE, CacheClass, Rule
from rpcaccel.core.replies.failure import Failure, FailureKind


def plan(cache: CacheClass, **fields: object) -> Plan:
    rule = Rule(method="m", cache=cache) if cache is not CacheClass.NEVER else UNKNOWN_RULE
    return Plan(network="n", method="m", rule=rule, params=b"[]", asked=b"[]", cache=cache, **fields)  # type: ignore[arg-type]


def test_a_miss_has_one_of_a_few_reasons() -> None:
    assert miss_reason(plan(CacheClass.NODE)) == "node"
    off = Rule(method="m", cache=CacheClass.HEAD, off=True)
    assert miss_reason(structs.replace(plan(CacheClass.HEAD), rule=off)) == "off"
    assert miss_reason(plan(CacheClass.NEVER, note="params are named")) == "not-understood"


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
