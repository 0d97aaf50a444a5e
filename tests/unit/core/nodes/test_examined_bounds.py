"""Calls go to the nodes that by their examinations answer them, as long as there are any."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from rpcaccel.core.heads.examination import Examination
from rpcaccel.core.nodes.eligibility import Ineligibility, eligible, explain, judge
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.plan import Plan
from tests.support.plans import plan_of

HEAD = 10_000
call = partial(plan_of, head=HEAD)
TRACED = frozenset({"debug_traceCall"})


def state(block: int) -> Plan:
    return call("eth_getBalance", block=block, needs=("archive-for-old-state",))


def logs(first: int, last: int) -> Plan:
    return call("eth_getLogs", first_block=first, block=last, split="logs")


def node(id: str = "a", *, roles: frozenset[str] = frozenset(), examining: bool = False, **examination: Any) -> Node:
    made = Node(id, roles=roles)
    made.chain_ok = True
    made.told_head(HEAD, 0.0)
    made.examined.examining = examining
    if examination:
        made.take_examination(Examination(at=1.0, head=HEAD, **examination), TRACED)
    return made


BOUNDED = {"state_from": HEAD - 128, "logs_from": 500, "range_most": 100, "traces": False}


@pytest.mark.parametrize(
    ("plan", "why", "words"),
    [
        (state(HEAD - 129), Ineligibility.PRUNED, "has dropped the state of blocks below 9872"),
        (state(HEAD - 128), Ineligibility.NONE, ""),
        (logs(499, 520), Ineligibility.BEYOND_WINDOW, "answers eth_getLogs for newer blocks only, none below 500"),
        (logs(500, 600), Ineligibility.NONE, ""),
        (logs(500, 601), Ineligibility.TOO_LONG, "answers eth_getLogs for at most 101 blocks at once"),
        (call("debug_traceCall"), Ineligibility.FOUND_TO_LACK, "had not debug_traceCall when examined"),
        (call("eth_chainId"), Ineligibility.NONE, ""),
        (call("eth_getBlockByNumber", block=3), Ineligibility.NONE, ""),
    ],
)
def test_what_an_examination_bounds_is_asked_of_others_and_said(plan: Plan, why: Ineligibility, words: str) -> None:
    bounded, whole = node(**BOUNDED), node("b", state_from=0, logs_from=0, range_tried=1024)
    assert judge(bounded, plan, 0.0) is why
    found = explain([bounded, whole], plan, 0.0)
    assert len(found.refused) == (why is not Ineligibility.NONE)
    assert all(words in text for _, text in found.refused)
    assert whole in found.nodes


@pytest.mark.parametrize("plan", [state(5), logs(1, 2), logs(500, 5000), call("debug_traceCall")])
def test_a_bound_is_a_belief_which_leaves_no_call_without_a_node(plan: Plan) -> None:
    bounded = node(**BOUNDED)
    found = eligible([bounded], plan, 0.0)
    assert (found.nodes, found.forced) == ([bounded], True)


def test_the_state_that_is_kept_moves_with_the_head() -> None:
    pruned = node(**BOUNDED)
    examination = pruned.examined.examination
    pruned.told_head(HEAD + 1000, 1.0)
    pruned.take_examination(examination, TRACED)
    assert judge(pruned, state(HEAD + 1000 - 129), 0.0) is Ineligibility.PRUNED
    assert judge(pruned, state(HEAD + 1000 - 128), 0.0) is Ineligibility.NONE


def test_the_operators_word_comes_before_the_examination() -> None:
    stated = node(roles=frozenset({"archive"}), **BOUNDED)
    assert judge(stated, state(5), 0.0) is Ineligibility.NONE
    assert stated.has("archive") is True
    assert node(roles=frozenset({"explorer"}), state_from=0).has("archive") is False
    for role in ("auth", "debug"):
        tracing = node(roles=frozenset({role}), **BOUNDED)
        assert judge(tracing, call("debug_traceCall"), 0.0) is Ineligibility.NONE


def test_the_examination_comes_before_the_nodes_own_word() -> None:
    boasting = node()
    boasting.take_examination(Examination(at=1.0, head=HEAD, state_from=HEAD - 128, roles={"explorer": False}), TRACED)
    boasting.hear({"archive": True, "explorer": True, "auth": True})
    assert (boasting.has("archive"), boasting.has("explorer"), boasting.has("auth")) == (False, False, True)


def test_another_examination_ends_what_was_learnt_before_it() -> None:
    known = node(state_from=0)
    known.lacks["m"] = 300.0
    known.take_examination(known.examined.examination, TRACED)
    assert known.lacks, "the same examination is told again and again"
    known.take_examination(Examination(at=2.0, head=HEAD, state_from=0), TRACED)
    assert not known.lacks
    known.take_examination(None, TRACED)
    assert (known.examined.state_from, known.examined.roles) == (0, {})


def test_a_node_that_waits_for_its_examination_gets_no_call_while_another_is_there() -> None:
    waiting, serving = node(examining=True), node("b")
    assert eligible([waiting, serving], call(), 0.0).nodes == [serving]
    (refused,) = explain([waiting, serving], call(), 0.0).refused
    assert refused == (waiting, "node a is being examined by calls in the shadow: it gets calls once that has ended")


def test_a_node_that_waits_for_its_examination_comes_before_one_that_fails() -> None:
    waiting, failing = node(examining=True), node("b")
    for _ in range(failing.breaker.settings.failures):
        failing.finish(failing.begin(0.0), "failure", 0.0)
    found = eligible([failing, waiting], call(), 0.0)
    assert (found.nodes, found.forced) == ([waiting], True)


def test_its_repr_names_the_bounds() -> None:
    assert repr(node(**BOUNDED).examined) == "<examined: state from 9872, logs from 500, range 100>"
