"""Outlier ejection: finds nodes that are much slower than the others, and ejects them for some time.

A breaker sees failures, but a node that answers everything two seconds late never fails. Such a node is found by
comparing the latency of the same methods on other nodes, so that a node is not blamed for getting the expensive calls.
A node that holds its calls without an answer, while others answer, is found before its time limit ends.

Only a share of the nodes is ejected, and never the last healthy one. An ejected node returns gradually, after its
probes were as fast as those of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, log
from statistics import median

from msgspec import Struct

from rpcaccel.core.nodes.breaker import BreakerState
from rpcaccel.core.nodes.node import OVERTAKEN, REPLIED, Node
from rpcaccel.core.plan.rules import Bulkhead


class OutlierPolicy(Struct, frozen=True, kw_only=True):
    """When a node is ejected, and for how long. Durations are seconds."""

    factor: float = 5.0
    """How many times slower than on the other nodes the same methods must be; 0: no node is ejected."""
    by: float = 0.5
    """By how much longer the same methods must take on average, beside `factor`."""
    share: float = 0.5
    """Share of the nodes that may be ejected at once; one node may be in any case."""
    samples: int = 10
    """Answers that must be known before a node is compared."""
    lately: float = 30.0
    """Age of the oldest answers that count."""
    stall: float = 1.5
    """Time without a reply, while other nodes answer, after which a node counts as stalled."""
    rest: float = 10.0
    """The first ejection; each further one is twice as long, up to `rest_max`."""
    rest_max: float = 120.0
    """The longest ejection. After the same time without an ejection, the next one is a first one again."""
    look_again: float = 2.0
    """Time before the end of an ejection at which the probes are checked, and by which it is prolonged."""


_JAMMED = 3
"""Light calls without a reply, overtaken ones among them, that make a stall. Other calls do not count, because a client
chooses how long they take."""
_OVERTAKEN_SHARE = 0.5
_FEW = 3
"""Answers that a method needs on another node before its average there is used for comparison."""


def look(nodes: Sequence[Node], now: float, settings: OutlierPolicy) -> list[Node]:
    """Eject the nodes that are outliers now, prolong ejections, and return the newly ejected nodes."""
    counted = [node for node in nodes if _counts(node)]
    out = [node for node in counted if now < node.ejected_until]
    for node in out:
        _prolong(node, counted, now, settings)
    ejected: list[Node] = []
    if not settings.factor:
        return ejected
    most = max(1, int(len(counted) * settings.share))
    for node in counted:
        others = [other for other in counted if other is not node and _well(other, now)]
        if len(out) + len(ejected) >= most or not others:
            break
        if now >= node.ejected_until and _is_outlier(node, others, now, settings):
            _eject(node, now, settings)
            ejected.append(node)
    return ejected


def silent(node: Node, now: float, settings: OutlierPolicy, patience: float) -> bool:
    """Does the node reply to nothing: to no probe, to no call though it is out, or to no light call in flight for
    `patience` seconds?"""
    since = max(node.replied_at, node.busy_since)
    if node.answering is False or not _well(node, now):
        return now - since > settings.stall
    return node.held[Bulkhead.LIGHT] > 0 and now - since >= patience


def _counts(node: Node) -> bool:
    return node.chain_ok is not False and node.weight > 0 and not node.drained and not node.cordoned


def _well(node: Node, now: float) -> bool:
    return now >= node.ejected_until and node.breaker.state is BreakerState.CLOSED


def _is_outlier(node: Node, others: Sequence[Node], now: float, settings: OutlierPolicy) -> bool:
    return (
        _stalled(node, others, now, settings) or _overtaken(node, now, settings) or _slow(node, others, now, settings)
    )


def _stalled(node: Node, others: Sequence[Node], now: float, settings: OutlierPolicy) -> bool:
    """Has the node held its calls for longer than its slowest method takes, while other nodes answered?"""
    silent_since = max(node.replied_at, node.busy_since)
    slowest = max((pace.mean for _, pace in node.pace.lately(now - settings.lately)), default=0.0)
    if now - silent_since < max(settings.stall, 3 * slowest):
        return False
    if node.held[Bulkhead.LIGHT] + node.attempts.totals(now)[OVERTAKEN] < _JAMMED:
        return False
    return any(other.replied_at > silent_since for other in others)


def _overtaken(node: Node, now: float, settings: OutlierPolicy) -> bool:
    counts = node.attempts.totals(now)
    replied, overtaken = counts[REPLIED], counts[OVERTAKEN]
    return overtaken >= settings.samples and overtaken >= _OVERTAKEN_SHARE * (replied + overtaken)


def _slow(node: Node, others: Sequence[Node], now: float, settings: OutlierPolicy) -> bool:
    """Is the node much slower over all methods that it shares with others?

    The ratio is a mean of logarithms, in which each method weighs by its number of answers (at most 50).
    """
    since = now - settings.lately
    weight = log_ratio = excess = 0.0
    for method, pace in node.pace.lately(since):
        known = [found for other in others if (found := other.pace.of(method)) is not None]
        means = [found.mean for found in known if found.at >= since and found.count >= _FEW]
        if not means:
            continue
        usual, count = max(median(means), 1e-6), min(pace.count, 50)
        weight += count
        log_ratio += count * log(max(pace.mean, 1e-6) / usual)
        excess += count * (pace.mean - usual)
    if weight < settings.samples:
        return False
    return exp(log_ratio / weight) >= settings.factor and excess / weight >= settings.by


def _eject(node: Node, now: float, settings: OutlierPolicy) -> None:
    if now - node.ejected_until > settings.rest_max:
        node.ejections = 0
    rest = min(settings.rest * 2.0 ** min(node.ejections, 20), settings.rest_max)
    node.ejections += 1
    node.ejected_until = node.returned_at = now + rest
    node.pace.forget()
    node.attempts.clear()


def _prolong(node: Node, counted: Iterable[Node], now: float, settings: OutlierPolicy) -> None:
    """Prolong an ejection that ends soon, unless the node's probes are as fast as those of the others."""
    if node.ejected_until - now > settings.look_again:
        return
    probes = [other.probed for other in counted if other is not node and other.probed is not None]
    if not probes:
        return
    usual = median(probes)
    if node.probed is None or (node.probed >= settings.factor * usual and node.probed - usual >= settings.by):
        node.ejected_until = node.returned_at = now + settings.look_again + 1.0
