from __future__ import annotations

import pytest

from rpcaccel import chains
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.planner import Planner
from rpcaccel.core.plan.rules import RuleTable
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.replies.result_check import block_of, is_unsure, judge_result
from tests.support.dataplane.fake_client import plan_of as about

HARMONY, ETHEREUM = chains.load("harmony").rules, chains.load("ethereum").rules
HEAD, FINAL = 50, 42
VIEW = ChainSnapshot(head=HEAD, best=HEAD, final=FINAL, finalized=FINAL, eth_chain_id=1, network_id=1)


def planned(chain: str, method: str, params: str) -> Plan:
    """The plan of a call at a head of 50, where 42 is final."""
    table = chains.load(chain)
    return Planner("n", table.rules, table.tags, final_at_once=chain == "harmony").plan(method, params.encode(), VIEW)


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
    assert judge_result(about(HARMONY.get(method)), result, HEAD) is FailureKind.IMPOSSIBLE


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
    assert judge_result(about(HARMONY.get(method)), result, HEAD) is None
    assert judge_result(about(ETHEREUM.get(method)), result, HEAD) is None


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
    assert judge_result(about(rules.get(method)), result, HEAD) is FailureKind.NODE_TIMEOUT
    assert judge_result(about(rules.get("eth_getLogs")), result, HEAD) is None


def test_a_contract_that_speaks_of_a_timeout_has_not_given_up() -> None:
    result = b'[{"result":{"error":"execution reverted","revertReason":"execution timeout"}}]'
    assert judge_result(about(ETHEREUM.get("debug_traceBlockByNumber")), result, HEAD) is None


def test_a_null_for_want_of_the_index_is_no_answer() -> None:
    rule = HARMONY.get("hmyv2_getStakingTransactionsHistory")
    assert judge_result(about(rule), memoryview(b"null"), HEAD) is FailureKind.ROLE_MISSING
    assert judge_result(about(rule), b'{"staking_transactions":[]}', HEAD) is None
    assert judge_result(about(HARMONY.get("hmyv2_getTransactionByHash")), b"null", HEAD) is None


SOME = f"0x{1:040x}"
OF_HARMONY = {
    "eth_getBlockByNumber": '["0x20",false]', "hmyv2_getBlockByNumber": '[32,{"fullTx":false}]',
    "hmy_getBlockByNumber": '["0x20",true]', "hmyv2_getHeaderByNumber": "[32]", "eth_getBalance": f'["{SOME}","0x20"]',
    "hmyv2_getBalanceByBlockNumber": f'["{SOME}",32]', "hmy_getBalance": f'["{SOME}","latest"]',
    "eth_getCode": f'["{SOME}","0x20"]', "eth_gasPrice": "[]", "hmyv2_getBlocks": "[30,32,{}]",
    "eth_getLogs": '[{"fromBlock":"0x1e","toBlock":"0x20"}]',
}  # fmt: skip
OF_ETHEREUM = {
    "eth_getBlockByNumber": '["latest",false]', "eth_getHeaderByNumber": '["0x20"]', "eth_getBlockReceipts": '["0x20"]',
    "eth_getBlockTransactionCountByNumber": '["0x20"]', "eth_getBalance": f'["{SOME}","0x20"]',
    "eth_getTransactionCount": f'["{SOME}","0x20"]', "eth_getStorageAt": f'["{SOME}","0x0","0x20"]',
    "eth_call": f'[{{"to":"{SOME}"}},"0x20"]', "eth_gasPrice": "[]",
    "eth_getLogs": '[{"fromBlock":"0x1e","toBlock":"0x20"}]',
}  # fmt: skip


@pytest.mark.parametrize(
    ("chain", "method", "params", "result"),
    [
        *(("harmony", method, params, b"null") for method, params in OF_HARMONY.items()),
        *(("ethereum", method, params, b"null") for method, params in OF_ETHEREUM.items()),
        ("ethereum", "eth_getBlockByNumber", '["0x20",false]', b"null"),
        ("harmony", "hmyv2_getBlocks", "[30,32,{}]", b"[]"),
        ("harmony", "hmyv2_getBlockSigners", "[32]", b"[]"),
        ("harmony", "hmy_getHeaderByNumberRLPHex", "[32]", b'""'),
        ("harmony", "hmy_getBalanceByBlockNumber", '["one1","0x20"]', b'"0x"'),
        ("harmony", "hmyv2_getAllValidatorInformationByBlockNumber", "[0,32]", b"null"),
        ("ethereum", "eth_getBalance", f'["{SOME}","0x20"]', b'"0x"'),
        ("ethereum", "eth_getTransactionCount", f'["{SOME}","0x20"]', b'"0x"'),
        ("ethereum", "eth_getBlockTransactionCountByNumber", '["0x20"]', b'"0x"'),
    ],
)
def test_nothing_about_a_block_that_the_node_has_is_no_answer(
    chain: str, method: str, params: str, result: bytes
) -> None:
    plan = planned(chain, method, params)
    assert judge_result(plan, result, HEAD) is FailureKind.PRUNED
    assert not is_unsure(plan, b'"0x1"')


@pytest.mark.parametrize(
    ("chain", "method", "params", "result"),
    [
        ("ethereum", "eth_getBlockByNumber", '["0x33",false]', b"null"),  # a block yet to come
        ("ethereum", "eth_getBlockByNumber", '["pending",false]', b"null"),
        ("ethereum", "eth_getTransactionByBlockNumberAndIndex", '["0x20","0x9"]', b"null"),
        ("ethereum", "eth_getUncleByBlockNumberAndIndex", '["0x20","0x0"]', b"null"),
        ("ethereum", "eth_getBlockReceipts", '["0x20"]', b"[]"),
        ("ethereum", "eth_getLogs", '[{"fromBlock":"0x1e","toBlock":"0x20"}]', b"[]"),
        ("harmony", "hmyv2_getBlockSigners", "[0]", b"[]"),
        ("harmony", "hmyv2_getBlockSigners", "[50]", b"[]"),  # its signers stand in the block to come
        ("harmony", "hmyv2_getBlocks", "[32,30,{}]", b"[]"),
        ("harmony", "hmyv2_getDelegationByDelegatorAndValidator", '["one1","one1"]', b"null"),
    ],
)
def test_a_null_that_a_good_node_may_give_is_one(chain: str, method: str, params: str, result: bytes) -> None:
    assert judge_result(planned(chain, method, params), result, HEAD) is None


@pytest.mark.parametrize(
    ("method", "params", "result"),
    [
        ("eth_getBlockByHash", f'["0x{7:064x}",false]', b"null"),
        ("eth_getTransactionByHash", f'["0x{7:064x}"]', b"null"),
        ("eth_getTransactionReceipt", f'["0x{7:064x}"]', b"null"),
        ("eth_getRawTransactionByHash", f'["0x{7:064x}"]', b'"0x"'),
        ("eth_getBalance", f'["0x{1:040x}",{{"blockHash":"0x{7:064x}"}}]', b'"0x"'),
        ("eth_getLogs", '[{"fromBlock":"0x1e","toBlock":"0x20"}]', b"[]"),
        ("eth_getLogs", f'[{{"blockHash":"0x{7:064x}"}}]', b"[]"),
        ("eth_getBlockReceipts", '["0x20"]', b"[]"),
        ("eth_getTransactionByBlockNumberAndIndex", '["0x20","0x0"]', b"null"),
    ],
)
def test_that_there_is_nothing_old_is_something_to_ask_another_node_about(
    method: str, params: str, result: bytes
) -> None:
    assert is_unsure(planned("ethereum", method, params), result)


@pytest.mark.parametrize(
    ("method", "params", "result"),
    [
        ("eth_getLogs", '[{"fromBlock":"0x32","toBlock":"latest"}]', b"[]"),  # not final
        ("eth_getCode", f'["0x{1:040x}","0x20"]', b'"0x"'),
        ("eth_call", f'[{{"to":"0x{1:040x}"}},"0x20"]', b'"0x"'),
        ("eth_syncing", "[]", b"null"),
        ("foo_bar", "[]", b"null"),
    ],
)
def test_that_there_is_nothing_is_a_plain_answer_elsewhere(method: str, params: str, result: bytes) -> None:
    assert not is_unsure(planned("ethereum", method, params), result)


@pytest.mark.parametrize(
    ("result", "block"),
    [
        (b'{"number":"0x1f","hash":"0x1"}', 31),
        (b'{"blockNumber":31,"logs":[]}', 31),
        (b'[{"blockNumber":"0x1e"},{"blockNumber":"0x1f"}]', 31),
        (b'{"number":null}', None),
        (b'{"number":"many"}', None),
        (b'"0x1f"', None),
        (b"[1]", None),
        (b"[]", None),
    ],
)
def test_a_result_names_the_block_in_which_it_stands(result: bytes, block: int | None) -> None:
    assert block_of(result) == block
