"""What a real Harmony node answered, replayed: the right rule, the right keep or skip, the right kind of error."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import pytest

from rpcaccel import chains
from rpcaccel.core.cache.retention import TESTS
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.planner import Planner
from rpcaccel.core.plan.rules import CacheClass, SkipTest
from rpcaccel.core.replies.error_rules import classify
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.replies.result_check import judge_result
from rpcaccel.core.wire.json_params import number_at
from tests.support.provider_errors import rows_of
from tests.support.services import SUPPORT

FIXTURES = SUPPORT / "facts"
HARMONY = chains.load("harmony")
NODES = ("shard0_explorer", "shard0_validator", "shard1_explorer", "shard0_explorer_auth_port")


def recorded() -> list[dict[str, Any]]:
    """Every call, with the reply of each node; long texts and lists are cut short."""
    entries: list[dict[str, Any]] = json.loads((FIXTURES / "recorded.json").read_text("utf-8"))
    for entry in entries:
        if entry.get("shard0_validator") == "as shard0_explorer":
            entry["shard0_validator"] = entry["shard0_explorer"]
    return entries


CALLS = recorded()
REPLIES = [(entry["method"], entry["params"], entry[node], node) for entry in CALLS for node in NODES if node in entry]
NOT_METHODS = {"newPendingTransactions", "newHeads", "logs", "traceChain"}
"""Names of subscriptions that were called as methods: the node has no such method, and the table must not either."""


def test_every_recorded_method_has_a_rule() -> None:
    without = {entry["method"] for entry in CALLS if entry["method"] not in HARMONY.rules}
    assert {name.partition("_")[2] for name in without} == NOT_METHODS
    assert not HARMONY.rules.get("eth_newHeads").known


VIEW = ChainSnapshot(serial=1, head=117, best=117, final=117, epoch=8, eth_chain_id=1666700000, network_id=2)
PLANNER = Planner("local", HARMONY.rules, HARMONY.tags, final_at_once=True)


def planned(method: str, params: list[Any]) -> Plan:
    """The plan of a recorded call at the head it was recorded at."""
    return PLANNER.plan(method, json.dumps(params).encode(), VIEW)


def skipped(method: str, params: list[Any], result: Any) -> bool:
    """Does a skip test of the rule find something in this result?"""
    plan = planned(method, params)
    return any(TESTS[name](plan, json.dumps(result, separators=(",", ":")).encode()) for name in plan.rule.skip)


def test_the_skip_tests_that_rules_may_name_are_those_there_are() -> None:
    assert TESTS.keys() == set(get_args(SkipTest))


def test_every_recorded_call_that_was_answered_is_read_with_certainty() -> None:
    answered = [(method, params) for method, params, reply, _ in REPLIES if "result" in reply]
    unread = {method for method, params in answered if planned(method, params).note}
    assert unread == set()


@pytest.mark.parametrize(
    ("method", "params", "cache", "block", "min_head"),
    [
        ("hmyv2_getBlockByNumber", [26, {"withSigners": True}], "by-number", 26, 27),
        ("hmyv2_getBlockByNumber", ["latest", {}], "head", 117, 117),
        ("hmyv2_getBlocks", ["26", "0x1b", {}], "by-number", 27, 27),
        ("hmyv2_getBlockSigners", [26], "by-number", 26, 27),
        ("hmyv2_getBalanceByBlockNumber", ["one1", 100], "by-number", 100, 100),
        ("hmyv2_getValidatorInformationByBlockNumber", ["one1", 26], "head", 26, 117),
        ("hmyv2_getValidators", [3], "forever", None, 117),
        ("hmyv2_getValidators", [8], "head", None, 117),
        ("eth_getTransactionCount", ["0x", "pending"], "node", None, -1),
        ("eth_call", [{}, "finalized"], "never", None, 117),
        ("eth_call", [{}], "never", None, 117),
        ("eth_estimateGas", [{}], "head", 117, 117),
        ("eth_getLogs", [{"fromBlock": "0x1"}], "head", 117, 117),
        ("hmyv2_getNodeMetadata", [], "node", None, -1),
    ],
)
def test_a_call_is_planned_by_its_rule(
    method: str, params: list[Any], cache: str, block: int | None, min_head: int
) -> None:
    plan = planned(method, params)
    assert (str(plan.cache), plan.block, plan.min_head) == (cache, block, min_head)


def test_recorded_answers_are_kept_unless_they_may_still_change() -> None:
    kept_back = {
        (method, node)
        for method, params, reply, node in REPLIES
        if "result" in reply and skipped(method, params, reply["result"])
    }
    # A shard's node has neither the other shard's transactions, nor, as a validator, the explorer's staking index.
    assert {method.partition("_")[2] for method, _ in kept_back} == {
        "getCXReceiptByHash",
        "getStakingTransactionByHash",
        "getStakingTransactionsHistory",
        "getTransactionByHash",
        "getTransactionReceipt",
    }
    assert ("hmyv2_getTransactionByHash", "shard0_explorer") not in kept_back


def test_a_null_that_is_kept_is_one_that_cannot_become_anything() -> None:
    nulls = {
        method
        for method, params, reply, _ in REPLIES
        if reply.get("result", "") is None
        and not skipped(method, params, None)
        and not HARMONY.rules.get(method).null_may_fill
        and HARMONY.rules.get(method).cache in (CacheClass.FOREVER, CacheClass.BY_NUMBER)
    }
    # There null says that the delegator had none at that block, which stays so.
    assert {method.partition("_")[2] for method in nulls} == {"getDelegationsByDelegatorByBlockNumber"}


def test_what_two_nodes_of_a_shard_answered_differently_is_not_shared_for_long() -> None:
    differing = {
        entry["method"]
        for entry in CALLS
        if "result" in entry.get("shard0_explorer", {})
        and "result" in entry.get("shard0_validator", {})
        and entry["shard0_explorer"]["result"] != entry["shard0_validator"]["result"]
    }
    lasting = {
        method for method in differing if HARMONY.rules.get(method).cache not in (CacheClass.NODE, CacheClass.NEVER)
    }
    # The list of past epochs' APR in a validator's information starts where the node happens to have begun it.
    # A null of the explorer's staking index is never kept.
    assert {method.partition("_")[2] for method in lasting} == {
        "getAllValidatorInformation",
        "getStakingTransactionsHistory",
        "getValidatorInformation",
    }


def test_what_differed_between_shards_as_a_constant_is_of_the_network() -> None:
    for name in ("eth_chainId", "net_version", "hmyv2_getShardID"):
        entry = next(entry for entry in CALLS if entry["method"] == name)
        assert entry["shard0_explorer"] != entry["shard1_explorer"]
        assert HARMONY.rules.get(name).cache is CacheClass.STATIC


def test_the_proxys_own_answers_are_those_of_the_node() -> None:
    own = [entry for entry in CALLS if HARMONY.rules.get(entry["method"]).local]
    assert len(own) == 9
    for entry in own:
        answer = planned(entry["method"], []).local
        assert answer is not None
        assert json.loads(answer) == entry["shard0_explorer"]["result"], entry["method"]


def test_the_nodes_own_head_is_where_the_rule_says() -> None:
    for method, _, reply, node in REPLIES:
        rule = HARMONY.rules.get(method)
        if not rule.head_at:
            continue
        told = number_at(json.dumps(reply["result"]).encode(), rule.head_at)
        head = 115 if node.startswith("shard1") else 117
        if rule.cache is CacheClass.FOREVER:  # it names a block that the node has, mostly an older one
            assert told is None or told <= head, method
        else:
            assert told == head, method


TEXTS = [(start, FailureKind(kind)) for start, kind in rows_of("recorded_kinds.tsv")]
"""How recorded errors begin, and of which kind they are. The first row that fits counts."""


def errors() -> set[tuple[int, str]]:
    """Every error of both recordings."""
    found = {(reply["error"]["code"], reply["error"]["message"]) for _, _, reply, _ in REPLIES if "error" in reply}
    for line in (FIXTURES / "recorded_edges.txt").read_text("utf-8").splitlines():
        for text in re.findall(r'\{"code": ?-?\d+, ?"message": ?"(?:[^"\\]|\\.)*"\}', line):
            error = json.loads(text)
            found.add((error["code"], error["message"]))
    return found


@pytest.mark.parametrize(("code", "message"), sorted(errors()))
def test_every_recorded_error_is_of_a_kind_we_know(code: int, message: str) -> None:
    expected = next(kind for start, kind in TEXTS if message.startswith(start))
    assert classify(HARMONY.errors, code, message).kind is expected


def test_the_recordings_hold_the_errors_they_are_kept_for() -> None:
    texts = [message for _, message in errors()]
    assert [start for start, _ in TEXTS if not any(text.startswith(start) for text in texts)] == []


def test_no_result_of_a_real_node_is_called_impossible() -> None:
    for method, params, reply, _ in REPLIES:
        if "result" in reply:
            result = json.dumps(reply["result"]).encode()
            lacking = method.endswith("_getStakingTransactionsHistory") and result == b"null"
            wanted = FailureKind.ROLE_MISSING if lacking else None
            plan = planned(method, params)
            assert judge_result(plan, result, plan.head) is wanted, (method, params, result[:80])
