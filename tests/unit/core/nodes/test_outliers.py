from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.nodes.node import Node
from rpcaccel.core.nodes.outliers import OutlierPolicy, look, silent
from rpcaccel.core.plan.rules import Bulkhead

SETTINGS = OutlierPolicy()


def answering(id: str, seconds: float = 0.05, *, method: str = "m", count: int = 20, at: float = 100.0) -> Node:
    node = Node(id)
    for _ in range(count):
        node.pace.answered(method, seconds, at)
        node.replied(at)
    return node


def ids(nodes: list[Node]) -> list[str]:
    return [node.id for node in nodes]


def test_a_node_that_takes_much_longer_for_the_same_is_left_alone_for_a_while() -> None:
    slow = answering("slow", 2.0)
    assert ids(look([answering("a"), slow, answering("b")], 100.0, SETTINGS)) == ["slow"]
    assert slow.ejected_until == 110.0
    assert slow.pace.of("m") is None, "it is measured anew when it is back"


@pytest.mark.parametrize(
    "slow",
    [
        answering("slow", 0.2),  # four times as long, but only a little
        answering("slow", 2.0, count=9),
        answering("slow", 2.0, at=60.0),
        answering("slow", 2.0, method="trace"),
    ],
    ids=["not by much", "few answers", "long ago", "another method"],
)
def test_a_node_is_not_blamed_without_a_measure(slow: Node) -> None:
    assert look([answering("a"), slow, answering("b")], 100.0, SETTINGS) == []


def test_a_node_that_is_asked_the_hard_questions_is_not_slow() -> None:
    archive = answering("archive", 3.0, method="eth_getLogs", count=50)
    for _ in range(20):
        archive.pace.answered("m", 0.05, 100.0)
    assert look([answering("a"), archive, answering("b")], 100.0, SETTINGS) == []


def test_factor_nought_ejects_nobody() -> None:
    assert look([answering("a"), answering("slow", 9.0)], 100.0, OutlierPolicy(factor=0.0)) == []


def test_a_node_that_holds_its_calls_while_others_answer_is_left_alone() -> None:
    frozen, well = answering("frozen"), answering("well")
    for _ in range(3):
        frozen.begin(100.0)
    well.replied(101.0)
    assert look([frozen, well], 101.4, SETTINGS) == []
    assert ids(look([frozen, well], 103.0, SETTINGS)) == ["frozen"]


def test_a_node_that_holds_slow_calls_is_given_their_time() -> None:
    busy, well = answering("busy", 2.0, method="trace"), answering("well")
    for _ in range(3):
        busy.begin(100.0)
    well.replied(101.0)
    assert look([busy, well], 105.0, SETTINGS) == []
    assert ids(look([busy, well], 106.0, SETTINGS)) == ["busy"]


@pytest.mark.parametrize(("every", "found"), [(0.3, ["frozen"]), (1.5, [])])
def test_hedges_that_take_its_calls_away_do_not_hide_that_a_node_hangs(every: float, found: list[str]) -> None:
    frozen, well = answering("frozen"), answering("well")
    for at in range(6):
        now = 101.0 + every * at
        frozen.finish(frozen.begin(now), "ignore", now + 0.2)
        frozen.overtaken("m", 0.2, now + 0.2)
        well.replied(now + 0.2)
        assert look([frozen, well], 102.4, SETTINGS) == []
    assert ids(look([frozen, well], now + 0.2, SETTINGS)) == found, "one that gets a call now and then is idle between"


@pytest.mark.parametrize("bulkhead", [*Bulkhead][1:])
def test_a_node_that_holds_calls_whose_cost_the_client_chooses_is_not_found_to_hang(bulkhead: Bulkhead) -> None:
    tracing, well = answering("tracing"), answering("well")
    for _ in range(30):
        tracing.begin(100.0, bulkhead)
    well.replied(101.0)
    assert look([tracing, well], 130.0, SETTINGS) == []
    for _ in range(3):
        tracing.begin(129.0)
    well.replied(129.5)
    assert look([tracing, well], 130.0, SETTINGS) == [], "light calls are given their time from when they came"
    assert ids(look([tracing, well], 132.0, SETTINGS)) == ["tracing"]


def test_when_all_are_silent_nobody_is_the_outlier() -> None:
    nodes = [answering("a"), answering("b")]
    for node in nodes:
        for _ in range(3):
            node.begin(100.0)
    assert look(nodes, 110.0, SETTINGS) == []


def test_a_node_that_is_overtaken_again_and_again_is_left_alone() -> None:
    slow = answering("slow", count=5)
    for _ in range(10):
        slow.overtaken("m", 9.0, 100.0)
    assert ids(look([slow, answering("a")], 100.0, SETTINGS)) == ["slow"]


def test_the_last_that_is_well_is_never_ejected() -> None:
    slow, other = answering("slow", 5.0), answering("other")
    for _ in range(5):
        other.finish(other.begin(100.0), "failure", 100.0)
    assert look([slow, other], 100.0, SETTINGS) == []


@pytest.mark.parametrize(("count", "most"), [(2, 1), (3, 1), (5, 2), (6, 3)])
def test_only_a_share_is_out_at_once(count: int, most: int) -> None:
    well = [answering(f"w{number}") for number in range(count - most)]
    slow = [answering(f"s{number}", 90.0) for number in range(most)]
    found = look([*slow, *well], 100.0, OutlierPolicy(by=0.1, factor=2.0))
    assert len(found) <= most
    assert look([*slow, *well], 101.0, OutlierPolicy(by=0.1, factor=2.0)) == []


def test_each_further_time_is_longer_until_there_was_peace() -> None:
    slow, nodes, rests = answering("slow", 5.0), [answering("a"), answering("b")], []
    now = 100.0
    for _ in range(6):
        for _ in range(20):
            slow.pace.answered("m", 5.0, now)
            for node in nodes:
                node.pace.answered("m", 0.05, now)
        look([slow, *nodes], now, SETTINGS)
        rests.append(slow.ejected_until - now)
        now = slow.ejected_until
    assert rests == [10, 20, 40, 80, 120, 120]
    assert slow.returned_at == slow.ejected_until, "and then it starts slowly"


def test_a_rest_is_prolonged_while_the_probes_are_slow() -> None:
    slow, well = answering("slow", 5.0), answering("well")
    look([slow, well], 100.0, SETTINGS)
    slow.probed, well.probed = 2.0, 0.02
    look([slow, well], 107.0, SETTINGS)
    assert slow.ejected_until == 110.0
    look([slow, well], 109.0, SETTINGS)
    assert slow.ejected_until == 112.0
    slow.probed = 0.03
    look([slow, well], 111.0, SETTINGS)
    assert slow.ejected_until == 112.0


def test_a_node_that_does_not_answer_its_probes_stays_out() -> None:
    slow, well = answering("slow", 5.0), answering("well")
    look([slow, well], 100.0, SETTINGS)
    well.probed = 0.02
    look([slow, well], 109.5, SETTINGS)
    assert slow.ejected_until == 112.5


STATES = st.tuples(st.floats(0.001, 20), st.integers(0, 30), st.booleans(), st.booleans(), st.integers(0, 5))


@given(st.lists(STATES, min_size=1, max_size=7), st.lists(st.floats(0, 20), min_size=1, max_size=8))
def test_however_bad_they_are_one_is_left(states: list[tuple[float, int, bool, bool, int]], steps: list[float]) -> None:
    nodes, now = [], 100.0
    for number, (seconds, count, drained, wrong, held) in enumerate(states):
        node = answering(f"n{number}", seconds, count=count)
        node.drained, node.chain_ok = drained, not wrong
        for _ in range(held):
            node.begin(now)
        nodes.append(node)
    for step in steps:
        now += step
        look(nodes, now, OutlierPolicy(factor=1.1, by=0.0, share=1.0, samples=1))
        counted = [node for node in nodes if not node.drained and node.chain_ok]
        assert not counted or any(now >= node.ejected_until for node in counted)


@pytest.mark.parametrize(
    ("says", "held", "quiet", "expected"),
    [
        (False, 1, 2.0, True),
        (False, 1, 1.0, False),
        (True, 1, 2.0, False),
        (True, 1, 5.0, True),
        (True, 0, 100.0, False),
        (None, 1, 5.0, True),
    ],
)
def test_a_node_is_silent_that_answers_neither_probes_nor_calls(
    says: bool | None, held: int, quiet: float, expected: bool
) -> None:
    node = Node("a")
    node.answering = says
    node.replied(10.0)
    for _ in range(held):
        node.begin(9.0)
    assert silent(node, 10.0 + quiet, SETTINGS, patience=5.0) is expected
    node.ejected_until = 1000.0
    assert silent(node, 10.0 + quiet, SETTINGS, patience=5.0) is (quiet > SETTINGS.stall)
