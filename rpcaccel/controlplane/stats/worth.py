"""What the weights of a network should be, from what its nodes did in the last hour: the facts, gathered from counts,
quotas and settings, are handed to core.weights.weighing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import structlog
from msgspec import Struct
from msgspec.structs import replace

from rpcaccel import chains
from rpcaccel.config.model import NetworkSettings, NodeSettings, Settings
from rpcaccel.controlplane.stats.buckets import NodeKey
from rpcaccel.controlplane.stats.node_history import NodeHistory, NodeSum, PastSlice, PastTotal
from rpcaccel.controlplane.stats.snapshot import NodeView
from rpcaccel.core.replies.failure import FailureKind, is_node_fault
from rpcaccel.core.weights.forecast import pool
from rpcaccel.core.weights.weighing import NodeFacts, RateLimit, Suggestion, suggest
from rpcaccel.core.weights.weight_walk import Measured

SPARE = 0.95
"""Share of what is left of a quota that is planned with: calls that are heavier than those before take more of it."""
REFUSED = 0.01
"""Share of a node's calls refused because of their rate from which on the node counts as limited."""
_UNTOLD = frozenset({FailureKind.RATE_LIMITED.value, FailureKind.UNKNOWN.value})
"""Failures that tell nothing of a node's quality: a limit is no fault, and an unknown error may be the call's."""
_OUT = frozenset({"cordoned", "drained", "wrong-chain"})
"""States of nodes that are left alone."""

log = structlog.get_logger("rpcaccel.weights")


class _While(Struct, frozen=True, eq=False):
    """What nodes did in a while."""

    total: PastTotal
    minutes: Sequence[PastSlice]


class Gathered:
    """What is known of all nodes at one moment. It shares nothing with the counters, and can be read in a thread."""

    def __init__(self, past: NodeHistory, views: Sequence[NodeView], settings: Settings, at: float) -> None:
        """`at`: seconds since 1970."""
        self.views = tuple(views)
        self.settings = settings
        self.at = at
        self.past = past.past()

    def __repr__(self) -> str:
        return f"<Gathered of {len(self.views)} nodes>"

    @cached_property
    def _hour(self) -> _While:
        return _While(self.past.total("hour"), self.past.slices("hour"))

    @cached_property
    def _slices(self) -> list[PastSlice]:
        """All slices of the hour and of the day."""
        return [*self._hour.minutes, *self.past.slices("day")]

    def suggestions(self) -> dict[str, Suggestion]:
        """The suggested weights of each network."""
        return {name: self.suggestion(name) for name in self.settings.networks}

    def suggestion(self, name: str, since: float = 0.0) -> Suggestion:
        """The suggested weights of a network, by the minutes of the last hour that began at `since` or later, in
        seconds since 1970. A fault of this program costs the other networks nothing: it is logged, and no weights are
        suggested."""
        try:
            return self._suggestion(name, since)
        except Exception:
            log.exception("the weights of a network cannot be judged", network=name)
            return Suggestion(why="these weights could not be judged because of an error: the log has it")

    def _suggestion(self, name: str, since: float) -> Suggestion:
        network, seen = self.settings.networks[name], self._since(since)
        known = {node.id: node for node in network.nodes}
        views = [view for view in self.views if view.network == name and view.id in known]
        facts = [self._facts(view, known[view.id], network, seen) for view in views]
        aim = next((view.share_aim for view in views), "")
        made = suggest(facts, _rate(name, seen), by_weight=not aim)
        if aim and made.weights:
            made = replace(made, why=f"{made.why}; {network.balancer} aims at {aim}, so it may come otherwise")
        return made

    def measured(self, name: str, since: float) -> Measured:
        """What all nodes of a network together did in these minutes."""
        total = self._since(since).total
        mine = [one for (owner, _), one in total.nodes.items() if owner == name]
        calls = sum(one.calls for one in mine)
        failing = min(1.0, sum(map(_faults, mine)) / calls) if calls else 0.0
        return Measured(total.seconds, pool(one.by_method for one in mine), failing)

    def _since(self, since: float) -> _While:
        if since <= self.at - 3600.0:
            return self._hour
        return _While(self.past.since(since), self.past.slices("hour", since))

    def _facts(self, view: NodeView, node: NodeSettings, network: NetworkSettings, seen: _While) -> NodeFacts:
        key = (view.network, view.id)
        one = seen.total.nodes.get(key) or NodeSum()
        return NodeFacts(
            id=view.id,
            weight=view.weight,
            tier=view.tier,
            held=view.weight == 0 or view.suspect or view.state in _OUT,
            methods=one.by_method,
            calls=one.calls,
            faults=_faults(one),
            busiest=max((rate for rate, _ in _rates(self._slices, key)), default=_per_second(one.calls, seen.total)),
            limits=tuple(self._limits(view, node, one, cost_of_a_call(one, node, network))),
            at_once=view.limit,
        )

    def _limits(self, view: NodeView, node: NodeSettings, one: NodeSum, cost: float) -> Iterable[RateLimit]:
        if node.quota.second:
            yield RateLimit(node.quota.second / cost, "its quota a second", kept=True)
        for use in view.quota:
            left, seconds = max(0.0, use.limit - use.used), max(1.0, use.renews - self.at)
            yield RateLimit(SPARE * left / seconds / cost, f"what is left of its quota of this {use.window}")
        refused = one.failures.get(FailureKind.RATE_LIMITED.value, 0)
        answered = [rate for _, rate in _rates(self._hour.minutes, (view.network, view.id))]
        if answered and refused >= max(1.0, REFUSED * one.calls):
            yield RateLimit(max(answered), "it refused more")


def _rate(network: str, seen: _While) -> float:
    """Calls a second that reach the nodes of a network, as a call usually meets it: the mean over calls and not over
    time, so that what happens at busy times counts more."""
    counts = [
        (sum(pace.calls for (owner, _), pace in one.paces.items() if owner == network), one.seconds)
        for one in seen.minutes
    ]
    calls = sum(count for count, _ in counts)
    if not calls:
        mine = sum(one.calls for (owner, _), one in seen.total.nodes.items() if owner == network)
        return _per_second(mine, seen.total)
    return sum(count * count / seconds for count, seconds in counts) / calls


def _faults(one: NodeSum) -> int:
    """Attempts that failed by the node's own fault."""
    return sum(count for kind, count in one.failures.items() if is_node_fault(kind) and kind not in _UNTOLD)


def cost_of_a_call(one: NodeSum, node: NodeSettings, network: NetworkSettings) -> float:
    """The number of calls that a call to the node counts as in its quotas, on average."""
    if node.quota.heavy == 1 or not one.calls:
        return 1.0
    rules = chains.load(network.chain).rules
    heavy = sum(took.count for method, took in one.by_method.items() if rules.get(method).heavy)
    return max(1e-3, 1.0 + (node.quota.heavy - 1.0) * min(1.0, heavy / one.calls))


def _rates(slices: Iterable[PastSlice], key: NodeKey) -> list[tuple[float, float]]:
    """Calls and answers a second of a node, in each slice in which it had any."""
    told = [(one.paces[key], one.seconds) for one in slices if key in one.paces]
    return [(pace.calls / seconds, pace.answers / seconds) for pace, seconds in told]


def _per_second(calls: int, past: PastTotal) -> float:
    return calls / past.seconds if past.seconds else 0.0


def patch_of(network: str, weights: Mapping[str, int]) -> dict[str, object]:
    """The merge patch that gives nodes of a network these weights."""
    return {"networks": {network: {"nodes": {id: {"weight": weight} for id, weight in weights.items()}}}}
