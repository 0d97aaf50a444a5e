"""How many answers are compared with another node's, and which."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.dispatch.sampling import MOST_CREDIT, Sampling, SamplingSettings, is_tight, may_be_compared
from rpcaccel.core.nodes.limits import Quota, QuotaLimits
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import UNKNOWN_RULE, CacheClass
from tests.support.plans import plan_of

DAY = 86_400.0


def plan(cache: CacheClass = CacheClass.BY_NUMBER, **fields: Any) -> Plan:
    return plan_of(cache=cache, **{"final": True, **fields})


@given(st.lists(st.booleans(), max_size=3000), st.sampled_from([0.001, 0.005, 0.1, 1.0]), st.integers(1, 2))
def test_calls_for_comparisons_are_never_more_than_their_share(heavy: list[bool], share: float, each: int) -> None:
    sampling, paid = Sampling(SamplingSettings(share=share, budget=1e9)), 0
    for number, one in enumerate(heavy, 1):
        sampling.credit += share
        if sampling.due(plan(heavy=one), 0.0):
            for _ in range(each):
                sampling.pay(0.0)
                paid += 1
        assert paid <= number * share + (each - 1) + 1e-6


def test_a_heavy_call_waits_until_no_light_one_took_the_credit() -> None:
    sampling = Sampling(SamplingSettings())
    sampling.credit = 1.5
    assert sampling.due(plan(), 0.0)
    assert not sampling.due(plan(heavy=True), 0.0)
    sampling.credit = 2.0
    assert sampling.due(plan(heavy=True), 0.0)


def test_credit_is_not_saved_up_without_end() -> None:
    sampling = Sampling(SamplingSettings(budget=1e9))
    sampling.credit = 1e6
    spent = 0
    while sampling.due(plan(), 0.0):
        sampling.pay(0.0)
        spent += 1
    assert spent == MOST_CREDIT


def test_the_budget_of_a_minute_holds() -> None:
    sampling = Sampling(SamplingSettings(budget=3))
    for second in range(60):
        sampling.credit = 2.0
        if sampling.due(plan(), float(second)):
            sampling.pay(float(second))
    assert not sampling.due(plan(), 59.0)
    sampling.credit = 2.0
    assert sampling.due(plan(), 61.0)


def test_only_reads_are_compared_that_every_good_node_answers_alike_for_ever() -> None:
    assert may_be_compared(plan())
    assert may_be_compared(plan(CacheClass.FOREVER, final=False))  # the answer may name a settled block
    assert not may_be_compared(plan(final=False))
    for cache in (CacheClass.HEAD, CacheClass.NODE, CacheClass.EPOCH, CacheClass.NEVER):
        assert not may_be_compared(plan(cache))
    assert not may_be_compared(plan(rule=UNKNOWN_RULE))
    assert not may_be_compared(plan(kind="write"))
    assert not may_be_compared(plan(repeat=False))
    assert not may_be_compared(plan(executes=True))  # code of the client can look at what nodes set as they like


def test_a_node_with_a_tight_quota_is_one_that_will_not_last_or_has_used_most_of_it() -> None:
    node = Node("a")
    assert not is_tight(node, 0.0)
    node.quota = Quota(QuotaLimits(day=100), now=0.0, epoch=DAY * 20_000)
    assert not is_tight(node, 0.0)
    for _ in range(10):
        node.quota.spend("eth_call", False, 100.0)
    assert is_tight(node, 200.0)  # a tenth of the day's calls within minutes
    assert not is_tight(node, DAY / 2)
    for _ in range(71):
        node.quota.spend("eth_call", False, DAY * 0.9)
    assert is_tight(node, DAY * 0.99)
