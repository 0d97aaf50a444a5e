"""Rules as values."""

from __future__ import annotations

import pytest

from rpcaccel.core.plan.rules import UNKNOWN_RULE, Bulkhead, CacheClass, Denied, Routes, Rule, RuleTable, TagRoute


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


ROUTES = Routes([TagRoute(("eth_getLogs", "trace_*"), "archive"), TagRoute(("*_sendRaw*", "trace_call"), "relay")])


def test_the_first_route_that_fits_decides() -> None:
    assert [ROUTES.tag_of(name) for name in ("eth_getLogs", "trace_call", "eth_sendRawTransaction", "eth_call")] == [
        "archive",
        "archive",
        "relay",
        "",
    ]
    assert ROUTES.tag_of("eth_getlogs") == "", "as nodes look names up"
    assert repr(ROUTES) == "<Routes archive, relay>"


def test_without_routes_any_node_will_do() -> None:
    assert Routes().tag_of("eth_getLogs") == ""


def test_invented_names_do_not_pile_up() -> None:
    routes = Routes([TagRoute(("a",), "x")])
    for number in range(10_000):
        routes.tag_of(f"m{number}")
    assert len(routes._tags) <= 4096
    assert routes.tag_of("a") == "x"
