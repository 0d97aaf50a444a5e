from __future__ import annotations

import pytest

from rpcaccel import chains
from rpcaccel.core.plan.rules import RuleTable
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.replies.result_check import judge_result

HARMONY, ETHEREUM = chains.load("harmony").rules, chains.load("ethereum").rules


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("eth_getBalance", b"[]"),
        ("eth_getBalance", b"{}"),
        ("hmyv2_getBalance", b"{}"),
        ("eth_gasPrice", b"[]"),
        ("eth_getBlockByNumber", b"[]"),
        ("eth_getBlockByNumber", b"{}"),
        ("hmyv2_getBlockByNumber", b'"0x"'),
        ("eth_getLogs", b"{}"),
        ("hmyv2_getBlocks", b'""'),
        ("eth_syncing", b'"false"'),
        ("eth_sendRawTransaction", b"[]"),
    ],
)
def test_what_a_method_never_answers_is_no_answer(method: str, result: bytes) -> None:
    assert judge_result(HARMONY.get(method), result) is FailureKind.IMPOSSIBLE


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("eth_getBalance", b'"0x0"'),
        ("hmyv2_getBalance", b"1000000000000000000000000000"),
        ("eth_getBlockByNumber", b"null"),
        ("eth_getBlockByNumber", b'{"number":"0x1"}'),
        ("eth_getLogs", b"[]"),
        ("eth_syncing", b"false"),
        ("eth_syncing", b'{"currentBlock":1}'),
        ("eth_getBlockReceipts", b"null"),
        ("foo_bar", b"{}"),
        ("eth_getLogs", memoryview(b"[]")),
    ],
)
def test_what_may_be_is_let_through(method: str, result: bytes) -> None:
    assert judge_result(HARMONY.get(method), result) is None
    assert judge_result(ETHEREUM.get(method), result) is None


@pytest.mark.parametrize(
    "words",
    [
        b"execution timeout",
        b"execution timeout    in server-side tracer function 'step'",
        b"execution timeout at step (<eval>:99:8(0))    in server-side tracer function 'step'",
    ],
)
@pytest.mark.parametrize("method", ["debug_traceBlockByNumber", "debug_traceBlockByHash", "debug_traceBlock"])
@pytest.mark.parametrize("rules", [ETHEREUM, HARMONY], ids=["ethereum", "harmony"])
def test_a_node_that_gave_a_trace_up_says_so_inside_its_result(rules: RuleTable, method: str, words: bytes) -> None:
    result = b'[{"txHash":"0x1","result":{}},{"txHash":"0x2","error":"' + words + b'"}]'
    assert judge_result(rules.get(method), result) is FailureKind.NODE_TIMEOUT
    assert judge_result(rules.get("eth_getLogs"), result) is None


def test_a_contract_that_speaks_of_a_timeout_has_not_given_up() -> None:
    result = b'[{"result":{"error":"execution reverted","revertReason":"execution timeout"}}]'
    assert judge_result(ETHEREUM.get("debug_traceBlockByNumber"), result) is None


def test_a_null_for_want_of_the_index_is_no_answer() -> None:
    rule = HARMONY.get("hmyv2_getStakingTransactionsHistory")
    assert judge_result(rule, memoryview(b"null")) is FailureKind.ROLE_MISSING
    assert judge_result(rule, b'{"staking_transactions":[]}') is None
    assert judge_result(HARMONY.get("hmyv2_getTransactionByHash"), b"null") is None
