"""Rules as values."""

from __future__ import annotations

from typing import get_args

import pytest

from rpcaccel.core.plan.rules import UNKNOWN_RULE, Bulkhead, CacheClass, Denied, Rule, RuleTable, SkipTest


def test_the_rule_of_a_method_nobody_described_promises_nothing() -> None:
    rule = RuleTable({}).get("eth_newThing")
    assert rule is UNKNOWN_RULE
    assert not rule.known
    assert rule.cache is CacheClass.NEVER
    assert not rule.repeat
    assert rule.local is None
    assert rule.kind == "read"


def test_a_method_is_looked_up_by_its_exact_name() -> None:
    rule = Rule(method="eth_chainId", cache=CacheClass.STATIC)
    table = RuleTable({"eth_chainId": rule})
    assert table.get("eth_chainId") is rule
    assert table.get("eth_ChainId") is UNKNOWN_RULE
    assert rule.known


def test_what_a_pattern_denies_is_denied_with_a_rule_and_without_one() -> None:
    described = Rule(method="evm_mine", cache=CacheClass.NEVER, why="mines")
    table = RuleTable({"evm_mine": described}, [Denied("drives it", ("evm_*", "x"))])
    assert (table.get("evm_mine").deny, table.get("evm_mine").why, table.get("evm_mine").known) == (True, "mines", True)
    assert (table.get("evm_new").deny, table.get("evm_new").why, table.get("evm_new").known) == (
        True,
        "drives it",
        False,
    )
    assert (table.get("evm_new").kind, table.get("evm_new").repeat) == ("write", False)
    assert table.get("xx") is UNKNOWN_RULE
    assert len(table) == 1


def test_a_table_can_be_counted_searched_and_walked() -> None:
    rule = Rule(method="eth_chainId", cache=CacheClass.STATIC)
    table = RuleTable({"eth_chainId": rule})
    assert len(table) == 1
    assert "eth_chainId" in table
    assert list(table) == [rule]
    assert repr(table) == "<RuleTable 1 methods>"


def test_a_reference_to_pending_is_not_kept_unless_a_rule_says_so() -> None:
    rule = Rule(method="m", cache=CacheClass.BY_NUMBER)
    assert (rule.tag_class, rule.pending_class) == (CacheClass.HEAD, CacheClass.NEVER)


def test_the_skip_tests_a_rule_may_name_are_few_and_known() -> None:
    assert set(get_args(SkipTest)) == {
        "null",
        "empty-list",
        "empty-list-unless-genesis",
        "empty-string",
        "0x",
        "not-mined",
        "blobs",
    }


@pytest.mark.parametrize(
    ("rule", "bulkhead"),
    [
        (Rule(method="m", cache=CacheClass.HEAD), Bulkhead.LIGHT),
        (Rule(method="m", cache=CacheClass.NEVER, kind="send", repeat=False), Bulkhead.LIGHT),
        (Rule(method="m", cache=CacheClass.HEAD, heavy=True), Bulkhead.HEAVY),
        (UNKNOWN_RULE, Bulkhead.UNKNOWN),
        (Rule(method="m", cache=CacheClass.BY_NUMBER, executes=True), Bulkhead.EXECUTION),
    ],
)
def test_what_may_take_long_is_kept_apart(rule: Rule, bulkhead: Bulkhead) -> None:
    assert rule.bulkhead is bulkhead
