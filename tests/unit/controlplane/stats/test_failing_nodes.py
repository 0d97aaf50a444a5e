"""When the failures of one node among many call for attention, and when not."""

from __future__ import annotations

from dataclasses import dataclass, field

from rpcaccel.controlplane.stats.attention import failing_nodes
from rpcaccel.controlplane.stats.history import Window
from rpcaccel.core.replies.unknown_errors import UnclassedError
from rpcaccel.core.stats.counters import NodeCell, TallySnapshot

TEXT = "this plan has used all of its compute units for today"
AT = 1_800_000_000.0


@dataclass
class Figures:
    """What three nodes did in the last five minutes."""

    nodes: list[NodeCell] = field(default_factory=lambda: [NodeCell("n", id, calls=1000) for id in "abc"])
    errors: list[UnclassedError] = field(default_factory=list)

    def said(self, *, at: float = AT) -> list[str]:
        window = Window(300.0, TallySnapshot(nodes=self.nodes))
        return [notice.text for notice in failing_nodes(window, self.errors, at)]

    def contradict(self, which: int, method: str, failed: int, good: int) -> None:
        node = self.nodes[which]
        for _ in range(failed):
            node.contradict(method)
            node.failed("unknown")
        for _ in range(good):
            node.answered(0.01, methods=[method])
        self.errors.append(
            UnclassedError(
                network="n",
                code=-32000,
                text=TEXT,
                count=failed,
                first_seen=AT - 60,
                last_seen=AT,
                http_status=200,
                nodes={node.node: failed},
                method=method,
                message=TEXT,
            )
        )


def test_a_node_that_fails_what_others_answer_is_named_with_its_words() -> None:
    figures = Figures()
    figures.contradict(0, "eth_call", 196, 4)
    assert figures.said() == [
        f'node n/a fails eth_call with "{TEXT}" where others answer it: 196 of 200 in the last 5 minutes',
        f'nodes give a kind of error that no rule knows, where others answer; the newest is "{TEXT}" (code -32000), '
        "196 times, most often from node n/a: say in error_rules what it means",
    ]
    assert len(figures.said(at=AT + 7200)) == 1, "it is no longer new"


def test_errors_that_all_nodes_give_name_no_node() -> None:
    figures = Figures()
    for node in figures.nodes:
        for _ in range(500):
            node.failed("unknown")
    figures.errors.append(
        UnclassedError(
            network="n",
            code=1,
            text="made up",
            count=1500,
            first_seen=AT,
            last_seen=AT,
            http_status=200,
            nodes={"a": 1500},
            method="eth_call",
            message="made up",
        )
    )
    assert figures.said() == []


def test_a_few_contradicted_errors_among_many_answers_are_nothing() -> None:
    figures = Figures()
    figures.contradict(0, "eth_call", 10, 990)
    figures.errors.clear()
    assert figures.said() == []


def test_a_node_that_fails_more_than_others_is_named() -> None:
    figures = Figures()
    for _ in range(260):
        figures.nodes[1].failed("http-status")
    for _ in range(3):
        figures.nodes[2].failed("timeout")
    assert figures.said() == [
        "node n/b fails 26 % of its calls, others 0.15 %: 260 of 1000 in the last 5 minutes, most: http-status"
    ]


def test_nothing_is_said_of_a_node_that_is_as_bad_as_the_others_or_failed_little() -> None:
    figures = Figures()
    for node in figures.nodes:
        for _ in range(200):
            node.failed("timeout")
    assert figures.said() == []
    figures = Figures(nodes=[NodeCell("n", "a", calls=30), NodeCell("n", "b", calls=1000)])
    for _ in range(19):
        figures.nodes[0].failed("timeout")
    assert figures.said() == []
    assert failing_nodes(None, [], AT) == []
