"""Plans as tests of single decisions need them, without a planner."""

from __future__ import annotations

from typing import Any

from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass, Rule

_OF_PLANS = frozenset(Plan.__struct_fields__) - {"depth"}


def plan_of(
    method: str = "m",
    *,
    rule: Rule | None = None,
    cache: CacheClass = CacheClass.HEAD,
    params: bytes = b"[]",
    **fields: Any,
) -> Plan:
    """The plan of a call. Fields that a plan has not are those of its rule, if none is given."""
    of_plan = {name: value for name, value in fields.items() if name in _OF_PLANS}
    of_rule = {name: value for name, value in fields.items() if name not in _OF_PLANS}
    made = rule or Rule(method=method, cache=cache, **of_rule)
    asked = of_plan.pop("asked", params)
    return Plan(network="n", method=method, rule=made, params=params, asked=asked, cache=cache, **of_plan)
