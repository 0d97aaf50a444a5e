"""Which weights the nodes of a network deserve, by what they were seen to do, with the reason in a sentence.

The aim is the least mean latency of the network's calls at their present rate. The quickest node takes calls up to what
it can take, then the next one; nodes that cannot be told apart keep the ratio of their weights. Every slower node keeps
a small share, so that its latency stays known. Weights are compared within a tier only, and nodes that the operator
has taken out are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, sqrt

from msgspec import Struct

from rpcaccel.core.stats.histogram import Histogram, together
from rpcaccel.core.weights.comparison import FEWEST, SURE, Paces, compare, mean_of, paces_of
from rpcaccel.core.weights.forecast import Forecast, forecast_of, limited, pool, replay
from rpcaccel.core.weights.whole_weights import shares_of, whole_weights

LEAST_CALLS = 50
"""Compared calls of a node below which nothing is said of it."""
FAILING = 0.5
"""Share of failed calls from which on a node is judged by these, though its answers are too few to say how quick it
is."""
VAGUE = 0.2
"""Standard error of a node's latency, as a share of it, above which nothing is said of the node."""
ALIKE = 1.05
"""Ratio of two latencies up to which nodes count as equally quick, however sure the difference is."""
ROOM_IN_FLIGHT = 0.7
"""Share of a limit of calls in flight up to which a node is filled: the number of calls in flight varies by chance. A
limit of calls a second is filled: what is beyond it goes to another node."""
GROWTH = 3.0
"""A node is given at most this multiple of the calls a second that it had in its busiest minutes: nobody has seen it
take more."""
ALWAYS = 1.0
"""Calls a second that any node is expected to take."""
EXPLORE = 0.02
"""The share of the calls that a slow node keeps at the most, so that its latency stays known."""
EXPLORE_COST = 0.01
"""The share of the mean latency that all slow nodes together may cost by what they keep."""
WORTH = 0.03
"""Share of the mean latency that new weights must save to be suggested, unless a node has more than it can take."""
OVERFILL = 1.05
"""Ratio of a node's share to a limit that the proxy keeps to. Calls come unevenly: with no more than its limit, a node
would have nothing to do in quiet moments and too much in busy ones."""
OVERLOAD = 1.25
"""Ratio of a node's share to what it can take from which it is said to get too much."""
ROUNDED = 1.005
"""Ratio of the mean latency with whole weights to that with exact shares, at the most."""
APART = 0.03
"""Part of a share by which whole weights may miss it, where the share is a limit or is to stay."""


class RateLimit(Struct, frozen=True):
    """A limit of the calls that a node takes."""

    per_second: float
    why: str
    """The limit in words that follow "takes at most 50 calls a second": "its quota"."""
    kept: bool = False
    """Does the proxy itself keep to it? Calls beyond it then go to other nodes and cost nothing."""


class NodeFacts(Struct, frozen=True, kw_only=True):
    """What is known of a node, over one and the same while for all nodes of a network."""

    id: str
    weight: int
    tier: int = 0
    held: bool = False
    """Is it left alone? It is drained, suspected, of weight 0, or of another chain."""
    methods: Mapping[str, Histogram] = {}
    """Latency of good answers by method."""
    calls: int = 0
    """Attempts sent to it."""
    faults: int = 0
    """Attempts among them that failed by its own fault."""
    busiest: float = 0.0
    """Calls a second in its busiest minutes."""
    limits: tuple[RateLimit, ...] = ()
    at_once: float = 0.0
    """Calls in flight that it may have; 0 when not known."""


class Advice(Struct, frozen=True):
    """The suggested weight of a node, and the reason in a sentence."""

    value: int
    why: str


class Suggestion(Struct, frozen=True, kw_only=True):
    """Suggested weights of a network."""

    weights: Mapping[str, Advice] = {}
    """By node; empty when no weights would be better than those in force."""
    now: Forecast = Forecast()
    """What calls took."""
    then: Forecast = Forecast()
    """What they would have taken with the suggested weights."""
    gain: float = 0.0
    """Share of the mean latency that is saved, errors counted in, 0 to 1."""
    why: str = ""
    """A sentence: why these weights, or why none."""


class _Standing(Struct):
    """A node among the others of its tier."""

    facts: NodeFacts
    seconds: float = 0.0
    """Expected latency of the tier's mix of calls; 0 when not known well enough."""
    error: float = 0.0
    """The standard error of that."""
    fails: bool = False
    """Is it judged by its failed calls, since its answers are too few to say how quick it is?"""
    pace: float = 1.0
    """The ratio of its latency to that of the tier as a whole."""
    cost: float = 0.0
    """Expected latency with what its errors cost."""
    ceiling: float = inf
    """The share of the tier's calls that it can take by the limits that are known."""
    capacity: float = inf
    """The share of the tier's calls that it is trusted to take: no more than `ceiling`."""
    limit: RateLimit | None = None
    """The limit that the capacity follows from."""
    share: float = 0.0

    def know(self, seconds: float, error: float, others: float) -> None:
        """Take its latency as known. `others`: the seconds of another node's answer, which a failed call takes too."""
        failing = min(0.9, self.facts.faults / self.facts.calls) if self.facts.calls else 0.0
        self.seconds, self.error = seconds, error
        self.cost = seconds + failing / (1.0 - failing) * (seconds + others)


class _Tier(Struct):
    """A tier, weighed."""

    standings: list[_Standing]
    now: Histogram
    then: Histogram
    before: float = 0.0
    after: float = 0.0
    """The mean cost of a call before and after, in seconds."""
    calls: int = 0
    by_weight: bool = True
    """Do shares follow the weights?"""
    had: dict[str, float] = {}
    """The shares that nodes had, which need not sum up to 1; empty when the tier cannot be weighed."""
    over: str = ""
    """The id of a node that has more than it can take."""
    weights: dict[str, int] = {}
    """The weights it deserves; empty when that cannot be said."""

    @property
    def same(self) -> bool:
        """Are the weights in force as good as those, since they stand in the same ratios?"""
        present = shares_of({one.facts.id: float(one.facts.weight) for one in self.standings if self.weights})
        wanted = shares_of({id: float(weight) for id, weight in self.weights.items()})
        return all(abs(wanted[id] - share) < 1e-9 for id, share in present.items())


def suggest(nodes: Sequence[NodeFacts], rate: float, *, by_weight: bool = True) -> Suggestion:
    """The weights that the nodes of one network deserve.

    Args:
        rate: calls a second that reach nodes, as a call usually meets it.
        by_weight: do shares follow the weights? Where the balancer aims at something else, the shares that nodes had
            are taken for those that they would have.
    """
    whole = sum(node.calls for node in nodes)
    tiers = []
    for number in sorted({node.tier for node in nodes}):
        members = [node for node in nodes if node.tier == number and node.weight and not node.held]
        calls = sum(node.calls for node in nodes if node.tier == number)
        tiers.append(_weigh(members, rate * calls / whole if whole else 0.0, by_weight=by_weight))
    weights = _give_weights(nodes, tiers)
    now, then = together(tier.now for tier in tiers), together(tier.then for tier in tiers)
    before, after = _mean(tiers, "before"), _mean(tiers, "after")
    gain = 1.0 - after / before if before else 0.0
    over = next((tier.over for tier in tiers if tier.over), "")
    if all(tier.same for tier in tiers) or (gain < WORTH and not over):
        return Suggestion(now=forecast_of(now), then=forecast_of(now), why=_why_none(tiers, gain))
    reasons = {one.facts.id: _reason(one, tier) for tier in tiers for one in tier.standings}
    advised = {
        node.id: Advice(weights[node.id], reasons.get(node.id, "left alone: it keeps its weight beside the others"))
        for node in nodes
        if any(node.id in tier.weights for tier in tiers) or weights.get(node.id, node.weight) != node.weight
    }
    why = f"the mean would have been {told(_seconds(then))} in place of {told(_seconds(now))}"
    if over:
        why = f"{over} gets more calls than it can take; {why}"
    present = {node.id: node.weight for node in nodes if not node.held}
    leader = _leader({id: weights.get(id, weight) for id, weight in present.items()})
    if leader and leader != _leader(present):
        why = f"{why}; {leader} alone would have most of the weight, so the served head would wait for its blocks"
    return Suggestion(weights=advised, now=forecast_of(now), then=forecast_of(then), gain=max(0.0, gain), why=why)


def _weigh(members: Sequence[NodeFacts], rate: float, *, by_weight: bool) -> _Tier:
    """The shares and weights that the nodes of a tier deserve."""
    latencies = {node.id: node.methods for node in members}
    pooled = pool(latencies.values())
    now = together(pooled.values())
    often, paces = {method: histogram.count for method, histogram in pooled.items()}, paces_of(latencies)
    standings = [_standing(node, paces, often, now.mean or 0.0, rate) for node in members]
    calls = sum(node.calls for node in members)
    tier = _Tier(standings, now, now, calls=calls, by_weight=by_weight)
    _judge_by_failures(standings)
    if len([one for one in standings if one.seconds]) < 2:
        return tier
    present = {node.id: float(node.weight) for node in members}
    tier.had = present if by_weight else {node.id: node.calls / calls for node in members}
    tier.over = _overloaded(standings, tier.had)
    _fill(standings, shares_of(present))
    return tier


def _give_weights(nodes: Sequence[NodeFacts], tiers: Sequence[_Tier]) -> dict[str, int]:
    """Weights in which the nodes of each tier stand by their shares, and all others as they did; of all nodes that
    have one. What would come of them is noted in the tiers."""
    targets = {node.id: float(node.weight) for node in nodes if node.weight}
    weighed = [tier for tier in tiers if tier.had]
    for tier in weighed:
        whole = sum(one.facts.weight for one in tier.standings)
        exact = shares_of({one.facts.id: one.share for one in tier.standings})
        targets |= {id: whole * share for id, share in exact.items()}
    if not weighed:
        return {}
    weights = whole_weights(targets, lambda made: all(_fine(tier, made) for tier in weighed))
    for tier in weighed:
        tier.weights = {one.facts.id: weights[one.facts.id] for one in tier.standings}
        cost = {one.facts.id: one.cost for one in tier.standings}
        ceiling = {one.facts.id: one.ceiling for one in tier.standings}
        before = limited(tier.had, ceiling) if tier.by_weight else tier.had
        after = limited({id: float(weight) for id, weight in tier.weights.items()}, ceiling)
        tier.before, tier.after = _cost(before, cost), _cost(after, cost)
        latencies = {one.facts.id: one.facts.methods for one in tier.standings}
        tier.then = replay(latencies, after, {one.facts.id: one.pace for one in tier.standings})
    return weights


def _fine(tier: _Tier, weights: Mapping[str, int]) -> bool:
    """Do these weights cost hardly more than the exact shares, overload no node, and leave the unknown nodes theirs?"""
    made = shares_of({one.facts.id: float(weights[one.facts.id]) for one in tier.standings})
    for one in tier.standings:
        share = made[one.facts.id]
        if one.seconds and share > max(one.capacity, one.share, EXPLORE / 2) * (1.0 + APART):
            return False
        if not one.seconds and abs(share - one.share) > APART * one.share:
            return False
    cost = {one.facts.id: one.cost for one in tier.standings}
    exact = _cost({one.facts.id: one.share for one in tier.standings}, cost)
    return _cost(limited(made, {one.facts.id: one.capacity for one in tier.standings}), cost) <= exact * ROUNDED


def _standing(node: NodeFacts, paces: Paces, often: Mapping[str, int], mean: float, rate: float) -> _Standing:
    """A node among the others. `often`: the tier's calls by method; `mean`: their mean seconds; `rate`: a second."""
    one = _Standing(node, cost=mean)
    if node.id in paces.nodes:
        one.pace = paces.nodes[node.id]
        seconds, error = _expected(node.methods, one.pace, paces.methods, often)
        if paces.compared[node.id] >= LEAST_CALLS and error <= VAGUE * seconds:
            one.know(seconds, error, mean)
    if not one.seconds and node.calls >= LEAST_CALLS and node.faults >= FAILING * node.calls:
        one.fails = True
        one.know(mean, 0.0, mean)
    limits = list(node.limits)
    if node.at_once and one.seconds:
        limits.append(RateLimit(node.at_once * ROOM_IN_FLIGHT / one.seconds, f"{node.at_once:.0f} calls at once"))
    one.ceiling = min((limit.per_second for limit in limits), default=inf) / rate if rate > 0 else inf
    limits.append(RateLimit(max(GROWTH * node.busiest, ALWAYS), "three times what it was seen to take"))
    one.limit = min(limits, key=lambda limit: limit.per_second)
    one.capacity = one.limit.per_second / rate if rate > 0 else inf
    if one.limit.kept:
        one.capacity *= OVERFILL
    return one


def _judge_by_failures(standings: Sequence[_Standing]) -> None:
    """Where but one node answers and all others fail, that one needs no comparison."""
    answering = [one for one in standings if not one.fails]
    if len(answering) == 1 < len(standings) and not answering[0].seconds:
        (one,) = answering
        own = mean_of(together(one.facts.methods.values()))
        if own is not None and own.count >= LEAST_CALLS:
            one.know(own.seconds, sqrt(own.variance), own.seconds)


def _expected(
    mine: Mapping[str, Histogram], pace: float, methods: Mapping[str, float], often: Mapping[str, int]
) -> tuple[float, float]:
    """The mean seconds of a node for the tier's mix of calls, and their standard error. Methods that it hardly answered
    are taken to go at its pace."""
    calls = took = variance = measured = 0.0
    for method, base in methods.items():
        count, own = often.get(method, 0), mean_of(mine.get(method, _NOTHING))
        calls += count
        if own is not None and own.count >= FEWEST:
            measured += count * own.seconds
            variance += count * count * own.variance
            took += count * own.seconds
        else:
            took += count * pace * base
    if not measured:
        return 0.0, inf
    return took / calls, took / calls * sqrt(variance) / measured


_NOTHING = Histogram()


def _overloaded(standings: Sequence[_Standing], wanted: Mapping[str, float]) -> str:
    """The first node whose share is clearly more than it can take."""
    shares = shares_of(wanted) if any(wanted.values()) else wanted
    for one in standings:
        if shares[one.facts.id] > one.ceiling * OVERLOAD:
            return one.facts.id
    return ""


def _fill(standings: Sequence[_Standing], present: Mapping[str, float]) -> None:
    """Give each node its share: the unknown ones theirs of now, the others from the quickest on as much as they can
    take, and the slow ones enough to be seen."""
    known = sorted((one for one in standings if one.seconds), key=lambda one: one.cost)
    for one in standings:
        one.share = 0.0 if one.seconds else min(present[one.facts.id], one.ceiling)
    left = 1.0 - sum(one.share for one in standings)
    rest = list(known)
    while rest and left > 1e-9:
        alike = [one for one in rest if _as_quick(one, rest[0])]
        rest = [one for one in rest if one not in alike]
        weight = sum(present[one.facts.id] for one in alike)
        for one in alike:
            one.share = present[one.facts.id] / weight if weight else 1.0 / len(alike)
        room = {one.facts.id: one.capacity / left for one in alike}
        shared = limited({one.facts.id: one.share for one in alike}, room)
        for one in alike:
            one.share = min(shared[one.facts.id], room[one.facts.id]) * left
        left -= sum(one.share for one in alike)
    if left > 1e-9:  # all are full
        can = {one.facts.id: one.capacity for one in known}
        for id, share in shares_of(can if any(can.values()) else {id: present[id] for id in can}).items():
            next(one for one in known if one.facts.id == id).share += left * share
    _explore(known)


def _as_quick(one: _Standing, best: _Standing) -> bool:
    if one is best or one.cost <= best.cost * ALIKE:
        return True
    return one.cost - best.cost <= SURE * sqrt(one.error**2 + best.error**2)


def _explore(known: Sequence[_Standing]) -> None:
    """Let slow nodes keep so many calls that their latency stays known, at the expense of the others."""
    whole = sum(one.share for one in known)
    mean = sum(one.share * one.cost for one in known) / whole
    slow = [one for one in known if one.cost > mean * (1.0 + 1e-9) and one.share < EXPLORE * whole]
    added = 0.0
    for one in slow:
        least = whole * min(EXPLORE, EXPLORE_COST / len(slow) * mean / (one.cost - mean))
        if one.share < least:
            added += least - one.share
            one.share = least
    others = [one for one in known if one not in slow]
    had = sum(one.share for one in others)
    for one in others:
        one.share *= 1.0 - added / had


def _cost(shares: Mapping[str, float], cost: Mapping[str, float]) -> float:
    return sum(share * cost[id] for id, share in shares.items())


def _leader(weights: Mapping[str, int]) -> str:
    """The node with more than half of the weight, without which the served head does not go on; empty for none."""
    return next((id for id, weight in weights.items() if 2 * weight > sum(weights.values())), "")


def _mean(tiers: Sequence[_Tier], name: str) -> float:
    """The mean of `before` or `after` over the calls of all tiers that were weighed."""
    weighed = [tier for tier in tiers if tier.weights]
    calls = sum(tier.calls for tier in weighed)
    return sum(getattr(tier, name) * tier.calls for tier in weighed) / calls if calls else 0.0


def _seconds(histogram: Histogram) -> float:
    return histogram.mean or 0.0


# -- words -----------------------------------------------------------------------------------------------------------


def told(seconds: float) -> str:
    """A duration for people: "20 ms", "1.5 s"."""
    return f"{seconds:.3g} s" if seconds >= 1.0 else f"{seconds * 1000:.3g} ms"


def _reason(one: _Standing, tier: _Tier) -> str:
    node, all_of_tier = one.facts, tier.standings
    if not one.seconds and one.share >= one.ceiling and one.limit is not None:
        return f"{_unknown(one)}; takes at most {one.limit.per_second:.3g} calls a second ({one.limit.why})"
    if not one.seconds:
        return f"{_unknown(one)}: it keeps its share"
    words = [] if one.fails else [_against(one, all_of_tier)]
    if node.calls and node.faults / node.calls >= 0.01:
        words.append(f"{node.faults / node.calls:.0%} of its calls fail")
    if one.limit is not None and one.share >= one.capacity * 0.99:
        words.append(f"takes at most {one.limit.per_second:.3g} calls a second ({one.limit.why})")
    elif one.share <= EXPLORE * 1.001 and one.cost > min(other.cost for other in all_of_tier if other.seconds):
        words.append("keeps a small share so that its latency stays known")
    return "; ".join(words)


def _unknown(one: _Standing) -> str:
    """Why nothing is said of a node."""
    count = sum(histogram.count for histogram in one.facts.methods.values())
    if count < LEAST_CALLS:
        return f"too few calls to say how quick it is ({count})"
    return f"its {count} calls tell too little: few of the same methods as other nodes', or very uneven"


def _against(one: _Standing, all_of_tier: Sequence[_Standing]) -> str:
    """The node against the quickest other one, over the methods that both were asked."""
    others = sorted((other for other in all_of_tier if other.seconds and other is not one), key=lambda it: it.seconds)
    often = {name: own.count for name, own in one.facts.methods.items()}
    for other in others:
        found = compare(one.facts.methods, other.facts.methods, often)
        if found is not None:
            methods = "the same method" if found.methods == 1 else f"the same {found.methods} methods"
            return f"{told(found.mean)} against {told(found.others)} of {other.facts.id} for {methods}"
    return f"{told(one.seconds)} for the calls of this network"


def _why_none(tiers: Sequence[_Tier], gain: float) -> str:
    standings = [one for tier in tiers for one in tier.standings]
    weighed = [one for tier in tiers if tier.weights for one in tier.standings]
    if weighed and not any(one.ceiling for one in weighed):
        return "all quotas are used up"
    if weighed:
        if gain >= WORTH:
            return "the weights are those that would be suggested, as finely as weights up to 1000 can tell"
        return "other weights would save less than 3 % of the mean latency"
    if len(standings) < 2:
        return "there are no two nodes to divide calls between"
    unknown = [one.facts.id for one in standings if not one.seconds]
    return f"too few calls that can be compared: {', '.join(unknown[:5])}{', …' if len(unknown) > 5 else ''}"
