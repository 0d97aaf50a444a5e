"""The plan as a value."""

from __future__ import annotations

from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import UNKNOWN_RULE, CacheClass


def test_a_plan_is_kept_when_it_has_any_key() -> None:
    bare = Plan(network="n", method="m", rule=UNKNOWN_RULE, params=b"[]", asked=b"[]", cache=CacheClass.NEVER)
    keyed = Plan(
        network="n", method="m", rule=UNKNOWN_RULE, params=b"[]", asked=b"[]", cache=CacheClass.HEAD, head_key=b"h"
    )
    assert not bare.kept
    assert keyed.kept
    assert not bare.repeat
