"""Decides which nodes may be asked for a call, and says in a sentence why the others may not.

Rule of truth 4: a node whose own head is below the block in question would answer wrongly without an error. One
function judges a node (`judge`); selection, sentences and the last resort follow from it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.core.heads.examination import STATE_KEPT
from rpcaccel.core.nodes.breaker import CLOSED
from rpcaccel.core.nodes.node import ROLE_OF_NEED, Node
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import ID_OR_TAG, Bulkhead, CacheClass


class Ineligibility(IntEnum):
    """Why a node is not eligible, in the order of judging.

    The reasons from SAID_TO_LACK on are beliefs, which are ignored when they would leave no node.
    """

    NONE = 0
    WRONG_CHAIN = 1
    WEIGHTLESS = 2
    CORDONED = 3
    DRAINED = 4
    BARRED = 5
    OFF_ROUTE = 6
    BEHIND = 7
    PARKED = 8
    METHOD_PARKED = 9
    SPENT = 10
    SAID_TO_LACK = 11
    LACKS = 12
    PRUNED = 13
    BEYOND_WINDOW = 14
    FOUND_TO_LACK = 15
    TOO_LONG = 16
    DISTRUSTED = 17
    CONTRADICTED = 18
    BREAKER_OPEN = 19
    EJECTED = 20
    EXAMINING = 21


ELIGIBLE = Ineligibility.NONE  # looked up once (core.plan.planner)
CALLS_OF = {
    Bulkhead.LIGHT: "calls",
    Bulkhead.HEAVY: "heavy calls",
    Bulkhead.UNKNOWN: "calls of unknown methods",
    Bulkhead.EXECUTION: "calls of contracts",
}
_NAMED = 3
"""Methods that a sentence about several methods names."""
_BELIEF = Ineligibility.SAID_TO_LACK
_DOUBTED = (Ineligibility.DISTRUSTED, Ineligibility.CONTRADICTED)
_TRACING = ("auth", "debug")
"""Roles by which the operator says that a node traces."""


class Eligibility(Struct):
    """The nodes that may be asked."""

    nodes: list[Node]
    forced: bool = False
    """No node is eligible: `nodes` are the least bad ones, the best first."""
    full: bool = False
    """Some nodes are eligible, but all of them have as many calls in flight as they may have."""


class NodesExplained(Eligibility, kw_only=True):
    """The nodes that may be asked, and a sentence for every other node."""

    refused: list[tuple[Node, str]]
    """The nodes that are not eligible."""
    standing_by: list[tuple[Node, str]]
    """The eligible nodes that are not needed now."""


def eligible(nodes: Sequence[Node], plan: Plan, now: float, avoid: Collection[str] = ()) -> Eligibility:
    """The nodes that may be asked at `now` (monotonic seconds): those of the lowest tier that are eligible and have
    room.

    When only beliefs stand against all nodes, the least bad ones: a slow node comes before one that is not examined
    yet, that before one that others contradict, that before one with an open breaker, and that before one that lacks a
    capability, which would answer in vain.

    Args:
        avoid: ids of the nodes tried before. A call that has been tried is accepted even by nodes without room.
    """
    fit, sure = [], False
    for node in nodes:
        if judge(node, plan, now) is ELIGIBLE:
            fit.append(node)
            sure = sure or node.chain_ok is True
    if not fit:
        least_bad = [node for node in _least_bad(nodes, plan, now) if node.id not in avoid]
        return Eligibility(least_bad, forced=bool(least_bad))
    bulkhead = plan.rule.bulkhead
    roomy: list[Node] = []
    for node in fit:  # a node whose chain is not known yet may serve another chain, so it comes after the others
        if (node.chain_ok or not sure) and node.id not in avoid and node.has_room(now, bulkhead):
            if roomy and node.tier < roomy[0].tier:
                roomy.clear()
            if not roomy or node.tier == roomy[0].tier:
                roomy.append(node)
    if roomy:
        return Eligibility(_preferred(roomy, plan) if len(roomy) > 1 else roomy)
    if not avoid:
        return Eligibility([], full=True)
    # A tried call needs no room, but must not take the last connection.
    left = [node for node in fit if (node.chain_ok or not sure) and node.id not in avoid]
    if bulkhead is not Bulkhead.LIGHT:
        left = [node for node in left if node.leaves_a_connection()]
    lowest = min((node.tier for node in left), default=0)
    return Eligibility(_preferred([node for node in left if node.tier == lowest], plan))


def _preferred(nodes: list[Node], plan: Plan) -> list[Node]:
    """The nodes with the role that the call prefers; all nodes when none has that role."""
    role = _preference(plan)
    return ([node for node in nodes if node.has(role)] or nodes) if role else nodes


def _preference(plan: Plan) -> str:
    """The role that the call prefers; empty when it prefers none."""
    rule = plan.rule
    if not rule.prefers and rule.old_state and plan.block is not None:
        return "archive" if plan.block < plan.head - STATE_KEPT else ""
    return rule.prefers


def explain(nodes: Sequence[Node], plan: Plan, now: float) -> NodesExplained:
    """The result of `eligible`, with a sentence for every node that is not asked."""
    found = eligible(nodes, plan, now)
    verdicts = [(node, judge(node, plan, now)) for node in nodes]
    refused = [(node, sentence(node, why, plan, now)) for node, why in verdicts if why is not ELIGIBLE]
    fit = [node for node, why in verdicts if why is ELIGIBLE]
    sure = any(node.chain_ok for node in fit)
    standing_by = [
        (node, _why_standing_by(node, found.nodes, plan, now, sure=sure)) for node in fit if node not in found.nodes
    ]
    return NodesExplained(
        nodes=found.nodes, forced=found.forced, full=found.full, refused=refused, standing_by=standing_by
    )


def _why_standing_by(node: Node, asked: Sequence[Node], plan: Plan, now: float, *, sure: bool) -> str:
    if sure and node.chain_ok is None:
        return f"node {node.id} has not said which chain it serves: it is asked when no node that has can be"
    if not node.has_room(now, plan.rule.bulkhead):
        return f"node {node.id} {why_full([node], plan, now)}"
    if asked and node.tier == asked[0].tier:
        return f"node {node.id} is asked when no node that is known to be {_preference(plan)} can be"
    return f"node {node.id} stands by in tier {node.tier}: it is asked when no node of a lower tier can be"


def why_full(nodes: Iterable[Node], plan: Plan, now: float) -> str:
    """Why none of these nodes has room for the call, in words that follow "every node"."""
    spent = {node.quota is not None and not node.quota.has_room(now) for node in nodes}
    words = {
        False: f"has as many {CALLS_OF[plan.rule.bulkhead]} as it may have at once",
        True: "has used up its quota of this second",
    }
    return " or ".join(words[one] for one in sorted(spent))


def judge(node: Node, plan: Plan, now: float) -> Ineligibility:
    """The first reason against asking the node; ELIGIBLE when it is eligible."""
    if node.chain_ok is False:
        return Ineligibility.WRONG_CHAIN
    if node.weight <= 0 or node.cordoned or node.drained or node.barred:
        return _kept_out(node)
    if plan.tag and not is_named(node, plan.tag):
        return Ineligibility.OFF_ROUTE
    if node.head < plan.min_head:
        return Ineligibility.BEHIND
    rule = plan.rule
    if node.parking.troubled and (why := _parked(node, plan, now)):
        return why
    if node.quota is not None and node.quota.parked_until(now) is not None:
        return Ineligibility.SPENT
    if rule.roles and (why := _missing(node, plan, now)):
        return why
    if (node.pruned_below or node.windows or node.range_limits) and (why := _beyond_bounds(node, plan, now)):
        return why
    if (node.lacks or node.lacks_unknown.until) and node.said_to_lack(plan, now):
        return Ineligibility.LACKS
    if node.examined.examination is not None and (why := _beyond_examined(node, plan)):
        return why
    if (node.distrusted or node.contradictions.methods) and (why := _doubted(node, plan, now)):
        return why
    breaker = node.breaker
    if breaker.state is not CLOSED and not breaker.allows(now, light=rule.bulkhead is Bulkhead.LIGHT):
        return Ineligibility.BREAKER_OPEN
    held_back = Ineligibility.EXAMINING if node.examined.examining else ELIGIBLE
    return Ineligibility.EJECTED if now < node.ejected_until else held_back


def may_come(nodes: Sequence[Node], plan: Plan, now: float) -> bool:
    """When no node is eligible: may one become eligible soon, so that waiting makes sense?

    That is a node that answers probes and whose head is behind, or a node of which nothing is known yet.
    """
    return any(_may_come(node, plan, now) for node in nodes)


def others_may_be_asked(nodes: Sequence[Node], plan: Plan, now: float, told: Collection[str]) -> bool:
    """Is a node eligible whose id is not in `told`?"""
    return any(node.id not in told and judge(node, plan, now) is ELIGIBLE for node in nodes)


def best_left(nodes: Sequence[Node], plan: Plan, now: float) -> int:
    """The highest head of the nodes that answer probes and are ineligible only because of their head; -1 without
    any."""
    anywhere = replace(plan, min_head=-1)
    behind = [node for node in nodes if node.answering and judge(node, plan, now) is Ineligibility.BEHIND]
    return max((node.head for node in behind if judge(node, anywhere, now) is ELIGIBLE), default=-1)


def _may_come(node: Node, plan: Plan, now: float) -> bool:
    if node.answering is None:  # its chain is not known either and may be taken for a wrong one
        kept_out = node.weight <= 0 or node.cordoned or node.drained
        return not kept_out and (not plan.tag or is_named(node, plan.tag))
    return node.answering and judge(node, plan, now) is Ineligibility.BEHIND


def _kept_out(node: Node) -> Ineligibility:
    """The reason against the node that only the operator can change; ELIGIBLE without one."""
    if node.weight <= 0:
        return Ineligibility.WEIGHTLESS
    if node.cordoned:
        return Ineligibility.CORDONED
    return Ineligibility.DRAINED if node.drained else Ineligibility.BARRED


def _in_words(tag: str) -> str:
    """What the tag of a plan asks for."""
    if not tag.startswith(ID_OR_TAG):
        return f"tag {tag}"
    _, name, also = tag.split(ID_OR_TAG)
    return f"name or tag {name}, and the tag {also}" if also else f"name or tag {name}"


def is_named(node: Node, tag: str) -> bool:
    """Has the node what the tag of a plan asks for?"""
    if not tag.startswith(ID_OR_TAG):
        return tag in node.tags
    _, name, also = tag.split(ID_OR_TAG)
    return (name == node.id or name in node.tags) and (not also or also in node.tags)


def _parked(node: Node, plan: Plan, now: float) -> Ineligibility:
    if now < node.parking.until:
        return Ineligibility.PARKED
    return Ineligibility.METHOD_PARKED if now < node.parking.of(plan.rule.method, plan.content) else ELIGIBLE


def _missing(node: Node, plan: Plan, now: float) -> Ineligibility:
    for need in plan.rule.roles:
        role = ROLE_OF_NEED.get(need)
        has = None if role is None else node.has(role)
        if has is False:
            return Ineligibility.SAID_TO_LACK
        if has is None and now < node.lacks.get(need, now):
            return Ineligibility.LACKS
    return ELIGIBLE


def _beyond_bounds(node: Node, plan: Plan, now: float) -> Ineligibility:
    """The reason against the node because of what it was found not to have or not to take in other calls."""
    if node.pruned_below and plan.rule.old_state and _pruned(node, plan, now):
        return Ineligibility.PRUNED
    if node.windows and _beyond_window(node, plan, now):
        return Ineligibility.BEYOND_WINDOW
    too_long = plan.range is not None and plan.range.length > (node.longest_range(plan, now) or inf)
    return Ineligibility.TOO_LONG if too_long else ELIGIBLE


def _doubted(node: Node, plan: Plan, now: float) -> Ineligibility:
    """The reason against the node because of what other nodes answer."""
    if plan.rule.method in node.distrusted:
        return Ineligibility.DISTRUSTED
    return Ineligibility.CONTRADICTED if now < _contradicted_until(node, plan) else ELIGIBLE


def _contradicted_until(node: Node, plan: Plan) -> float:
    return node.contradictions.until(plan.rule.method, node.parking.answered_at)


def _pruned(node: Node, plan: Plan, now: float) -> bool:
    oldest = plan.oldest
    if oldest is None or "archive" in node.roles:
        return False
    return oldest < node.pruned_below and now < node.pruned_until


def _beyond_window(node: Node, plan: Plan, now: float) -> bool:
    """Is the call about a block that the node does not answer about? That is what a call is taken for whose block is
    named by a hash: other nodes know more of those."""
    below, until = node.windows.get(plan.method, (0, now))
    if now >= until:
        return False
    return plan.cache is CacheClass.FOREVER if plan.oldest is None else plan.oldest < below


def _beyond_examined(node: Node, plan: Plan) -> Ineligibility:
    """The reason against the node that shadow calls showed; ELIGIBLE without one."""
    examined = node.examined
    if plan.rule.method in examined.untraced and node.roles.isdisjoint(_TRACING):
        return Ineligibility.FOUND_TO_LACK
    oldest = plan.oldest
    if oldest is None:
        return ELIGIBLE
    if oldest < examined.state_from and plan.rule.old_state and "archive" not in node.roles:
        return Ineligibility.PRUNED
    if examined.too_old(oldest, plan):
        return Ineligibility.BEYOND_WINDOW
    return Ineligibility.TOO_LONG if examined.too_long(oldest, plan) else ELIGIBLE


def _least_bad(nodes: Sequence[Node], plan: Plan, now: float) -> list[Node]:
    judged = [(node, judge(node, plan, now)) for node in nodes]
    believed = [(node, why) for node, why in judged if why >= _BELIEF]
    if any(_has_what_it_needs(node, plan) for node, why in judged if why is not Ineligibility.WRONG_CHAIN):
        # A node that lacks the role may answer null where another node, which is away, would have an answer.
        believed = [(node, why) for node, why in believed if why is not Ineligibility.SAID_TO_LACK]
    slow = [node for node, why in believed if why is Ineligibility.EJECTED]
    if slow:
        return sorted(slow, key=lambda node: (node.in_flight, node.ejected_until))
    examining = [node for node, why in believed if why is Ineligibility.EXAMINING]
    if examining:
        return sorted(examining, key=lambda node: node.in_flight)
    doubted = [node for node, why in believed if why in _DOUBTED]
    resting = [node for node, why in believed if why is Ineligibility.BREAKER_OPEN]
    if doubted or resting:
        resting.sort(key=lambda node: (node.breaker.rest_until, node.in_flight))
        doubted.sort(key=lambda node: (not node.breaker.allows(now), node.in_flight))
        return [*doubted, *resting]
    unable = sorted(
        believed,
        key=lambda pair: (-pair[1], not pair[0].breaker.allows(now), pair[0].in_flight),
    )
    return [node for node, _ in unable[:1]]  # one of them is enough, since none has the capability


def _has_what_it_needs(node: Node, plan: Plan) -> bool:
    """Does the call need a role, and is the node known to have every role that it needs?"""
    roles = [ROLE_OF_NEED[need] for need in plan.rule.needs if need in ROLE_OF_NEED]
    return bool(roles) and all(node.has(role) for role in roles)


def sentence(node: Node, why: Ineligibility, plan: Plan, now: float) -> str:
    """A sentence saying why the node is not eligible, and what would change that."""
    if why is Ineligibility.BEHIND and node.head < 0:
        return f"node {node.id} has not told its head yet: it gets no calls about numbered blocks until it does"
    lag = plan.min_head - node.head
    return _SENTENCES[why].format(
        id=node.id,
        method=plan.method,
        needs=" and ".join(plan.rule.needs),
        lag=f"{lag} block" if lag == 1 else f"{lag} blocks",
        pruned=max(node.pruned_below if now < node.pruned_until else 0, node.examined.state_from),
        window=_window(node, plan, now),
        longest=node.longest_range(plan, now),
        rest=_seconds(node.parking.until - now),
        method_rest=_seconds(node.parking.of(plan.rule.method, plan.content) - now),
        breaker_rest=_breaker_rest(node, now),
        tag=_in_words(plan.tag),
        barred=node.barred,
        quota_rest=_seconds((node.quota.parked_until(now) or now) - now if node.quota else 0.0),
        ejected_rest=_seconds(node.ejected_until - now),
        contradicted_rest=_seconds(_contradicted_until(node, plan) - now),
    )


_SENTENCES: dict[Ineligibility, str] = {
    Ineligibility.NONE: "node {id} may be asked",
    Ineligibility.WRONG_CHAIN: "node {id} serves another chain or shard, or has not said which: "
    "it gets no calls until its chain id is right",
    Ineligibility.WEIGHTLESS: "node {id} has weight 0: it is probed and gets no calls",
    Ineligibility.CORDONED: "node {id} is cordoned: it is probed and gets no calls",
    Ineligibility.DRAINED: "node {id} is being drained: it finishes what it has and gets no new calls",
    Ineligibility.BARRED: "node {id} answers no probe, look at its URL and its key: {barred}",
    Ineligibility.OFF_ROUTE: "node {id} has not the {tag}: {method} is routed to nodes that have",
    Ineligibility.SPENT: "node {id} has used up its quota: it gets no calls for {quota_rest}, until that renews",
    Ineligibility.EJECTED: "node {id} is much slower than the others, or hangs: no calls for {ejected_rest}",
    Ineligibility.BEHIND: "node {id} is {lag} behind: it gets no calls about newer blocks",
    Ineligibility.PARKED: "node {id} limits our rate: it gets no calls for {rest}",
    Ineligibility.METHOD_PARKED: "node {id} limits the rate of {method}: it gets none for {method_rest}",
    Ineligibility.SAID_TO_LACK: "node {id} is said to be, or says it is, other than {method} needs ({needs})",
    Ineligibility.LACKS: "node {id} said it cannot answer {method}: it is asked again some minutes later",
    Ineligibility.PRUNED: "node {id} has dropped the state of blocks below {pruned}: it gets no calls about them",
    Ineligibility.BEYOND_WINDOW: "node {id} answers {method} for newer blocks only, none below {window}",
    Ineligibility.FOUND_TO_LACK: "node {id} had not {method} when examined: it gets none until it is examined again",
    Ineligibility.TOO_LONG: "node {id} answers {method} for at most {longest} blocks at once: it gets no longer ranges",
    Ineligibility.DISTRUSTED: "node {id} gave wrong answers to {method}: it is asked when no other node can be",
    Ineligibility.CONTRADICTED: "node {id} fails {method} where others answer it: a trial in {contradicted_rest}",
    Ineligibility.EXAMINING: "node {id} is being examined by calls in the shadow: it gets calls once that has ended",
    Ineligibility.BREAKER_OPEN: "node {id} failed too often: it gets no calls {breaker_rest}",
}


def _window(node: Node, plan: Plan, now: float) -> int:
    """The lowest block that the node answers about with this method, as far as that is known."""
    learnt, until = node.windows.get(plan.method, (0, now))
    return max(learnt if now < until else 0, node.examined.logs_from if plan.rule.split == "logs" else 0)


def rests(node: Node, now: float) -> str:
    """A sentence naming the methods whose rate the node limits, or which it fails where others answer; empty when there
    are none."""
    resting, failing = node.parking.resting(now), node.contradictions.learnt(now)
    if failing:
        return f"it fails {_names(failing)} where other nodes answer: it gets single trials until it answers"
    if not resting:
        return ""
    said = _names(resting)
    return f"it limits the rate of {said}: it gets none of them for {_seconds(max(resting.values()) - now)} at the most"


def _names(methods: Iterable[str]) -> str:
    named = sorted(method or "methods without a rule" for method in methods)
    return ", ".join(named[:_NAMED]) + (f" and {len(named) - _NAMED} more" if len(named) > _NAMED else "")


def _breaker_rest(node: Node, now: float) -> str:
    if node.breaker.held:
        return "until a probe is answered"
    return f"for {_seconds(node.breaker.rest_until - now)}, then a trial"


def _seconds(left: float) -> str:
    return f"{max(left, 0.0):.1f} s"
