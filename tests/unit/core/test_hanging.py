"""A node says nothing, and nobody else is at the head: the call is given up in time to follow a node that is behind."""

from __future__ import annotations

import pytest

from rpcaccel.core.dispatch.machine import CallState
from rpcaccel.core.replies.failure import FailureKind
from tests.unit.core.dispatch.test_machine import InOrder, Run, machine, plan, settled

PATIENCE = 5.0


class OneAtTheHead(InOrder):
    """One node, and another that is behind."""

    def __init__(self, *, other_behind: bool = True) -> None:
        super().__init__(1)
        self.other_behind = other_behind

    def behind(self, now: float) -> bool:
        return self.other_behind


def begun(chooser: InOrder) -> Run:
    run = machine(call=plan(hedge=True), chooser=chooser, hedge_after=1.0, patience=PATIENCE)
    run.start(10.0)
    return run


def test_a_call_at_a_node_that_hangs_is_given_up_when_the_patience_for_the_head_is_over() -> None:
    run = begun(OneAtTheHead())
    assert run.abandoned(12.0) == ["wait 3"]
    assert run.abandoned(13.0) == [], "the timer is set"
    commands = run.abandoned(15.0)
    assert commands == ["stop 1", "end timeout"]
    assert run.steps == (("a", FailureKind.TIMEOUT),)
    end = settled(commands)
    assert end.failure is not None
    assert end.failure.text == "the node said nothing for 5 s"


def test_a_call_whose_patience_is_over_is_given_up_at_once() -> None:
    assert begun(OneAtTheHead()).abandoned(16.0) == ["stop 1", "end timeout"]


def test_a_node_that_says_something_meanwhile_is_waited_for() -> None:
    chooser = OneAtTheHead()
    run = begun(chooser)
    run.abandoned(12.0)
    chooser.nodes[0].replied(14.0)
    assert run.abandoned(15.0) == []
    assert run.state is CallState.RUNNING


def test_where_nobody_is_behind_the_node_is_waited_for() -> None:
    assert begun(OneAtTheHead(other_behind=False)).abandoned(16.0) == []


@pytest.mark.parametrize("at", [12.0, 15.0])
def test_a_node_that_has_come_along_is_asked_beside_it(at: float) -> None:
    chooser = OneAtTheHead()
    run = begun(chooser)
    run.abandoned(11.0)
    chooser.nodes.append(InOrder(2).nodes[1])
    assert run.abandoned(at) == ["hedge b"]
