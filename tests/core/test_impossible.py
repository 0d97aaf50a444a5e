from __future__ import annotations

import pytest

from rpcaccel import chains
from rpcaccel.core.failure import FailureKind
from rpcaccel.core.impossible import judge_result

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


def test_a_node_that_gave_a_trace_up_says_so_inside_its_result() -> None:
    result = b'[{"txHash":"0x1","result":{}},{"txHash":"0x2","error":"execution timeout"}]'
    assert judge_result(ETHEREUM.get("debug_traceBlockByNumber"), result) is FailureKind.NODE_TIMEOUT
    assert judge_result(ETHEREUM.get("eth_getLogs"), result) is None
