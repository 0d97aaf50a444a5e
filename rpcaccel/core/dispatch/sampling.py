"""Decides which answers are compared with another node's: a small share of them, the light ones first.

Every answer of a node to a client's call adds `share` to a credit, and every call that is made for a comparison is paid
from the credit. So the calls to nodes grow by the share at the most, whatever is asked and however often nodes differ.
A heavy call waits until no light one has taken the credit for a while.
"""

from __future__ import annotations

from msgspec import Struct

from rpcaccel.core.nodes.node import Node
from rpcaccel.core.nodes.sliding_window import SlidingCounts
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass

MOST_CREDIT = 4.0
"""Calls that may be saved up: a comparison that finds a difference takes two."""
HEAVY_FROM = 2.0
"""The credit from which a heavy call is compared: light calls, of which there were none, would have taken it before."""
TIGHT = 0.8
"""Share of a quota (0..1) from which a node is asked for no comparison."""
_LASTING = frozenset({CacheClass.STATIC, CacheClass.FOREVER, CacheClass.BY_NUMBER})


class SamplingSettings(Struct, frozen=True, kw_only=True):
    """How many answers are compared."""

    share: float = 0.005
    """Calls for comparisons as a share (0..1) of the answers of nodes."""
    budget: float = 60.0
    """Calls for comparisons in a minute at the most, for one worker."""


class Sampling:
    """The credit of one network in one worker."""

    __slots__ = ("_spent", "credit", "settings")

    def __init__(self, settings: SamplingSettings) -> None:
        self.settings = settings
        self.credit = 0.0
        """Calls that may be made for comparisons. Whoever takes in an answer adds `settings.share`."""
        self._spent = SlidingCounts(1, span=60.0, slices=12)

    def __repr__(self) -> str:
        return f"<sampling of {self.settings.share:.1%}, credit {self.credit:.2f}>"

    def due(self, plan: Plan, now: float) -> bool:
        """Should the answer to this call be compared now (monotonic seconds)?"""
        self.credit = min(self.credit, MOST_CREDIT)
        if self.credit < (HEAVY_FROM if plan.rule.heavy else 1.0):
            return False
        return may_be_compared(plan) and self.affords(now)

    def affords(self, now: float) -> bool:
        """Is anything compared, and is something left of what comparisons may cost in a minute?"""
        return self.settings.share > 0 and self._spent.totals(now)[0] < self.settings.budget

    def pay(self, now: float) -> None:
        """Pay for one call. The credit may fall below 0: further answers make up for that first."""
        self.credit -= 1.0
        self._spent.bump(0, now)


def may_be_compared(plan: Plan) -> bool:
    """May the answer to this call be one that every good node gives, now and later? Whether it is one, the answer shows
    (core.agreement.majority). Code that the caller chooses can look at what nodes set as they like, such as the gas
    that a call may take, so its results are not compared: a client could make good nodes differ."""
    rule = plan.rule
    lasting = (plan.final or plan.cache is CacheClass.FOREVER) and plan.cache in _LASTING
    return lasting and rule.agreeable and not rule.executes


def is_tight(node: Node, now: float) -> bool:
    """Is so much used of a quota of the node that it is asked for nothing that no client wants?"""
    if node.quota is None:
        return False
    return any(use.runs_out is not None or use.used >= TIGHT * use.limit for use in node.quota.uses(now))
