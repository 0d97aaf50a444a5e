from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rpcaccel.core.nodes.eligibility import Ineligibility, best_left, eligible, explain, judge, may_come, rests
from rpcaccel.core.nodes.limits import Quota, QuotaLimits
from rpcaccel.core.nodes.node import LACKS_FOR, Node
from rpcaccel.core.nodes.parking import Parking
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import UNKNOWN_RULE, Bulkhead, CacheClass, Rule
from rpcaccel.core.replies.failure import FailureKind
from tests.support.plans import plan_of as plan


def with_state(**state: object) -> Node:
    node = Node("b")
    for name, value in state.items():
        setattr(node, name, value)
    return node


def parked(*methods: str, until: float = 3.0) -> Parking:
    """What a node refuses; all there is, when it is several."""
    parking = Parking()
    for method in methods:
        parking.refused(method, 0.0, until)
    return parking


def trip(node: Node, now: float = 0.0) -> Node:
    for _ in range(node.breaker.settings.failures):
        node.finish(node.begin(now), "failure", now)
    return node


OLD = plan(block=5, needs=("archive-for-old-state",))


@pytest.mark.parametrize(
    ("node", "call", "words"),
    [
        (with_state(chain_ok=False), plan(), "node b serves another chain or shard"),
        (with_state(weight=0), plan(), "node b has weight 0"),
        (with_state(cordoned=True), plan(), "node b is cordoned"),
        (with_state(drained=True), plan(), "node b is being drained"),
        (with_state(head=86), plan(min_head=100), "node b is 14 blocks behind: it gets no calls about newer blocks"),
        (with_state(head=99), plan(min_head=100), "node b is 1 block behind"),
        (with_state(), plan(min_head=100), "node b has not told its head yet"),
        (with_state(parking=parked("a", "b", "c")), plan(), "node b limits our rate: it gets no calls for 2.0 s"),
        (with_state(parking=parked("m")), plan(), "node b limits the rate of m: it gets none for 2.0 s"),
        (
            with_state(roles=frozenset({"archive"})),
            plan(needs=("explorer",)),
            "node b is said to be, or says it is, other",
        ),
        (with_state(lacks={"m": 9.0}), plan(), "node b said it cannot answer m"),
        (with_state(lacks={"beacon-shard": 9.0}), plan(needs=("beacon-shard",)), "node b said it cannot answer m"),
        (with_state(pruned_below=6, pruned_until=9.0), OLD, "node b has dropped the state of blocks below 6"),
        (with_state(windows={"m": (6, 9.0)}), plan(block=5), "node b answers m for newer blocks only"),
        (trip(with_state(), 0.5), plan(), "node b failed too often: it gets no calls for 0.5 s"),
    ],
)
def test_each_reason_is_a_sentence(node: Node, call: Plan, words: str) -> None:
    found = explain([node, Node("fit", roles=frozenset({"explorer", "beacon"}))], call, 1.0)
    assert [(refused.id, said[: len(words)]) for refused, said in found.refused if refused is node] == [("b", words)]
    assert node not in found.nodes


def test_a_node_a_block_late_still_answers_what_does_not_need_the_newest() -> None:
    late = with_state(head=99)
    assert eligible([late], plan(min_head=99), 0.0).nodes == [late]
    assert eligible([late], plan(min_head=100), 0.0).nodes == []


def test_a_node_without_stated_roles_is_held_able_until_it_denies() -> None:
    node, call = Node("a"), plan(needs=("explorer",))
    assert judge(node, call, 0.0) is Ineligibility.NONE
    node.learn(FailureKind.ROLE_MISSING, call, 0.0)
    assert judge(node, call, 1.0) is Ineligibility.LACKS
    assert judge(node, call, LACKS_FOR) is Ineligibility.NONE


def test_the_shard_of_the_network_is_no_statement_about_other_roles() -> None:
    assert judge(Node("a", roles=frozenset({"beacon"})), plan(needs=("explorer",)), 0.0) is Ineligibility.NONE
    assert (
        judge(Node("a", roles=frozenset({"explorer"})), plan(needs=("beacon-shard",)), 0.0)
        is Ineligibility.SAID_TO_LACK
    )


def test_a_stated_role_is_trusted_against_what_was_learnt() -> None:
    node = Node("a", roles=frozenset({"archive", "explorer"}))
    node.learn(FailureKind.ROLE_MISSING, plan(needs=("explorer",)), 0.0)
    node.learn(FailureKind.PRUNED, OLD, 0.0)
    assert judge(node, plan(needs=("explorer",)), 1.0) is Ineligibility.NONE
    assert judge(node, OLD, 1.0) is Ineligibility.NONE


def test_pruned_state_does_not_concern_newer_blocks() -> None:
    node = with_state(pruned_below=6, pruned_until=9.0)
    assert judge(node, plan(block=6, needs=("archive-for-old-state",)), 1.0) is Ineligibility.NONE
    assert judge(node, plan(block=5), 1.0) is Ineligibility.NONE


def test_a_method_that_reaches_back_a_little_concerns_no_other_method_and_no_newer_block() -> None:
    node = with_state(windows={"m": (6, 9.0)}, roles=frozenset({"archive"}))
    assert judge(node, plan(block=5), 1.0) is Ineligibility.BEYOND_WINDOW
    assert judge(node, plan(block=5), 9.0) is Ineligibility.NONE
    assert judge(node, plan(block=6), 1.0) is Ineligibility.NONE
    assert judge(node, plan(method="other", block=5, needs=("archive-for-old-state",)), 1.0) is Ineligibility.NONE
    assert judge(node, plan(), 1.0) is Ineligibility.NONE
    assert eligible([node], plan(block=5), 1.0).forced, "and it is asked when there is nobody else"


def test_when_every_breaker_is_open_the_least_bad_is_used_and_it_is_said() -> None:
    first, second = trip(Node("a"), 0.0), trip(Node("b"), 0.5)
    found = eligible([second, first], plan(), 0.6)
    assert found.forced
    assert found.nodes == [first, second]


def test_a_resting_node_comes_before_one_that_lacks_the_method() -> None:
    resting, unable = trip(Node("a")), with_state(lacks={"m": 9.0})
    assert eligible([unable, resting], plan(), 0.5).nodes == [resting]


def test_when_all_lack_the_method_one_of_them_may_say_so() -> None:
    nodes = [with_state(lacks={"m": 9.0}), with_state(lacks={"m": 9.0})]
    found = eligible(nodes, plan(), 0.5)
    assert found.forced
    assert len(found.nodes) == 1


def test_nothing_forces_a_wrong_chain_a_drained_or_a_lagging_node() -> None:
    nodes = [with_state(chain_ok=False), with_state(drained=True), with_state(weight=0), with_state(head=3)]
    found = explain([trip(node) for node in nodes], plan(min_head=5), 0.5)
    assert not found.nodes
    assert not found.forced
    assert len(found.refused) == 4


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from([None, True, False]), st.booleans(), st.integers(-1, 3)),
        max_size=6,
    ),
    st.integers(-1, 3),
)
def test_nobody_is_eligible_whom_a_sentence_refuses(
    states: list[tuple[int, bool | None, bool, int]], min_head: int
) -> None:
    nodes = [
        with_state(weight=weight, chain_ok=chain, drained=drained, head=head) for weight, chain, drained, head in states
    ]
    found = explain(nodes, plan(min_head=min_head), 1.0)
    told = [id(node) for node, _ in (*found.refused, *found.standing_by)]
    assert sorted([id(node) for node in found.nodes] + told) == sorted(id(node) for node in nodes)


def test_a_higher_tier_is_asked_only_when_no_lower_node_can_be() -> None:
    own, other, paid = Node("own"), Node("other"), Node("paid")
    paid.tier = 1
    nodes = [own, other, paid]
    assert eligible(nodes, plan(), 0.0).nodes == [own, other]
    own.parking = parked("a", "b", "c", until=5.0)
    assert eligible(nodes, plan(), 0.0).nodes == [other]
    other.drained = True
    assert eligible(nodes, plan(), 0.0).nodes == [paid]
    assert eligible(nodes, plan(), 5.0).nodes == [own], "given up again by itself"


def test_a_higher_tier_takes_what_a_full_lower_one_cannot_and_what_was_tried_there() -> None:
    own, paid = Node("own"), Node("paid")
    paid.tier = 1
    own.limit.value = 2.0
    for _ in range(2):
        own.begin(0.0)
    assert eligible([own, paid], plan(), 0.0).nodes == [paid]
    own.held[Bulkhead.LIGHT] = 1
    assert eligible([own, paid], plan(), 0.0).nodes == [own]
    assert eligible([own, paid], plan(), 0.0, avoid=["own"]).nodes == [paid]


def test_who_stands_by_is_said() -> None:
    own, full, paid = Node("own"), Node("full"), Node("paid")
    paid.tier = 1
    full.limit.value, full.held[Bulkhead.LIGHT] = 1.0, 1
    spent = Node("spent")
    spent.quota = Quota(QuotaLimits(second=1), now=0.0, epoch=0.0)
    spent.quota.spend("eth_call", False, 0.0)
    found = explain([own, full, spent, paid], plan(), 0.0)
    assert (found.nodes, found.refused) == ([own], [])
    assert [said for _, said in found.standing_by] == [
        "node full has as many calls as it may have at once",
        "node spent has used up its quota of this second",
        "node paid stands by in tier 1: it is asked when no node of a lower tier can be",
    ]


def test_when_every_node_is_full_a_new_call_waits_and_one_under_way_goes_on() -> None:
    first, second = Node("a"), Node("b")
    for full in (first, second):
        full.limit.value, full.held[Bulkhead.LIGHT] = 1.0, 1
    assert eligible([first, second], plan(), 0.0).full
    assert eligible([first, second], plan(), 0.0, avoid=["a"]).nodes == [second]


def test_a_routed_method_goes_to_tagged_nodes_only() -> None:
    tagged, plain = Node("tagged"), Node("plain")
    tagged.tags = frozenset({"archive"})
    routed = replace(plan(), tag="archive")
    assert eligible([plain, tagged], routed, 0.0).nodes == [tagged]
    ((_, why),) = explain([plain, tagged], routed, 0.0).refused
    assert why == "node plain has not the tag archive: m is routed to nodes that have"
    tagged.parking = parked("a", "b", "c", until=9.0)
    assert eligible([plain, tagged], routed, 0.0).nodes == []


def test_a_node_that_used_up_its_quota_waits_for_it_to_renew() -> None:
    paid = Node("paid")
    paid.quota = Quota(QuotaLimits(day=1), now=0.0, epoch=0.0)
    assert eligible([paid], plan(), 0.0).nodes == [paid]
    paid.quota.spend("eth_call", False, 0.0)
    ((_, why),) = explain([paid], plan(), 86_390.0).refused
    assert why == "node paid has used up its quota: it gets no calls for 10.0 s, until that renews"
    assert eligible([paid], plan(), 86_400.0).nodes == [paid]


def test_an_ejected_node_is_the_first_of_the_least_bad() -> None:
    slow, resting = Node("slow"), Node("resting")
    slow.ejected_until = 9.0
    for _ in range(5):
        resting.finish(resting.begin(0.0), "failure", 0.0)
    found = eligible([resting, slow], plan(), 0.5)
    assert (found.nodes, found.forced) == ([slow], True)
    assert eligible([slow], plan(), 9.0).forced is False


def test_a_node_that_has_not_said_which_chain_it_serves_is_asked_when_no_other_can_be() -> None:
    new, known = Node("new"), Node("known")
    assert eligible([new, Node("too")], plan(), 0.0).nodes[0] is new, "nobody has said anything yet"
    known.chain_ok = True
    found = explain([new, known], plan(), 0.0)
    assert found.nodes == [known]
    ((stands_by, why),) = found.standing_by
    assert stands_by is new
    assert why.startswith("node new has not said which chain it serves")
    known.drained = True
    assert eligible([new, known], plan(), 0.0).nodes == [new]


def test_a_node_whose_probes_meet_a_closed_door_is_asked_by_nobody() -> None:
    barred, well = Node("barred"), Node("well")
    barred.bar("the node does not let us in: HTTP 401")
    assert eligible([barred, well], plan(), 0.0).nodes == [well]
    assert eligible([barred], plan(), 0.0).nodes == [], "not even when nobody else is left"
    ((_, why),) = explain([barred], plan(), 0.0).refused
    assert why == ("node barred answers no probe, look at its URL and its key: the node does not let us in: HTTP 401")
    barred.drained = True
    ((_, why),) = explain([barred], plan(), 0.0).refused
    assert "drained" in why


def test_how_long_an_open_breaker_stays_open_is_said() -> None:
    resting = Node("resting")
    for _ in range(5):
        resting.finish(resting.begin(0.0), "failure", 0.0)
    ((_, why),) = explain([resting], plan(), 0.4).refused
    assert why == "node resting failed too often: it gets no calls for 0.6 s, then a trial"
    resting.breaker.probed(0.4, answered=False)
    ((_, why),) = explain([resting], plan(), 9.0).refused
    assert why == "node resting failed too often: it gets no calls until a probe is answered"


@pytest.mark.parametrize(
    ("node", "comes"),
    [
        (with_state(head=99, answering=True), True),
        (with_state(head=99, answering=False), False),
        (with_state(answering=False), False),
        (with_state(), True),
        (with_state(chain_ok=False), True),  # as State has it until a first look has ended
        (with_state(chain_ok=False, answering=True), False),
        (with_state(weight=0), False),
        (with_state(drained=True), False),
        (with_state(cordoned=True), False),
        (with_state(head=99, answering=True, drained=True), False),
        (with_state(head=100, answering=True, lacks={"m": 9.0}), False),
    ],
)
def test_a_node_comes_along_when_its_head_alone_is_behind_or_nothing_is_known_of_it(node: Node, comes: bool) -> None:
    assert may_come([node], plan(min_head=100), 0.0) is comes
    assert may_come([with_state(weight=0), node], plan(min_head=100), 0.0) is comes


@pytest.mark.parametrize("answering", [True, None])
def test_a_node_without_the_tag_of_a_route_does_not_come_along(answering: bool | None) -> None:
    routed = replace(plan(min_head=100), tag="logs")
    assert not may_come([with_state(answering=answering)], routed, 0.0)
    assert may_come([with_state(answering=answering, tags=frozenset({"logs"}))], routed, 0.0)


INDEXED = plan(needs=("explorer",))


def saying(name: str, roles: frozenset[str] = frozenset(), **says: bool) -> Node:
    node = Node(name, roles=roles)
    node.hear(says)
    return node


def test_what_a_node_says_of_itself_counts_until_the_operator_says_otherwise() -> None:
    assert judge(saying("a", explorer=True), INDEXED, 0.0) is Ineligibility.NONE
    assert judge(saying("a", explorer=False), INDEXED, 0.0) is Ineligibility.SAID_TO_LACK
    assert judge(saying("a", archive=True), INDEXED, 0.0) is Ineligibility.NONE, "of the index it says nothing"
    assert judge(saying("a", frozenset({"explorer"}), explorer=False), INDEXED, 0.0) is Ineligibility.NONE
    assert judge(saying("a", frozenset({"archive"}), explorer=True), INDEXED, 0.0) is Ineligibility.SAID_TO_LACK


def test_where_a_node_that_has_the_role_is_away_those_known_to_lack_it_are_not_asked_in_its_place() -> None:
    away, validator = saying("away", explorer=True), saying("validator", explorer=False)
    assert eligible([away, validator], INDEXED, 0.0).nodes == [away]
    for state in ("drained", "cordoned"):
        setattr(away, state, True)
        assert eligible([away, validator], INDEXED, 0.0).nodes == []
        setattr(away, state, False)
    behind = replace(INDEXED, min_head=5)
    validator.head = 5
    assert eligible([away, validator], behind, 0.0).nodes == []
    assert eligible([validator], behind, 0.0).nodes == [validator], "nobody has it: one of them says so"
    away.chain_ok = False
    assert eligible([away, validator], behind, 0.0).nodes == [validator], "on another chain, it has nothing of ours"


def test_nodes_with_the_preferred_role_come_first_and_the_others_when_none_is_left() -> None:
    explorer, validator, unknown = saying("explorer", explorer=True), saying("validator", explorer=False), Node("c")
    nodes, logs = [explorer, validator, unknown], plan(prefers="explorer")
    assert eligible(nodes, logs, 0.0).nodes == [explorer]
    assert eligible(nodes, logs, 0.0, avoid=["explorer"]).nodes == [validator, unknown]
    assert eligible([validator, unknown], logs, 0.0).nodes == [validator, unknown]
    assert [said for _, said in explain(nodes, logs, 0.0).standing_by] == [
        f"node {name} is asked when no node that is known to be explorer can be" for name in ("validator", "c")
    ]
    explorer.tier = 1
    assert eligible(nodes, logs, 0.0).nodes == [validator, unknown], "tiers are the operator's word"


def test_old_state_is_asked_of_archive_nodes_first_and_new_state_of_all() -> None:
    archive, other = saying("archive", archive=True), saying("other", archive=False)
    old, new = replace(OLD, head=200), replace(OLD, head=133)
    assert eligible([other, archive], old, 0.0).nodes == [archive]
    assert eligible([other, archive], new, 0.0).nodes == [other, archive]
    assert eligible([other], old, 0.0).nodes == [other]


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([Bulkhead.HEAVY, Bulkhead.UNKNOWN])), max_size=90))
def test_whatever_heavy_and_unknown_calls_are_under_way_a_light_one_may_go_to_every_node(
    under_way: list[tuple[int, Bulkhead]],
) -> None:
    nodes = [Node(name) for name in "abc"]
    heavy = replace(plan("trace"), rule=Rule(method="trace", cache=CacheClass.NEVER, heavy=True))
    plans = {Bulkhead.HEAVY: heavy, Bulkhead.UNKNOWN: replace(plan("odd"), rule=UNKNOWN_RULE)}
    for which, bulkhead in under_way:
        found = eligible(nodes, plans[bulkhead], 0.0)
        if nodes[which] in found.nodes:
            nodes[which].begin(0.0, bulkhead)
    assert eligible(nodes, plan(), 0.0).nodes == nodes
    assert all(node.held[bulkhead] <= node.max_heavy for node in nodes for bulkhead in plans)


@pytest.mark.parametrize(
    ("methods", "named"),
    [((), ""), (("a",), "a"), (("",), "methods without a rule"), (("e", "d", "c", "b"), "b, c, d and 1 more")],
)
def test_the_methods_that_a_node_limits_are_named(methods: tuple[str, ...], named: str) -> None:
    node = Node("a")
    node.parking = parked(*methods)
    assert rests(node, 1.0) == (named and f"it limits the rate of {named}: it gets none of them for 2.0 s at the most")
    assert rests(node, 3.0) == ""


def test_the_best_node_left_is_the_furthest_of_those_that_only_their_head_keeps_away() -> None:
    call = plan(min_head=100)
    nodes = [with_state(head=head, answering=True) for head in (100, 98, 99, 99, 99)]
    nodes[2].answering = False
    nodes[3].parking = parked("m", until=9.0)
    nodes[4].cordoned = True
    assert best_left(nodes, call, 1.0) == 98
    assert best_left(nodes[:1], call, 1.0) == -1
