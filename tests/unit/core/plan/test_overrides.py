"""What the operator says can make the cache keep less, never more than is true."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rpcaccel import chains
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.planner import Planner
from rpcaccel.core.plan.rules import CacheClass, Override, Routes, Rule, RuleTable, TagRoute, apply, overridden, routed

VIEW = ChainSnapshot(serial=1, head=100, best=100, final=100, eth_chain_id=1, epoch=1)
HARMONY = chains.load("harmony")
ETHEREUM = chains.load("ethereum")
OVERRIDES = st.builds(
    Override,
    pattern=st.just("*"),
    cache=st.sampled_from(["", "off", "head"]),
    max_age=st.sampled_from([0.0, 5.0]),
    stale=st.sampled_from([0.0, 5.0]),
)
CALLS = [
    ("eth_gasPrice", b"[]"),
    ("hmyv2_getBlockByNumber", b"[26,{}]"),
    ("hmyv2_getBlocks", b"[1,9,{}]"),
    ("eth_getTransactionCount", b'["0x00","pending"]'),
    ("eth_getTransactionCount", b'["0x00","latest"]'),
    ("net_peerCount", b"[]"),
    ("eth_sendRawTransaction", b'["0x00"]'),
    ("eth_newBlockFilter", b"[]"),
    ("hmyv2_getShardID", b"[]"),
]


def test_what_a_pattern_denies_stays_denied_when_rules_are_changed() -> None:
    rules = overridden(HARMONY.rules, [Override(pattern="eth_*", cache="off")])
    assert rules.get("eth_sendTransaction").deny
    assert rules.get("anvil_mine").deny


def table(*names: str, cache: CacheClass = CacheClass.BY_NUMBER) -> RuleTable:
    return RuleTable({name: Rule(method=name, cache=cache) for name in names})


def planned(rules: RuleTable, method: str, params: bytes):  # type: ignore[no-untyped-def]
    return Planner("net", rules, HARMONY.tags, final_at_once=True).plan(method, params, VIEW)


def test_without_a_word_the_chains_own_table_is_used() -> None:
    assert list(overridden(HARMONY.rules, [])) == list(HARMONY.rules)


def test_a_name_wins_over_patterns_and_the_first_pattern_over_later_ones() -> None:
    said = [Override(pattern=pattern, max_age=age) for pattern, age in (("*", 1), ("eth_*", 2), ("eth_call", 3))]
    rules = overridden(table("eth_call", "eth_getLogs", "net_version"), said)
    assert [rules.get(name).max_age for name in ("eth_call", "eth_getLogs", "net_version")] == [3, 1, 1]


def test_patterns_are_of_one_case_as_methods_are() -> None:
    assert overridden(table("eth_call"), [Override(pattern="ETH_*", max_age=1)]).get("eth_call").max_age == 0


@pytest.mark.parametrize("cache", CacheClass)
def test_a_class_becomes_stricter_or_stays(cache: CacheClass) -> None:
    order = list(CacheClass)
    rule = apply(Rule(method="m", cache=cache), Override(pattern="m", cache="head"))
    assert order.index(rule.cache) >= order.index(cache)
    assert order.index(rule.cache) >= order.index(CacheClass.HEAD)


@pytest.mark.parametrize("method", ["hmyv2_getValidators", "hmyv2_getValidatorKeys", "hmyv2_epochLastBlock"])
def test_an_answer_about_a_past_epoch_is_kept_for_one_head_where_the_operator_wants_no_more(method: str) -> None:
    later = replace(VIEW, epoch=7)
    rules = overridden(HARMONY.rules, [Override(pattern="hmyv2_*", cache="head")])
    plan = Planner("net", rules, HARMONY.tags, final_at_once=True).plan(method, b"[3]", later)
    assert (plan.cache, plan.key) == (CacheClass.HEAD, None)
    assert plan.head_key is not None


@given(OVERRIDES, st.sampled_from(CALLS))
def test_whatever_the_operator_says_only_node_answers_gain_a_key(override: Override, call: tuple[str, bytes]) -> None:
    before = planned(HARMONY.rules, *call)
    after = planned(overridden(HARMONY.rules, [override]), *call)
    if before.key is None and before.cache is not CacheClass.NODE:
        assert after.key is None
    if before.head_key is None and before.key is None:
        assert after.head_key is None
    if override.cache == "off":
        assert (after.key, after.head_key, after.range, after.shared_keys) == (None, None, None, ())
    if after.rule.max_age:
        assert after.range is None
    assert after.params == before.params or override.cache == "head"
    assert after.rule.repeat == before.rule.repeat


def test_an_age_lets_a_node_answer_be_kept_in_this_process_only() -> None:
    rules = overridden(HARMONY.rules, [Override(pattern="net_peerCount", max_age=5)])
    plan = planned(rules, "net_peerCount", b"[]")
    assert (plan.key, plan.head_key, plan.shared_keys) == (b"net@1:net_peerCount:l:[]", None, ())
    assert plan.flight_key == plan.key


def test_the_pending_nonce_is_kept_for_nobody() -> None:
    rules = overridden(HARMONY.rules, [Override(pattern="*", max_age=5, stale=5)])
    plan = planned(rules, "eth_getTransactionCount", b'["0x00","pending"]')
    assert (plan.cache, plan.key, plan.head_key) == (CacheClass.NODE, None, None)


def test_only_node_answers_may_be_stale() -> None:
    rules = overridden(HARMONY.rules, [Override(pattern="*", max_age=5, stale=5)])
    assert rules.get("eth_gasPrice").stale == 0
    assert rules.get("net_peerCount").stale == 5


def test_what_a_proof_shows_is_proved_and_the_rest_agreed_in() -> None:
    rules = overridden(ETHEREUM.rules, [Override(pattern="eth_*", agree=2, prove=True)])
    found = {
        name: (rules.get(name).prove, rules.get(name).agree) for name in ("eth_getBalance", "eth_call", "eth_getProof")
    }
    assert found == {"eth_getBalance": (True, 1), "eth_call": (False, 2), "eth_getProof": (False, 2)}
    by_route = routed(rules, Routes([TagRoute(("eth_get*",), "sure", 3)]))
    assert by_route.get("eth_getBalance").agree == 1


def test_only_reads_that_nodes_answer_alike_are_asked_of_several() -> None:
    rules = overridden(HARMONY.rules, [Override(pattern="*", agree=2)])
    assert [rules.get(name).agree for name in ("eth_getBalance", "net_peerCount", "eth_newFilter")] == [2, 1, 1]
