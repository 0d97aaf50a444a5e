"""Waiting is for what some node has."""

from __future__ import annotations

from msgspec.structs import replace

from rpcaccel.core.dispatch.dispatch_policy import RECENT_BLOCKS, DispatchSettings, dispatch_settings
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass, Rule

RULE = Rule(method="m", cache=CacheClass.BY_NUMBER)
PLAN = Plan(network="n", method="m", rule=RULE, params=b"[]", asked=b"[]", cache=CacheClass.BY_NUMBER)


def test_patience_is_for_what_some_node_has() -> None:
    settings = DispatchSettings(behind_attempts=2, behind_pause=1.0)
    nodes = [Node("a"), Node("b")]
    nodes[0].head = 7
    at = [dispatch_settings(settings, replace(PLAN, block=block), nodes) for block in (7, 8, None)]
    assert [(one.behind_attempts, one.behind_pause) for one in at] == [(2, 1.0), (0, None), (2, None)]
    nodes[1].head = 7 + RECENT_BLOCKS
    at = [dispatch_settings(settings, replace(PLAN, block=block), nodes) for block in (6, 7)]
    assert [(one.behind_attempts, one.behind_pause) for one in at] == [(2, 0.0), (2, 1.0)], "old ones do not come"
    waited = replace(settings, behind_pause=None)
    assert dispatch_settings(waited, replace(PLAN, block=6), nodes) is waited
    none = DispatchSettings(behind_attempts=0)
    assert dispatch_settings(none, PLAN, nodes) is none
    nodes[0].head = nodes[1].head = -1
    assert dispatch_settings(settings, replace(PLAN, block=8), nodes) is settings, "no head is known"
