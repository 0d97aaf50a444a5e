"""A node says nothing, and nobody else is at the head: the call is given up in time to follow a node that is behind."""

from __future__ import annotations

import pytest

from rpcaccel.core.dispatch.machine import CallState
from tests.unit.core.dispatch.test_machine import InOrder, Run

PATIENCE = 5.0
"""Seconds: until 5 on the clock of these stories, which begin at 0."""


class OneAtTheHead(InOrder):
    """One node, and another that is behind."""

    def __init__(self, *, other_behind: bool = True) -> None:
        super().__init__(1)
        self.other_behind = other_behind

    def behind(self, now: float) -> bool:
        return self.other_behind


def begun(chooser: InOrder) -> Run:
    run = Run(hedge_after=1.0, patience=PATIENCE, chooser=chooser)
    return run.play("-> ask a, wait 1")


def test_a_call_at_a_node_that_hangs_is_given_up_when_the_patience_for_the_head_is_over() -> None:
    run = begun(OneAtTheHead()).play("2 abandoned -> wait 3\n3 abandoned\n5 abandoned -> stop a, end timeout")
    assert run.machine.steps == (("a", "timeout"),)
    assert run.end is not None
    assert run.end.failure is not None
    assert run.end.failure.text == "the node said nothing for 5 s"


def test_a_call_whose_patience_is_over_is_given_up_at_once() -> None:
    begun(OneAtTheHead()).play("6 abandoned -> stop a, end timeout")


def test_a_node_that_says_something_meanwhile_is_waited_for() -> None:
    chooser = OneAtTheHead()
    run = begun(chooser).play("2 abandoned -> wait 3")
    chooser.nodes[0].replied(4.0)
    run.play("5 abandoned\n5.5 tick -> illegal")
    assert run.machine.state is CallState.RUNNING


def test_where_nobody_is_behind_the_node_is_waited_for() -> None:
    begun(OneAtTheHead(other_behind=False)).play("2 abandoned\n6 abandoned")


@pytest.mark.parametrize("at", [2, 5])
def test_a_node_that_has_come_along_is_asked_beside_it(at: int) -> None:
    chooser = OneAtTheHead()
    run = begun(chooser).play("1 abandoned -> wait 4")
    chooser.nodes.append(InOrder(2).nodes[1])
    run.play(f"{at} abandoned -> hedge b")
