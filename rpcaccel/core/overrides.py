"""What the operator says about methods, laid over a chain's rules. It can only make the cache keep less, or for a
shorter time; the one thing it can add is an age for answers that differ by node, which nobody but the operator can
call good enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.core.rules import CacheClass, Rule, RuleTable

_ORDER = list(CacheClass)


class Override(Struct, frozen=True, kw_only=True):
    """One entry of the settings' `rules`."""

    pattern: str
    """A method's name, or a pattern (fnmatch, case-sensitive)."""
    cache: Literal["", "off", "head"] = ""
    """"off": never kept nor shared; "head": true at one head at most."""
    max_age: float = 0.0
    """Seconds an answer may be served; 0 says nothing."""
    stale: float = 0.0
    """Seconds after that during which it is still served while one call fetches a new one. Node class only."""
    origin: str = ""
    """Where it stands, for `explain`."""


def overridden(rules: RuleTable, overrides: Sequence[Override]) -> RuleTable:
    """The rules with what the operator says: a full name before every pattern, patterns in the order written."""
    if not overrides:
        return rules
    exact = {override.pattern: override for override in overrides}
    made = {}
    for rule in rules:
        override = exact.get(rule.method) or next(
            (one for one in overrides if fnmatchcase(rule.method, one.pattern)), None
        )
        made[rule.method] = rule if override is None else apply(rule, override)
    return RuleTable(made, rules.denied)


def apply(rule: Rule, override: Override) -> Rule:
    """The rule of one method as the operator wants it."""
    at_head = override.cache == "head"
    wanted = CacheClass.HEAD if at_head else CacheClass.STATIC
    return replace(
        rule,
        cache=_stricter(rule.cache, wanted),
        tag_class=_stricter(rule.tag_class, wanted),
        epoch_at=None if at_head else rule.epoch_at,  # a past epoch would last
        off=override.cache == "off",
        max_age=override.max_age,
        stale=override.stale if rule.cache is CacheClass.NODE else 0.0,
        origin=override.origin,
    )


def _stricter(one: CacheClass, other: CacheClass) -> CacheClass:
    return max(one, other, key=_ORDER.index)
