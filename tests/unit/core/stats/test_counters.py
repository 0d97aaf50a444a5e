from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.stats.counters import (
    MAX_METHODS,
    MAX_REASONS,
    OTHER,
    AnswerSource,
    Cell,
    ClientCell,
    NodeCell,
    Step,
    bump,
)
from rpcaccel.core.stats.tally import Tally, merge


def test_a_call_is_counted_by_where_its_answer_came_from() -> None:
    cell = Cell("s0", "hmyv2_getBlocks", CacheClass.BY_NUMBER)
    cell.done(AnswerSource.MEMORY, 30e-6, 1700)
    cell.done(AnswerSource.NODE, 12e-3, 1700)
    cell.done(AnswerSource.NODE, 40e-3, 90, failed=True)
    cell.done(AnswerSource.REFUSED, 10e-6)
    cell.done(AnswerSource.FLIGHT, 12e-3)  # spares a node call, and is no hit
    assert (cell.calls, cell.hits, cell.refused, cell.errors, cell.size) == (5, 1, 1, 1, 3490)
    assert cell.latency[AnswerSource.NODE].count == 2
    assert cell.latency[AnswerSource.SHARED].count == 0


def test_reasons_are_counted_and_their_number_is_limited() -> None:
    cell = Cell("s0", "eth_call", CacheClass.HEAD)
    bump(cell.misses, "new-head")
    bump(cell.misses, "new-head")
    for number in range(10_000):
        cell.skipped(f"invented {number}")
    assert cell.misses == {"new-head": 2}
    assert len(cell.skips) == MAX_REASONS + 1
    assert sum(cell.skips.values()) == 10_000
    assert cell.skips[OTHER] == 10_000 - MAX_REASONS


def test_steps_are_added_up_in_microseconds_and_merged_over_workers() -> None:
    tallies = [Tally(["eth_call"]) for _ in range(2)]
    for tally in tallies:
        cell = tally.cell("s0", "eth_call", CacheClass.HEAD)
        cell.done(AnswerSource.NODE, 0.06, steps=((Step.SHARED, 0.0004), (Step.FORWARD, 0.05)))
        cell.done(AnswerSource.NODE, 0.03, steps=((Step.FORWARD, 0.03),))
    (merged,) = merge(tally.snapshot() for tally in tallies).cells
    assert merged.spent == {"redis": 800, "forward": 160_000}


def test_a_node_counts_answers_one_by_one_or_together_and_failures_by_kind() -> None:
    node = NodeCell("s0", "b")
    node.failed(FailureKind.TIMEOUT)
    node.answered(0.02, 500)
    node.answered(0.01, 70, 3)
    assert node.failures == {"timeout": 1}
    assert (node.size_in, node.latency.count, node.latency.seconds) == (570, 4, 0.02 + 0.01 * 3)


def test_the_latency_of_a_node_is_kept_by_method_and_bounded() -> None:
    node = NodeCell("s0", "b")
    node.answered(0.02, 500, 3, ["eth_call", "eth_call", ""])
    assert {method: (one.count, one.seconds) for method, one in node.by_method.items()} == {"eth_call": (2, 0.04)}
    for number in range(MAX_METHODS + 9):
        node.answered(0.5, methods=[f"m{number}"])
    assert len(node.by_method) == MAX_METHODS + 1
    assert node.by_method[OTHER].count == 10


def test_a_client_is_counted_by_method_source_and_fault_and_its_methods_are_bounded() -> None:
    cell = ClientCell("dapp")
    cell.answered("eth_call", AnswerSource.MEMORY, 1e-5)
    cell.answered("eth_call", AnswerSource.NODE, 0.1, "service")
    cell.answered("eth_call", AnswerSource.NODE, 0.1, "client")
    cell.answered("eth_call", AnswerSource.REFUSED, 1e-5, "service")
    assert (cell.hit.count, cell.miss.count, cell.errors, cell.client_errors) == (1, 2, 1, 1)
    assert (cell.method_calls, cell.method_hits) == ({"eth_call": 4}, {"eth_call": 1})
    assert cell.method_errors == cell.method_client_errors == {"eth_call": 1}
    for number in range(100):
        cell.answered(f"method{number}", AnswerSource.MEMORY, 1e-5)
    assert len(cell.method_calls) == MAX_METHODS + 1
    assert cell.method_calls[OTHER] == 100 - (MAX_METHODS - 1)
    cell.answered("eth_call", AnswerSource.MEMORY, 1e-5)
    assert cell.method_calls["eth_call"] == 5


def test_a_subscribe_is_neither_hit_nor_miss_of_a_method_or_client() -> None:
    cell, client = Cell("n", "eth_subscribe", CacheClass.NEVER), ClientCell("k")
    cell.done(AnswerSource.LIVE, 0.1)
    client.answered("eth_subscribe", AnswerSource.LIVE, 0.1)
    assert (cell.calls, cell.hits, cell.refused) == (1, 0, 0)
    assert (client.method_calls, client.method_hits) == ({"eth_subscribe": 1}, {})
    assert (client.hit.count, client.miss.count) == (0, 0)
