from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rpcaccel.core.nodes.breaker import BreakerState
from rpcaccel.core.nodes.limits import Limit
from rpcaccel.core.nodes.node import HIDDEN_FOR, LACKS_FOR, MANY_CALLS, UNKNOWN_LACKS_BYTES, Node
from rpcaccel.core.nodes.parking import DIFFERENT_CALLS
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import OLD_STATE, UNKNOWN_RULE, Bulkhead, CacheClass, Rule
from rpcaccel.core.replies.failure import FailureKind
from tests.support.plans import plan_of as plan


@dataclass
class InFlight:
    """Implements CallInFlight."""

    permit: int
    began: float
    plan: Plan


def begun(node: Node, now: float, plan: Plan) -> InFlight:
    """A call that a node was asked."""
    return InFlight(node.begin(now, plan.rule.bulkhead), now, plan)


def invented(number: int) -> Plan:
    """A call of a method that no table describes."""
    return replace(plan(f"invented_{number}"), rule=UNKNOWN_RULE)


def test_a_call_is_counted_in_and_out_once() -> None:
    node = Node("a")
    permit = node.begin(1.0)
    assert node.in_flight == 1
    node.finish(permit, "success", 1.1)
    with pytest.raises(RuntimeError):
        node.finish(permit, "success", 1.1)
    assert node.in_flight == 0


def test_calls_that_one_reply_answers_are_counted_out_once_and_each_in_every_count() -> None:
    node = Node("a", limit=Limit(100))
    node.limit.value = 4.0
    calls = [begun(node, float(number), plan("ab"[number % 2])) for number in range(1, 5)]
    old = begun(node, 5.0, plan())
    for _ in range(node.breaker.settings.failures):
        node.finish(node.begin(5.0), "failure", 5.0)
    node.breaker.probed(6.0, answered=True)
    trials = [begun(node, 6.0, plan()) for _ in range(2)]
    node.answered([*calls, old, trials[0]], 7.0)
    assert (node.in_flight, node.held[Bulkhead.LIGHT], node.replied_at, node.latency.ewma) == (1, 1, 7.0, 6.0)
    assert node.attempts.totals(7.0) == [6, 0]
    assert node.limit.value == 4.0 + 6 / 4
    assert [pace.count for pace in map(node.pace.of, ("a", "b", "m")) if pace is not None] == [2, 2, 2]
    assert node.breaker.state is BreakerState.HALF_OPEN, "only the trial was from after the last move"
    assert node.returned_at < 0
    node.answered(trials[1:], 8.0)
    assert (node.breaker.state, node.returned_at) == (BreakerState.CLOSED, 8.0)
    node.answered([begun(node, 8.0, plan()), begun(node, 8.0, plan())], 8.5)
    assert node.breaker.counts.totals(8.5) == [2, 0]
    with pytest.raises(RuntimeError):
        node.answered(trials, 9.0)


def test_an_answer_to_a_call_from_before_an_outage_says_nothing_of_the_time_after_it() -> None:
    node = Node("a")
    old = begun(node, 1.0, plan())
    for _ in range(node.breaker.settings.failures):
        node.finish(node.begin(2.0), "failure", 2.0)
    node.breaker.probed(3.0, answered=True)
    for _ in range(node.breaker.settings.passes):
        node.answered([begun(node, 3.0, plan())], 3.5)
    node.finish(node.begin(4.0), "failure", 4.0)
    node.answered([old], 5.0)
    assert (node.breaker.state, node.breaker.in_row) == (BreakerState.CLOSED, 1)
    assert node.breaker.counts.totals(5.0) == [0, 1]


def test_a_changed_weight_keeps_what_was_learnt() -> None:
    node = Node("a", weight=1)
    node.head = 10
    node.answered([begun(node, 0.8, plan())], 1.0)
    node.learn(FailureKind.METHOD_MISSING, plan("x"), 1.0)
    node.adopt(Node("a", weight=5, roles=frozenset({"archive"}), timeout=3.0, drained=True))
    assert (node.weight, node.roles, node.timeout, node.drained) == (5, {"archive"}, 3.0, True)
    assert (node.head, node.latency.ewma) == (10, pytest.approx(0.2))
    assert "x" in node.lacks


def test_each_refused_method_rests_until_it_is_answered_itself() -> None:
    node = Node("a")
    for method in ("a", "b"):
        node.learn(FailureKind.RATE_LIMITED, plan(method), 10.0, retry_after=7.0)
    node.answered([begun(node, 17.0, plan("other"))], 17.5)
    for method in ("a", "b"):
        assert method in node.parking.methods
        node.answered([begun(node, 18.0, plan(method))], 18.5)
    assert not node.parking.methods
    assert node.parking.answered_at == 18.5


def test_a_method_with_a_limiter_of_its_own_parks_only_itself() -> None:
    node = Node("a")
    for name in ("slow", "b", "c", "d"):
        for number in range(DIFFERENT_CALLS):
            asked = replace(plan(name, limiter="5/s"), asked=b"[%d]" % number)
            node.learn(FailureKind.RATE_LIMITED, asked, 1.0)
    assert node.parking.until < 1.0
    assert node.parking.of("slow") == 2.0


def test_invented_method_names_that_are_refused_are_one_method() -> None:
    node = Node("a")
    for number in range(1000):
        node.learn(FailureKind.RATE_LIMITED, replace(plan(f"m{number}"), rule=UNKNOWN_RULE), 1.0)
    assert (len(node.parking.methods), node.parking.until < 1.0) == (1, True)


def test_a_missing_role_is_remembered_by_need() -> None:
    node = Node("a")
    node.learn(FailureKind.ROLE_MISSING, plan("x", needs=("explorer", "archive-for-old-state")), 1.0)
    node.learn(FailureKind.ROLE_MISSING, plan("y"), 1.0)
    assert node.lacks == {"explorer": 1.0 + LACKS_FOR, "y": 1.0 + LACKS_FOR}


def test_a_method_that_was_answered_is_believed_to_be_missing_once_many_different_calls_of_it_were_refused() -> None:
    node = Node("a")
    node.answered([begun(node, 1.0, plan("x"))], 1.0)
    for number in range(MANY_CALLS):
        assert not node.said_to_lack(plan("x"), 2.0)
        node.learn(FailureKind.METHOD_MISSING, plan("x", params=b"[%d]" % number), 2.0)
    assert node.said_to_lack(plan("x"), 2.0)
    assert repr(node) == "<node a weight 1 head -1 in flight 0 closed>"


def test_invented_method_names_are_remembered_within_bounds_and_displace_nothing_that_is_known() -> None:
    node = Node("a")
    known, newest = plan("debug_x"), invented(9_999)
    node.learn(FailureKind.METHOD_MISSING, known, 1.0)
    node.learn(FailureKind.ROLE_MISSING, plan("y", needs=("explorer",)), 1.0)
    for number in range(10_000):
        node.learn(FailureKind.METHOD_MISSING, invented(number), 1.0)
    assert len(node.lacks_unknown) < UNKNOWN_LACKS_BYTES / 100
    assert node.said_to_lack(newest, 2.0)
    assert not node.said_to_lack(newest, 1.0 + LACKS_FOR)
    assert not node.said_to_lack(invented(0), 2.0)
    assert node.said_to_lack(known, 2.0)
    assert node.lacks == {"debug_x": 1.0 + LACKS_FOR, "explorer": 1.0 + LACKS_FOR}


def test_the_pruned_bound_grows_and_is_forgotten() -> None:
    node = Node("a")
    node.learn(FailureKind.PRUNED, plan(block=100, needs=(OLD_STATE,)), 1.0)
    node.learn(FailureKind.PRUNED, plan(block=50, needs=(OLD_STATE,)), 2.0)
    node.learn(FailureKind.PRUNED, plan(needs=(OLD_STATE,)), 2.0)
    assert node.pruned_below == 101
    node.learn(FailureKind.PRUNED, plan(block=10, needs=(OLD_STATE,)), 3.0 + LACKS_FOR)
    assert node.pruned_below == 11


def test_a_node_that_dropped_old_blocks_may_have_their_state() -> None:
    node = Node("a")
    node.learn(FailureKind.PRUNED, plan("eth_getBlockByNumber", block=100), 1.0)
    assert (node.windows, node.pruned_below) == ({"eth_getBlockByNumber": (101, 1.0 + LACKS_FOR)}, 0)


def test_a_method_that_reaches_back_less_far_than_the_state_says_nothing_of_the_state() -> None:
    node = Node("a")
    node.learn(FailureKind.BEYOND_WINDOW, plan("eth_getProof", block=100), 1.0)
    node.learn(FailureKind.BEYOND_WINDOW, plan("eth_getProof", block=50), 2.0)
    node.learn(FailureKind.BEYOND_WINDOW, plan("eth_getProof"), 2.0)
    assert (node.windows, node.pruned_below) == ({"eth_getProof": (101, 2.0 + LACKS_FOR)}, 0)
    node.learn(FailureKind.BEYOND_WINDOW, plan("eth_getProof", block=10), 3.0 + LACKS_FOR)
    assert node.windows["eth_getProof"][0] == 11


def test_a_closed_door_is_remembered_by_method_until_the_probes_are_let_in_again() -> None:
    node = Node("a")
    node.learn(FailureKind.UNAUTHORIZED, plan("debug_x"), 1.0)
    node.learn(FailureKind.MISCONFIGURED, plan("y"), 1.0)
    node.bar("")
    assert node.lacks == {"debug_x": 1.0 + LACKS_FOR, "y": 1.0 + LACKS_FOR}
    node.bar("HTTP 401")
    assert node.barred == "HTTP 401"
    node.learn(FailureKind.UNAUTHORIZED, invented(1), 1.0)
    node.bar("")
    assert (node.barred, node.lacks, len(node.lacks_unknown)) == ("", {}, 0)


def test_a_lack_of_a_role_that_a_node_is_known_to_have_is_not_believed_for_long() -> None:
    """Else clients could shut explorers out, by calls that make them answer as a node without the index does."""
    stated, saying, silent = Node("a", roles=frozenset({"explorer"})), Node("b"), Node("c")
    saying.hear({"explorer": True})
    for node in (stated, saying, silent):
        node.learn(FailureKind.ROLE_MISSING, plan("x", needs=("explorer",)), 1.0)
    assert (stated.lacks, saying.lacks, set(silent.lacks)) == ({}, {}, {"explorer"})


def test_a_node_that_says_it_is_something_else_now_is_asked_again_for_what_it_lacked() -> None:
    node = Node("a")
    node.hear({"explorer": False})
    node.learn(FailureKind.METHOD_MISSING, plan("y"), 1.0)
    node.hear({"explorer": False})
    assert node.lacks
    node.hear({"explorer": True})
    assert (node.lacks, node.has("explorer"), node.has("archive")) == ({}, True, None)


@pytest.mark.parametrize("full", Bulkhead)
def test_calls_of_one_bulkhead_take_no_place_of_the_others(full: Bulkhead) -> None:
    node = Node("a", limit=Limit(64))
    node.limit.value, node.max_heavy = 6.0, 6
    for _ in range(3 if full is Bulkhead.EXECUTION else 6):
        assert node.has_room(0.0, full)
        node.begin(0.0, full)
    assert [node.has_room(0.0, bulkhead) for bulkhead in Bulkhead] == [bulkhead is not full for bulkhead in Bulkhead]
    node.finish(node.breaker.force(0.0), "success", 0.0, full)
    assert node.has_room(0.0, full)


@pytest.mark.parametrize(("connections", "places"), [(512, 16), (40, 10), (3, 1), (2, 1), (1, 1)])
def test_heavy_calls_leave_most_of_the_connections_to_light_ones(connections: int, places: int) -> None:
    node, begun = Node("a", limit=Limit(connections)), 0
    while node.has_room(0.0, Bulkhead.HEAVY):
        node.begin(0.0, Bulkhead.HEAVY)
        begun += 1
    assert begun == places


@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.lists(st.tuples(st.sampled_from([*Bulkhead][1:]), st.booleans()), max_size=40),
)
def test_of_several_connections_one_is_left_to_light_calls(
    connections: int, max_heavy: int, events: list[tuple[Bulkhead, bool]]
) -> None:
    node = Node("a", limit=Limit(connections))
    node.max_heavy = max_heavy
    out: list[tuple[int, Bulkhead]] = []
    for bulkhead, ends in events:
        if ends and out:
            permit, which = out.pop()
            node.finish(permit, "success", 0.0, which)
        elif node.has_room(0.0, bulkhead):
            out.append((node.begin(0.0, bulkhead), bulkhead))
        assert node.has_room(0.0) or connections == 1


def test_no_more_calls_are_begun_than_there_are_connections() -> None:
    node = Node("a", limit=Limit(4))
    node.begin(0.0, Bulkhead.HEAVY)
    node.begin(0.0, Bulkhead.UNKNOWN)
    for _ in range(2):
        assert node.has_room(0.0)
        node.begin(0.0)
    assert not node.has_room(0.0)


@pytest.mark.parametrize("rule", [Rule(method="trace", cache=CacheClass.NEVER, heavy=True), UNKNOWN_RULE])
def test_how_long_a_call_takes_whose_cost_the_client_chooses_says_nothing_of_the_node(rule: Rule) -> None:
    node = Node("a")
    node.answered([begun(node, 1.0, replace(plan("trace"), rule=rule))], 31.0)
    assert (node.latency.known, node.pace.of("trace"), node.busy_since) == (False, None, float("-inf"))


COSTLY = [
    Rule(method="trace", cache=CacheClass.NEVER, heavy=True),
    Rule(method="call", cache=CacheClass.NEVER, executes=True),
    UNKNOWN_RULE,
]


def test_how_long_executions_take_says_when_another_node_is_to_be_asked_too() -> None:
    node = Node("a")
    node.answered([begun(node, 30.97, plan("eth_call", executes=True))], 31.0)
    assert node.latency.known
    assert node.pace.of("eth_call") is not None


@pytest.mark.parametrize("rule", COSTLY)
@pytest.mark.parametrize("kind", [FailureKind.TIMEOUT, FailureKind.BUSY, FailureKind.NODE_TIMEOUT])
def test_calls_whose_cost_the_client_chooses_lower_no_limit_when_they_take_too_long(
    rule: Rule, kind: FailureKind
) -> None:
    node, light = Node("a"), plan()
    node.begin(0.0)
    node.learn(kind, replace(light, rule=rule), 1.0)
    assert node.limit.value == node.limit.most
    node.learn(kind, light, 1.0)
    assert node.limit.value == node.limit.settings.least, "and it counts the light ones alone"


def test_how_far_behind_a_machine_was_seen_is_believed_for_a_while() -> None:
    node = Node("a")
    node.told_head(1000, 1.0)
    assert node.hidden_lag(1.0) == 0
    node.lacked(1001, 400, 2.0)
    assert node.hidden_lag(2.0) == 0, "it is not behind its head"
    node.lacked(599, 400, 2.0)
    assert node.hidden_lag(2.0) == 0, "it no longer has old blocks"
    node.lacked(970, 400, 3.0)
    node.told_head(990, 4.0)
    assert (node.head, node.hidden_lag(4.0)) == (990, 30), "the furthest counts"
    node.told_head(1001, 5.0)
    assert node.hidden_lag(3.0 + HIDDEN_FOR) == 30, "and for as long as it is seen again"
    assert node.hidden_lag(4.0 + HIDDEN_FOR) == 0
