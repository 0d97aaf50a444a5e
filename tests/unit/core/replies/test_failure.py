"""One table answers what follows from a failure."""

from __future__ import annotations

import pytest

from rpcaccel.core.replies.failure import FailureKind, kind_of_status, policy, uniform_code


@pytest.mark.parametrize("kind", list(FailureKind))
def test_every_kind_has_a_row_of_its_own(kind: FailureKind) -> None:
    assert kind is FailureKind.UNKNOWN or policy(kind) is not policy(FailureKind.UNKNOWN)


@pytest.mark.parametrize(
    ("kind", "retry", "breaker", "client", "code", "http"),
    [
        ("unknown", "if-repeatable", "ignore", "pass-through", -32603, 200),
        ("rejected", "never", "success", "pass-through", -32000, 200),
        ("nonce-too-low", "never", "success", "pass-through", -32000, 200),
        ("too-large", "never", "success", "pass-through", -32005, 200),
        ("connect", "always", "failure", "own-error", -32603, 502),
        ("tls", "always", "failure", "own-error", -32603, 502),
        ("dns", "always", "failure", "own-error", -32603, 502),
        ("reset-before-reply", "same-node", "ignore", "own-error", -32603, 502),
        ("timeout", "if-repeatable", "failure", "own-error", -32603, 504),
        ("rate-limited", "always", "ignore", "own-error", -32005, 429),
        ("node-behind", "if-repeatable", "ignore", "pass-through", -32000, 200),
        ("pruned", "if-repeatable", "ignore", "pass-through", -32000, 200),
        ("beyond-window", "if-repeatable", "ignore", "pass-through", -32000, 200),
        ("method-missing", "always", "ignore", "pass-through", -32601, 200),
        ("role-missing", "always", "ignore", "pass-through", -32000, 200),
        ("revert", "never", "success", "pass-through", 3, 200),
        ("invalid-params", "one-other", "success", "pass-through", -32602, 200),
        ("already-known", "never", "success", "success-with-hash", -32000, 200),
        ("unauthorized", "always", "ignore", "own-error", -32603, 502),
        ("misconfigured", "always", "ignore", "own-error", -32603, 502),
        ("call-refused", "one-other", "ignore", "own-error", -32600, 400),
        ("http-status", "if-repeatable", "failure", "own-error", -32603, 502),
        ("no-node", "never", "ignore", "own-error", -32603, 503),
        ("busy", "always", "ignore", "own-error", -32005, 503),
    ],
)
def test_a_kind_is_treated_as_the_table_of_the_design_says(
    kind: str, retry: str, breaker: str, client: str, code: int, http: int
) -> None:
    row = policy(FailureKind(kind))
    assert (row.retry, row.breaker, row.client, row.code, row.http) == (retry, breaker, client, code, http)


@pytest.mark.parametrize("status", range(300, 600))
def test_a_status_blames_the_node_only_for_what_is_its_own(status: int) -> None:
    """The operator's matters, the calls' own faults, limits, and what is left: the node's failure."""
    blamed = policy(kind_of_status(status)).breaker == "failure"
    wanted = {
        **dict.fromkeys((401, 403, 407), FailureKind.UNAUTHORIZED),
        **dict.fromkeys((404, 405, 410, 415, *range(300, 400)), FailureKind.MISCONFIGURED),
        **dict.fromkeys((400, 413, 414, 422, 431), FailureKind.CALL_REFUSED),
        **dict.fromkeys((402, 429), FailureKind.RATE_LIMITED),
    }
    assert kind_of_status(status) is wanted.get(status, FailureKind.HTTP_STATUS)
    assert blamed == (status not in wanted)


@pytest.mark.parametrize(
    ("kind", "code", "seen"),
    [
        (FailureKind.REVERT, 3, 3),
        (FailureKind.UNKNOWN, -32000, -32000),
        (FailureKind.METHOD_MISSING, -32601, -32601),
        (FailureKind.PRUNED, 4444, -32000),
        (FailureKind.NODE_BEHIND, -39001, -32000),
        (FailureKind.UNKNOWN, -31999, -32603),
        (FailureKind.UNKNOWN, 1, -32603),
        (FailureKind.RATE_LIMITED, 429, -32005),
    ],
)
def test_uniform_codes_are_those_of_json_rpc_and_3(kind: FailureKind, code: int, seen: int) -> None:
    assert uniform_code(kind, code) == seen
