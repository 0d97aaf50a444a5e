"""Which misses one process fetches for all that share Redis, and how long the others wait for it."""

from __future__ import annotations

import pytest

from rpcaccel.core.dispatch.sole_fetch import (
    MAX_LEASE_SECONDS,
    SLOW,
    TIMES,
    UNKNOWN_LATENCY_LEASE_SECONDS,
    Claim,
    Mode,
    Why,
    claim,
    sentence,
)
from rpcaccel.core.nodes.limits import Quota, QuotaLimits
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.rules import CacheClass, Rule

LIGHT, HEAVY = Rule(method="m", cache=CacheClass.HEAD), Rule(method="m", cache=CacheClass.HEAD, heavy=True)
REDIS = 0.0005
"""Seconds that Redis takes on a machine nearby."""


def node(seconds: float | None = None, *, weight: int = 1, tier: int = 0, quota: QuotaLimits | None = None) -> Node:
    """A node that has answered the method in so many seconds."""
    made = Node(f"{seconds}", weight=weight, tier=tier)
    if seconds is not None:
        made.pace.answered("m", seconds, 0.0)
    if quota is not None:
        made.quota = Quota(quota, now=0.0, epoch=0.0)
    return made


def light(*nodes: Node, mode: Mode = "auto", redis: float = REDIS, priced: bool = False) -> Claim | None:
    return claim(LIGHT, nodes, redis, mode, priced=priced)


def why(found: Claim | None) -> Why | None:
    return found.why if found else None


@pytest.mark.parametrize("mode", ["auto", "always", "heavy"])
def test_one_process_fetches_a_heavy_call_whatever_the_nodes_take(mode: Mode) -> None:
    for nodes in ([], [node(0.001)], [node(2.0)]):
        assert claim(HEAVY, nodes, REDIS, mode, priced=False) == Claim(Why.HEAVY, MAX_LEASE_SECONDS)


def test_one_process_fetches_a_light_read_where_nodes_are_slow() -> None:
    assert light(node(0.0005)) is None
    assert light(node(0.9 * SLOW)) is None
    assert why(light(node(SLOW))) is Why.SLOW


def test_a_slow_redis_is_worth_it_for_slower_nodes_only() -> None:
    assert light(node(0.3), redis=0.31 / TIMES) is None
    assert why(light(node(0.3), redis=0.29 / TIMES)) is Why.SLOW


def test_nodes_count_by_their_weights_and_those_that_take_no_calls_do_not() -> None:
    slow, near = node(0.3, weight=1), node(0.001, weight=99)
    assert light(slow, near) is None
    near.drained = True
    assert why(light(slow, near)) is Why.SLOW
    near.drained, slow.weight = False, 0
    assert light(slow, near) is None


def test_nodes_that_stand_by_do_not_count_while_a_lower_tier_takes_calls() -> None:
    quota = QuotaLimits(month=1000)
    own, paid = node(0.001), node(0.3, tier=1, quota=quota)
    assert light(own, paid) is None
    assert light(paid, own) is None
    own.cordoned = True
    assert why(light(own, paid)) is Why.PAID


@pytest.mark.parametrize(("quota", "paid"), [({"day": 9}, True), ({"month": 9}, True), ({"second": 9}, False)])
def test_a_near_node_with_a_quota_of_a_day_or_a_month_is_worth_it(quota: dict[str, float], paid: bool) -> None:
    assert (why(light(node(0.001, quota=QuotaLimits(**quota)))) is Why.PAID) == paid


def test_a_network_with_a_price_is_worth_it() -> None:
    assert why(light(node(0.001), priced=True)) is Why.PAID


def test_an_operator_may_have_all_or_only_heavy_calls_fetched_by_one() -> None:
    assert why(light(node(0.001), mode="always")) is Why.WANTED
    assert light(node(2.0), mode="heavy", priced=True) is None


def test_nothing_known_of_the_nodes_is_no_reason() -> None:
    assert light() is None
    assert light(node()) is None
    assert light(node(), mode="always") == Claim(Why.WANTED, UNKNOWN_LATENCY_LEASE_SECONDS)


def test_a_method_not_met_yet_takes_what_the_node_takes_on_average() -> None:
    fresh = node()
    fresh.latency.add(0.3, 0.0)
    assert why(light(fresh)) is Why.SLOW


def test_others_wait_by_what_the_slowest_node_takes() -> None:
    found = light(node(0.3), node(0.1))
    assert found is not None
    assert found.patience == pytest.approx(0.8)
    longest = light(node(30.0))
    assert longest is not None
    assert longest.patience == MAX_LEASE_SECONDS


def test_the_decision_is_told_with_its_reason() -> None:
    assert sentence(LIGHT, [node(0.001)], REDIS, "auto", priced=False) == (
        "each process that is asked for it at the same moment asks a node itself (nodes take 1 ms, Redis 0.5 ms)"
    )
    assert sentence(LIGHT, [node(0.3)], REDIS, "auto", priced=False) == (
        "one process asks a node for all that share the Redis, because its nodes are slow beside Redis (nodes take "
        "300 ms, Redis 0.5 ms); the others wait for its answer for 0.8 s at the most"
    )
    assert sentence(HEAVY, [], REDIS, "heavy", priced=False) == (
        "one process asks a node for all that share the Redis, because the method is heavy; the others wait for its "
        "answer for 5 s at the most"
    )
