"""Which weights suit the nodes of a network, by what they were seen to do, with the reason in a sentence.

The aim is the least mean latency of the network's calls. Calls go to the quickest node up to its limits, then to the
next one; nodes that cannot be told apart keep the ratio of their weights. Latency may depend on load, which nobody
knows beforehand: so one suggestion changes the share of no node by more than the factor MAX_STEP, and the next one
follows from what came of it. Weights are compared within a tier only, and nodes that are drained or suspected
are not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, sqrt
from operator import mul

from msgspec import Struct

from rpcaccel.core.stats.comparison import MIN_METHOD_CALLS, SURE, compare, mean_of, pool
from rpcaccel.core.stats.histogram import Histogram, together

MAX_WEIGHT = 20
"""The largest weight that is suggested."""
MAX_STEP = 2.0
"""Factor by which one suggestion changes a node's share of its tier at the most."""
ENOUGH_SECONDS, ENOUGH_CALLS = 1200.0, 2000
"""Seconds for which a node must have had calls before it is judged; with so many calls it is judged sooner."""
MIN_COMPARED_CALLS = 50
"""Compared calls of a node below which nothing is said of it."""
MAX_VAGUE = 0.2
"""Standard error of a node's latency, as a share of it, above which nothing is said of the node."""
MOSTLY_FAILS = 0.5
"""Share of failed calls from which on a node is judged by these, though its answers are too few to say how quick it
is."""
ALIKE = 1.05
"""Ratio of two latencies up to which nodes count as equally quick, however sure the difference is."""
MIN_GAIN = 0.03
"""Share of the mean latency that new weights must save to be suggested, unless a node has more than it can take."""
OVERLOAD = 1.25
"""Ratio of a node's share to what it can take from which it is said to get too much."""
ROUNDING = 0.1
"""Part of a share by which whole weights may miss it, where smaller weights are to be had for that."""


class RateLimit(Struct, frozen=True):
    """A limit of the calls that a node takes."""

    per_second: float
    why: str
    """The limit in words that follow "takes at most 50 calls a second": "its quota"."""


class NodeFacts(Struct, frozen=True, kw_only=True):
    """What is known of a node, over one and the same while for all nodes of a network."""

    id: str
    weight: int
    tier: int = 0
    held: str = ""
    """Why it is not judged, in words that follow "it is": "drained", "suspected". Empty: it is judged."""
    methods: Mapping[str, Histogram] = {}
    """Latency of good answers by method."""
    calls: int = 0
    """Attempts sent to it."""
    faults: int = 0
    """Attempts among them that failed by its own fault."""
    seconds: float = 0.0
    """Seconds of the minutes in which it had calls."""
    limits: tuple[RateLimit, ...] = ()


class SuggestedWeight(Struct, frozen=True):
    """The suggested weight of a node, and the reason in a sentence."""

    value: int
    why: str


class Suggestion(Struct, frozen=True, kw_only=True):
    """Suggested weights of a network."""

    weights: Mapping[str, SuggestedWeight] = {}
    """By node; empty when no weights would be better than those in force."""
    gain: float = 0.0
    """Share of the mean latency that is saved, errors counted in, 0 to 1."""
    why: str = ""
    """A sentence: why these weights, or why none."""


class _TierNode(Struct):
    """A node among the others of its tier. All shares are of the tier's calls, 0 to 1."""

    facts: NodeFacts
    present: float
    """The share that its weight asks for."""
    had: float
    """The share that it got."""
    seconds: float = 0.0
    """Expected latency of the tier's mix of calls; 0 when not known well enough."""
    error: float = 0.0
    """The standard error of that."""
    fails: bool = False
    """Is it judged by its failed calls, since its answers are too few to say how quick it is?"""
    cost: float = 0.0
    """Expected latency with what its errors cost."""
    limit: RateLimit | None = None
    """The least of its limits."""
    ceiling: float = inf
    """The share that it can take by that limit."""
    share: float = 0.0
    """The share that it should have."""
    made: float = 0.0
    """The share that it would have by whole weights."""

    @property
    def has_evidence(self) -> bool:
        """Was it seen for long enough, or in enough calls?"""
        return self.facts.seconds >= ENOUGH_SECONDS or self.facts.calls >= ENOUGH_CALLS

    def know(self, seconds: float, error: float, others: float) -> None:
        """Take its latency as known. `others`: the seconds of another node's answer, which a failed call takes too."""
        failing = min(0.9, self.facts.faults / self.facts.calls) if self.facts.calls else 0.0
        self.seconds, self.error = seconds, error
        self.cost = seconds + failing / (1.0 - failing) * (seconds + others)


_Tier = Sequence[_TierNode]


def suggest(nodes: Sequence[NodeFacts], rate: float, *, by_weight: bool = True) -> Suggestion:
    """The weights that suit the nodes of one network.

    Args:
        rate: calls a second that reach nodes, as a call usually meets it.
        by_weight: do shares follow the weights? Where the balancer aims at something else, the shares that nodes had
            are taken for those that they would have.
    """
    whole = sum(node.calls for node in nodes)
    tiers = []
    for number in sorted({node.tier for node in nodes}):
        calls = sum(node.calls for node in nodes if node.tier == number)
        members = [node for node in nodes if node.tier == number and node.weight and not node.held]
        tiers.append(_tier_nodes(members, rate * calls / whole if whole else 0.0, by_weight=by_weight))
    weighed = [tier for tier in tiers if _fill(tier)]
    judged = [one for tier in weighed for one in tier]
    weights: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for tier in weighed:
        held = {node.id: node for node in nodes if node.held and node.weight and node.tier == tier[0].facts.tier}
        made = _weights(tier, {id: node.weight for id, node in held.items()})
        if any(abs(one.made - one.present) > 1e-9 for one in tier):
            weights |= made
            reasons |= {one.facts.id: _reason(one, tier) for one in tier}
            reasons |= {id: _why_held(one, made[id]) for id, one in held.items() if made[id] != one.weight}
    before, after = _mean_cost(weighed, "had"), _mean_cost(weighed, "made")
    gain = max(0.0, 1.0 - after / before) if before else 0.0
    over = next((one.facts.id for one in judged if one.had > one.ceiling * OVERLOAD), "")
    if not weights or (gain < MIN_GAIN and not over):
        return Suggestion(why=_why_none(tiers, weighed))
    advised = {node.id: SuggestedWeight(weights[node.id], reasons[node.id]) for node in nodes if node.id in reasons}
    why = f"the mean would have been {_told(after)} in place of {_told(before)}"
    if over:
        why = f"{over} gets more calls than it can take" + (f"; {why}" if after < before else "")
    present = {node.id: node.weight for node in nodes if not node.held}
    leader = _leader({id: weights.get(id, weight) for id, weight in present.items()})
    if leader and leader != _leader(present):
        why = f"{why}; {leader} alone would have most of the weight, so the served head would wait for its blocks"
    return Suggestion(weights=advised, gain=gain, why=why)


# -- what nodes are worth ----------------------------------------------------------------------------------------------


def _tier_nodes(members: Sequence[NodeFacts], rate: float, *, by_weight: bool) -> list[_TierNode]:
    """The nodes of a tier, each judged as far as its figures allow. `rate`: calls a second that the tier gets."""
    weight, calls = sum(node.weight for node in members), sum(node.calls for node in members)
    pooled = pool(node.methods for node in members)
    often = {method: took.count for method, took in pooled.items() if _shared(method, members)}
    mean = together(pooled[method] for method in often or pooled).mean or 0.0
    found = []
    for node in members:
        share = node.weight / weight
        one = _TierNode(node, present=share, had=share if by_weight or not calls else node.calls / calls, cost=mean)
        _judge(one, pooled, often, mean)
        one.limit = min(node.limits, key=lambda limit: limit.per_second, default=None)
        if one.limit is not None and rate > 0:
            one.ceiling = one.limit.per_second / rate
        found.append(one)
    answering = [one for one in found if not one.fails]
    if len(answering) == 1 < len(found) and not answering[0].seconds:  # where all others fail, it needs no comparison
        own = mean_of(together(answering[0].facts.methods.values()))
        if own is not None and own.count >= MIN_COMPARED_CALLS and answering[0].has_evidence:
            answering[0].know(own.seconds, sqrt(own.variance), own.seconds)
    return found


def _shared(method: str, members: Sequence[NodeFacts]) -> bool:
    """Did two nodes answer the method? What one node alone answers stays with it, whatever the weights are."""
    return sum(method in node.methods and node.methods[method].count >= MIN_METHOD_CALLS for node in members) > 1


def _judge(one: _TierNode, pooled: Mapping[str, Histogram], often: Mapping[str, int], mean: float) -> None:
    """Find the latency that a node has for the tier's mix of calls (`often`: calls by method). Methods that it hardly
    answered are taken to go as much quicker, or slower, than on the other nodes as those that it did answer."""
    node = one.facts
    if not one.has_evidence:
        return
    mine = {method: node.methods.get(method, _NOTHING) for method in often}
    others = {method: pooled[method].since(own) for method, own in mine.items()}
    found = compare(mine, others, often)
    if found is not None and found.calls >= MIN_COMPARED_CALLS and found.error <= MAX_VAGUE:
        took = found.mean * sum(often[method] for method in found.methods)
        for method in often.keys() - found.methods:
            took += found.ratio * (others[method].mean or 0.0) * often[method]
        seconds = took / sum(often.values())
        one.know(seconds, found.error * seconds, mean)
    elif node.calls >= MIN_COMPARED_CALLS and node.faults >= MOSTLY_FAILS * node.calls:
        one.fails = True
        one.know(mean, 0.0, mean)


_NOTHING = Histogram()


# -- shares and weights ------------------------------------------------------------------------------------------------


def _fill(tier: _Tier) -> bool:
    """Give each node its share, unless fewer than two of them are known: the unknown ones theirs of now, the others
    from the quickest on as much as they can take and one step allows. Returns whether that was done."""
    known = sorted((one for one in tier if one.seconds), key=lambda one: one.cost)
    if len(known) < 2:
        return False
    for one in tier:
        least = one.present / MAX_STEP
        one.share = least if one.seconds else max(least, min(one.present, one.ceiling))
    left = 1.0 - sum(one.share for one in tier)
    rest = known
    while rest:
        alike = [one for one in rest if _as_quick(one, rest[0])]
        rest = [one for one in rest if one not in alike]
        left = _divide(left, alike, lambda one: min(one.ceiling, MAX_STEP * one.present))
    _divide(left, tier, lambda one: MAX_STEP * one.present)  # all are full, and the calls must go somewhere
    return True


def _as_quick(one: _TierNode, best: _TierNode) -> bool:
    if one is best or one.cost <= best.cost * ALIKE:
        return True
    return one.cost - best.cost <= SURE * sqrt(one.error**2 + best.error**2)


def _divide(left: float, nodes: _Tier, most: Callable[[_TierNode], float]) -> float:
    """Divide a share of the calls among nodes by their weights, to each no more than `most`; returns what is left."""
    while left > 1e-9 and (free := [one for one in nodes if most(one) - one.share > 1e-9]):
        portion, weight = left, sum(one.present for one in free)
        for one in free:
            more = min(most(one) - one.share, portion * one.present / weight)
            one.share += more
            left -= more
    return left


def _weights(tier: _Tier, beside: Mapping[str, int]) -> dict[str, int]:
    """Weights of 1 to MAX_WEIGHT by the shares of a tier: the smallest that are fine enough, or else the finest; those
    in force where all of them would go beyond one step. Nodes of the tier that are not judged keep the ratio of their
    weights (`beside`) to the sum of all others. What shares come of the weights is noted in the tier."""
    found = {one.facts.id: one.facts.weight for one in tier} | dict(beside)
    whole = sum(one.facts.weight for one in tier)
    targets: dict[str, float] = {one.facts.id: whole * one.share for one in tier}
    targets.update(beside)
    least = inf
    for largest in range(1, MAX_WEIGHT + 1):
        scale = largest / max(targets.values())
        weights = {id: max(1, round(target * scale)) for id, target in targets.items()}
        miss = max(abs(weights[id] / (target * scale) - 1.0) for id, target in targets.items())
        if miss < least and _note(tier, weights):
            found, least = weights, miss
        if least <= ROUNDING:
            break
    _note(tier, found)
    return found


def _note(tier: _Tier, weights: Mapping[str, int]) -> bool:
    """Note in the tier which shares these weights give; is none of them more than one step away?"""
    whole = sum(weights[one.facts.id] for one in tier)
    for one in tier:
        one.made = weights[one.facts.id] / whole
    ratios = [one.made / one.present for one in tier]
    return max(ratios) <= MAX_STEP + 1e-9 and min(ratios) >= 1.0 / MAX_STEP - 1e-9


def _mean_cost(tiers: Sequence[_Tier], shares: str) -> float:
    """The mean cost of a call in seconds, by the shares "had", "share" or "made"; 0 where nothing was weighed."""
    counts = [sum(one.facts.calls for one in tier) for tier in tiers]
    costs = [sum(getattr(one, shares) * one.cost for one in tier) for tier in tiers]
    return sum(map(mul, counts, costs)) / sum(counts) if any(counts) else 0.0


def _leader(weights: Mapping[str, int]) -> str:
    """The node with more than half of the weight, without which the served head does not go on; empty for none."""
    return next((id for id, weight in weights.items() if 2 * weight > sum(weights.values())), "")


# -- words -------------------------------------------------------------------------------------------------------------


def _told(seconds: float) -> str:
    """A duration for people: "20 ms", "1.5 s"."""
    return f"{seconds:.3g} s" if seconds >= 1.0 else f"{seconds * 1000:.3g} ms"


def _reason(one: _TierNode, tier: _Tier) -> str:
    node, words = one.facts, []
    if not one.seconds:
        words.append(_unknown(one))
    elif not one.fails:
        words.append(_against(one, tier))
    if one.seconds and node.calls and node.faults / node.calls >= 0.01:
        words.append(f"{node.faults / node.calls:.0%} of its calls fail")
    if one.limit is not None and one.share >= one.ceiling * 0.99:
        words.append(f"takes at most {one.limit.per_second:.3g} calls a second ({one.limit.why})")
    elif abs(one.share / one.present - MAX_STEP) < 1e-6:
        words.append("its share is at most doubled at once")
    elif abs(one.share / one.present - 1.0 / MAX_STEP) < 1e-6:
        words.append("its share is at most halved at once")
    return "; ".join(words)


def _why_held(node: NodeFacts, weight: int) -> str:
    return f"not judged, because it is {node.held}: {weight} is beside the new weights what {node.weight} was before"


def _unknown(one: _TierNode) -> str:
    """Why nothing is said of a node."""
    if not one.has_evidence:
        seen = f"{one.facts.calls:,} calls in {one.facts.seconds / 60:.0f} min"
        return f"keeps its share: {seen}, and {_NEEDED} are needed to judge it"
    return "keeps its share: its calls tell too little, few of the same methods as other nodes', or very uneven"


_NEEDED = f"{ENOUGH_CALLS:,} calls or {ENOUGH_SECONDS / 60:.0f} min"


def _against(one: _TierNode, tier: _Tier) -> str:
    """The node against the quickest other one, over the methods that both were asked."""
    often = {name: own.count for name, own in one.facts.methods.items()}
    for other in sorted((other for other in tier if other.seconds and other is not one), key=lambda it: it.seconds):
        found = compare(one.facts.methods, other.facts.methods, often)
        if found is not None:
            methods = "the same method" if len(found.methods) == 1 else f"the same {len(found.methods)} methods"
            return f"{_told(found.mean)} against {_told(found.others)} of {other.facts.id} for {methods}"
    return f"{_told(one.seconds)} for the calls of this network"


def _why_none(tiers: Sequence[_Tier], weighed: Sequence[_Tier]) -> str:
    if weighed and not any(one.ceiling for tier in weighed for one in tier):
        return "all quotas are used up"
    if weighed and _mean_cost(weighed, "share") <= (1.0 - MIN_GAIN) * _mean_cost(weighed, "had"):
        return f"the weights are those that would be suggested, as finely as weights up to {MAX_WEIGHT} can tell"
    if weighed:
        return f"other weights would save less than {MIN_GAIN:.0%} of the mean latency"
    nodes = [one for tier in tiers for one in tier]
    if len(nodes) < 2:
        return "there are no two nodes to divide calls between"
    early = [one.facts.id for one in nodes if not one.has_evidence]
    if early:
        return f"too early to compare: {_NEEDED} are needed of each node, and are not there of {_named(early)}"
    return f"too few calls that can be compared: {_named([one.facts.id for one in nodes if not one.seconds])}"


def _named(ids: Sequence[str]) -> str:
    return f"{', '.join(ids[:5])}{', …' if len(ids) > 5 else ''}"
