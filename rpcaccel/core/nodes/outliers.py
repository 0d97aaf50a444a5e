"""Which nodes are so much slower than the others that they are better left alone for a while.

A breaker sees failures; a node that answers everything, two seconds late, never fails. It is found by comparing what
the same methods take on other nodes, so that a node is not blamed for being asked the hard questions. A node that
holds its calls without a word, while others answer, is found sooner than its time limit would tell.

Never more than a share of the nodes, and never the last that is well. Who was left alone comes back by and by, after
the prober has seen it answer as fast as the others do.
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
    """What is much slower. Seconds."""

    factor: float = 5.0
    """Times that the same methods take on the others, 0: nobody is ejected;"""
    by: float = 0.5
    """and so much longer on average."""
    share: float = 0.5
    """Of the nodes that may be out at once; one in any case."""
    samples: int = 10
    """Answers that must be known."""
    lately: float = 30.0
    """What is older does not count."""
    stall: float = 1.5
    """Without a word while others answer."""
    rest: float = 10.0
    """The first time out; each further one is twice as long,"""
    rest_max: float = 120.0
    """up to this. After as long in peace the count begins anew."""
    look_again: float = 2.0
    """How long before the end of a rest the probes are looked at, and by how much it is prolonged."""


_JAMMED = 3
"""Light calls held without a word that make a stall. Heavy ones, and those of unknown methods, make none: a client
chooses how long they take."""
_OVERTAKEN_SHARE = 0.5
_FEW = 3
"""Answers without which a method's average on another node is no measure."""


def look(nodes: Sequence[Node], now: float, settings: OutlierPolicy) -> list[Node]:
    """Eject who is an outlier now, prolong the rest of who still is one; returns the newly ejected."""
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
    """Does it say nothing at all? Seen by its probes, or by the light calls that it has had for `patience` seconds."""
    since = max(node.replied_at, node.busy_since)
    if node.answering is False:
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
    """Has it held its calls without a word, longer than the slowest method takes, while others answered?"""
    silent_since = max(node.replied_at, node.busy_since)
    slowest = max((pace.mean for _, pace in node.pace.lately(now - settings.lately)), default=0.0)
    if node.held[Bulkhead.LIGHT] < _JAMMED or now - silent_since < max(settings.stall, 3 * slowest):
        return False
    return any(other.replied_at > silent_since for other in others)


def _overtaken(node: Node, now: float, settings: OutlierPolicy) -> bool:
    counts = node.attempts.totals(now)
    replied, overtaken = counts[REPLIED], counts[OVERTAKEN]
    return overtaken >= settings.samples and overtaken >= _OVERTAKEN_SHARE * (replied + overtaken)


def _slow(node: Node, others: Sequence[Node], now: float, settings: OutlierPolicy) -> bool:
    """By how much, over all methods it shares with others: the ratio as a mean of logarithms, each method by its
    number of answers (at most 50, so that none drowns the rest)."""
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
    """Its rest ends soon: not before its probes look like those of the others."""
    if node.ejected_until - now > settings.look_again:
        return
    probes = [other.probed for other in counted if other is not node and other.probed is not None]
    if not probes:
        return
    usual = median(probes)
    if node.probed is None or (node.probed >= settings.factor * usual and node.probed - usual >= settings.by):
        node.ejected_until = node.returned_at = now + settings.look_again + 1.0
