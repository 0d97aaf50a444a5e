from rpcaccel.controlplane.stats.buckets import ratio
from rpcaccel.controlplane.stats.history import Window
from rpcaccel.controlplane.stats.summaries import examination_document, method_figures, quantiles, rate, readings
from rpcaccel.core.heads.examination import Examination, PeerAgreement
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.counters import AnswerSource, Step, bump
from rpcaccel.core.stats.histogram import Histogram
from rpcaccel.core.stats.tally import Tally
from tests.support.described_answers import sent


def test_of_nothing_there_is_no_rate_no_ratio_and_no_percentile() -> None:
    assert rate(5, None) is None
    assert ratio(0, 0) is None
    assert quantiles(Histogram()) is None
    assert sent(readings(None)) is None


def test_hits_and_misses_never_share_a_latency() -> None:
    tally = Tally(["eth_call"])
    cell = tally.cell("s0", "eth_call", CacheClass.HEAD)
    for _ in range(10):
        cell.done(AnswerSource.MEMORY, 15e-6, 100)
        cell.done(AnswerSource.FLIGHT, 0.04, 100)
    figures = sent(method_figures([cell], Window(10.0, tally.snapshot())))
    assert figures["hit"]["p99"] <= 20e-6
    assert figures["miss"]["p50"] >= 30e-3
    assert figures["sources"] == {"memory": 10, "flight": 10}
    assert (figures["calls_per_second"], figures["hit_ratio"], figures["bytes_per_second"]) == (2.0, 0.5, 200.0)


def test_refused_calls_lower_neither_hit_ratio_nor_raise_errors() -> None:
    tally = Tally(["eth_call"])
    cell = tally.cell("s0", "eth_call", CacheClass.HEAD)
    cell.done(AnswerSource.MEMORY, 15e-6)
    cell.done(AnswerSource.REFUSED, 15e-6, failed=True)
    tally.refused("not JSON")
    told = sent(readings(Window(2.0, tally.snapshot())))
    assert (told["hit_ratio"], told["error_ratio"], told["refused"], told["calls"]) == (1.0, 0.0, 2, 2)


def test_reasons_of_all_classes_are_added_up_the_most_frequent_first() -> None:
    tally = Tally(["eth_call"])
    one, two = tally.cell("s0", "eth_call", CacheClass.HEAD), tally.cell("s0", "eth_call", CacheClass.NEVER)
    bump(one.misses, "new head")
    for _ in range(3):
        bump(two.misses, "never kept")
        bump(one.misses, "never kept")
    assert list(sent(method_figures([one, two], None))["misses"].items()) == [("never kept", 6), ("new head", 1)]


def test_the_steps_of_a_method_are_told_in_seconds_the_longest_first() -> None:
    tally = Tally(["eth_call"])
    for cache in (CacheClass.HEAD, CacheClass.BY_NUMBER):
        took = (Step.SHARED, 0.001), (Step.FORWARD, 0.25)
        tally.cell("s0", "eth_call", cache).done(AnswerSource.NODE, 0.251, steps=took)
    steps = sent(method_figures(tally.snapshot().cells, Window(10.0, tally.snapshot())))["steps"]
    assert list(steps.items()) == [("forward", 0.5), ("redis", 0.002)]
    assert {type(step) for step in steps} == {str}


def test_an_examination_is_told_with_its_sentences_and_its_time_as_text() -> None:
    found = Examination(at=60.0, head=9, state_from=0, agreement=PeerAgreement(3, 1, "x"), faults=("y",))
    made = sent(examination_document(found))
    assert (made["at"], made["faults"]) == ("1970-01-01T00:01:00+00:00", ["y"])
    assert made["agreement"] == {"compared": 3, "differing": 1, "first": "x"}
    assert made["says"][0] == "it has the state of every block"
    assert examination_document(None) is None
