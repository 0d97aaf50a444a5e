"""Decides whether one process fetches a miss for all that share Redis, and how long the others wait for its answer.

The one that fetches holds a lease (dataplane.engine.fetch_context). The lease takes a round trip to Redis before the
node is asked, and two more commands in all; without it, every process that is asked for the same at the same moment
asks a node. So a light read is worth a lease where nodes are slow beside Redis, or are paid or limited by the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Literal

from msgspec import Struct

from rpcaccel.core.nodes.breaker import CLOSED
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.rules import Rule

MAX_LEASE_SECONDS = 5.0
"""Seconds that a lease lives at the most. Heavy calls have leases of that length, since their duration depends on their
params."""
UNKNOWN_LATENCY_LEASE_SECONDS = 1.0
"""Seconds that the lease of a light read lives where no node's latency is known."""
LEASE_SPARE_SECONDS = 0.2
"""Seconds that a lease lives beyond twice what the slowest node takes: for a retry, and for writing the answer."""
SLOW = 0.02
"""Seconds that nodes take at the least where a light read is worth a lease."""
TIMES = 10.0
"""How many times what Redis takes they must take as well, so that the lease adds a tenth at the most."""

Mode = Literal["auto", "always", "heavy"]
"""Which reads have one process fetch for all: those that are worth it, all, or heavy ones alone."""


class Why(Enum):
    """Why one process fetches for all, in words that follow "because"."""

    HEAVY = "the method is heavy"
    WANTED = "redis.single_flight is always"
    PAID = "its nodes have a price, or a quota of a day or a month"
    SLOW = "its nodes are slow beside Redis"


class Claim(Struct, frozen=True, gc=False):
    """One process is to fetch for all."""

    why: Why
    patience: float
    """Seconds that the lease lives, and that others wait for its holder at the most."""


class MethodPace(Struct, frozen=True, gc=False):
    """How long the nodes take that would be asked for a method. Times are in seconds."""

    mean: float | None
    """By the weights of the nodes; None when no node's latency is known."""
    slowest: float
    """The largest of the nodes' usual upper ends (the quantile that hedging waits for)."""
    limited: bool
    """Has one of the nodes a quota of a day or a month?"""


def claim(rule: Rule, nodes: Sequence[Node], redis: float, mode: Mode, *, priced: bool) -> Claim | None:
    """Decide whether one process fetches a miss for all; None when each fetches for itself.

    Args:
        nodes: the nodes of the network.
        redis: seconds that Redis takes for a lookup lately.
        priced: calls to the network's nodes cost money (networks.*.price).
    """
    if rule.heavy:
        return Claim(Why.HEAVY, MAX_LEASE_SECONDS)
    if mode == "heavy":
        return None
    pace = pace_of(rule.method, nodes)
    mean = pace.mean
    if mode == "always":
        why = Why.WANTED
    elif priced or pace.limited:
        why = Why.PAID
    elif mean is not None and mean >= max(SLOW, TIMES * redis):
        why = Why.SLOW
    else:
        return None
    return Claim(
        why,
        UNKNOWN_LATENCY_LEASE_SECONDS
        if mean is None
        else min(MAX_LEASE_SECONDS, LEASE_SPARE_SECONDS + 2 * pace.slowest),
    )


def pace_of(method: str, nodes: Sequence[Node]) -> MethodPace:
    """How long the nodes take for a method: those of the lowest tier in which any takes calls."""
    weights, total, slowest, limited = 0, 0.0, 0.0, False
    tier: int | None = None
    for node in nodes:
        if node.weight <= 0 or node.drained or node.cordoned or node.barred or node.breaker.state is not CLOSED:
            continue
        if tier is None or node.tier < tier:
            tier, weights, total, slowest, limited = node.tier, 0, 0.0, 0.0, False
        elif node.tier > tier:
            continue
        limited = limited or (node.quota is not None and bool(node.quota.settings.day or node.quota.settings.month))
        latency = node.pace.of(method)
        if latency is not None:
            mean, upper = latency.mean, latency.quantile
        elif node.latency.known:
            mean = upper = node.latency.ewma
        else:
            continue
        weights += node.weight
        total += node.weight * mean
        slowest = max(slowest, upper)
    return MethodPace(total / weights if weights else None, slowest, limited)


def sentence(rule: Rule, nodes: Sequence[Node], redis: float, mode: Mode, *, priced: bool) -> str:
    """Say whether one process fetches a miss for all, for `explain`. Arguments as for `claim`."""
    found, mean = claim(rule, nodes, redis, mode, priced=priced), pace_of(rule.method, nodes).mean
    took = "" if mean is None else f" (nodes take {1000 * mean:.3g} ms, Redis {1000 * redis:.3g} ms)"
    if found is None:
        return f"each process that is asked for it at the same moment asks a node itself{took}"
    why = found.why.value + (took if found.why is Why.SLOW else "")
    return (
        f"one process asks a node for all that share the Redis, because {why}; the others wait for its answer for "
        f"{found.patience:.2g} s at the most"
    )
