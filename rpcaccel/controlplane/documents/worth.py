"""What the weights of a network should be, from what its nodes did in the last hour: the facts, gathered from counts,
quotas and settings, are handed to core.stats.suggested_weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import structlog
from msgspec.structs import replace

from rpcaccel import chains
from rpcaccel.config.model import NetworkSettings, NodeSettings, Settings
from rpcaccel.controlplane.stats.node_history import NodeHistory, NodeSum, PastSlice, PastTotal
from rpcaccel.controlplane.stats.snapshot import NodeView
from rpcaccel.core.replies.failure import FailureKind, is_node_fault
from rpcaccel.core.stats.suggested_weights import NodeFacts, RateLimit, Suggestion, suggest

SPARE_QUOTA = 0.95
"""Share of what is left of a quota that is planned with: calls that are heavier than those before take more of it."""
REFUSED = 0.01
"""Share of a node's calls refused because of their rate from which on the node counts as limited."""
ROOM_IN_FLIGHT = 0.7
"""Share of a limit of calls in flight up to which a node is filled: the number of calls in flight varies by chance."""
_UNTOLD = frozenset({FailureKind.RATE_LIMITED.value, FailureKind.UNKNOWN.value})
"""Failures that tell nothing of a node's quality: a limit is no fault, and an unknown error may be the call's."""
_OUT = {"cordoned": "cordoned", "drained": "drained", "wrong-chain": "of another chain"}
"""What is said of nodes that are not judged, by their state."""

log = structlog.get_logger("rpcaccel.weights")


class Gathered:
    """What is known of all nodes at one moment, and their history. It is to be read in a thread."""

    def __init__(self, past: NodeHistory, views: Sequence[NodeView], settings: Settings, at: float) -> None:
        """`at`: seconds since 1970."""
        self.views = tuple(views)
        self.settings = settings
        self.at = at
        self.past = past

    def __repr__(self) -> str:
        return f"<Gathered of {len(self.views)} nodes>"

    @cached_property
    def _hour(self) -> PastTotal:
        return self.past.total("hour")

    @cached_property
    def _minutes(self) -> Sequence[PastSlice]:
        """The full minutes of the hour."""
        return self.past.slices("hour")

    def suggestions(self) -> dict[str, Suggestion]:
        """The suggested weights of each network. A fault of this program costs the other networks nothing: it is
        logged, and no weights are suggested."""
        found = {}
        for name in self.settings.networks:
            try:
                found[name] = self._suggestion(name)
            except Exception:
                log.exception("the weights of a network cannot be judged", network=name)
                found[name] = Suggestion(why="these weights could not be judged because of an error: the log has it")
        return found

    def _suggestion(self, name: str) -> Suggestion:
        network = self.settings.networks[name]
        known = {node.id: node for node in network.nodes}
        views = [view for view in self.views if view.network == name and view.id in known]
        calls = sum(one.calls for (owner, _), one in self._hour.nodes.items() if owner == name)
        rate = self._rate(name, calls)
        facts = [self._facts(view, known[view.id], network, rate, calls) for view in views]
        aim = next((view.share_aim for view in views), "")
        made = suggest(facts, rate, by_weight=not aim)
        if aim and made.weights:
            made = replace(made, why=f"{made.why}; {network.balancer} aims at {aim}, so it may come otherwise")
        return made

    def _rate(self, network: str, calls: int) -> float:
        """Calls a second that reach the nodes of a network, as a call usually meets it: the mean over calls and not
        over time, so that idle time does not count. `calls`: those of the hour."""
        counts = [
            (sum(pace.calls for (owner, _), pace in one.paces.items() if owner == network), one.seconds)
            for one in self._minutes
        ]
        if counted := sum(count for count, _ in counts):
            return sum(count * count / seconds for count, seconds in counts) / counted
        return calls / self._hour.seconds if self._hour.seconds else 0.0

    def _facts(
        self, view: NodeView, node: NodeSettings, network: NetworkSettings, rate: float, calls: int
    ) -> NodeFacts:
        key = (view.network, view.id)
        one = self._hour.nodes.get(key) or NodeSum()
        return NodeFacts(
            id=view.id,
            weight=view.weight,
            tier=view.tier,
            held=_OUT.get(view.state, "suspected" if view.suspect else "" if view.weight else "cordoned"),
            methods=one.by_method,
            calls=one.calls,
            faults=sum(count for kind, count in one.failures.items() if is_node_fault(kind) and kind not in _UNTOLD),
            seconds=sum(past.seconds for past in self._minutes if key in past.paces and past.paces[key].calls),
            limits=tuple(self._limits(view, node, one, cost_of_a_call(one, node, network), rate, calls)),
        )

    def _limits(
        self, view: NodeView, node: NodeSettings, one: NodeSum, cost: float, rate: float, calls: int
    ) -> Iterable[RateLimit]:
        """What a node takes at most, in calls a second while there are calls: `rate` is that of the network then."""
        if node.quota.second:
            yield RateLimit(node.quota.second / cost, "its quota a second")
        for use in view.quota:
            busy = calls / (rate * self._hour.seconds) if rate else 1.0  # share of the time with calls
            left, seconds = max(0.0, use.limit - use.used), max(1.0, busy * (use.renews - self.at))
            yield RateLimit(SPARE_QUOTA * left / seconds / cost, f"what is left of its quota of this {use.window}")
        refused = one.failures.get(FailureKind.RATE_LIMITED.value, 0)
        refused = min(refused, one.calls)  # a call is counted when it is sent, which may be before the hour
        if refused >= max(1.0, REFUSED * one.calls):
            yield RateLimit(rate * (one.calls - refused) / calls, f"it refused {refused / one.calls:.0%} of its calls")
        if view.limit and one.latency.mean:
            yield RateLimit(ROOM_IN_FLIGHT * view.limit / one.latency.mean, f"{view.limit:.0f} calls at once")


def cost_of_a_call(one: NodeSum, node: NodeSettings, network: NetworkSettings) -> float:
    """The units that a call to the node counts as in its quotas, on average."""
    if (costs := node.quota.method_costs).billed:
        return max(1e-3, one.credits / one.credited if one.credited else costs.of("", heavy=False))
    if node.quota.heavy == 1 or not one.calls:
        return 1.0
    rules = chains.load(network.chain).rules
    heavy = sum(took.count for method, took in one.by_method.items() if rules.get(method).heavy)
    return max(1e-3, 1.0 + (node.quota.heavy - 1.0) * min(1.0, heavy / one.calls))


def patch_of(network: str, weights: Mapping[str, int]) -> dict[str, object]:
    """The merge patch that gives nodes of a network these weights."""
    return {"networks": {network: {"nodes": {id: {"weight": weight} for id, weight in weights.items()}}}}
