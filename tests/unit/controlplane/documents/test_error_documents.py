"""The documents about errors, and when failing calls need attention."""

from __future__ import annotations

import pytest

from rpcaccel.config.sections import ErrorsSettings
from rpcaccel.controlplane.documents.error_documents import MAX_SHOWN_METHODS, errors, opened, refused_requests
from rpcaccel.controlplane.stats.attention import failing_networks, most
from rpcaccel.controlplane.stats.history import Window
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.replies.failure import FailureKind, policy
from rpcaccel.core.stats.counters import OTHER, AnswerSource, NetworkCell
from rpcaccel.core.stats.error_log import ErrorLog, ErrorNews, ErrorsSeen, UnknownMethod
from rpcaccel.core.stats.tally import Tally
from tests.support.described_answers import sent
from tests.support.sample_errors import INVENTED, NETWORK, TIMEOUT, sample_log, sample_of, seen_of

NOW, AT = 1000.0, 2e9
SETTINGS = ErrorsSettings()


def passed(ok: int, failed: int = 0, by_client: int = 0, refused: int = 0, seconds: float = 61.0) -> Window:
    """A window in which so many calls ended so."""
    tally = Tally(["hmyv2_call"])
    cell = tally.cell(NETWORK, "hmyv2_call", CacheClass.HEAD)
    for _ in range(ok):
        cell.done(AnswerSource.NODE, 0.01)
    for _ in range(failed):
        cell.done(AnswerSource.NODE, 0.01, failed=True)
    for _ in range(by_client):
        cell.done(AnswerSource.NODE, 0.01, failed=True, by_client=True)
    for _ in range(refused):
        cell.done(AnswerSource.REFUSED, 0.01, failed=True)
    return Window(seconds, tally.snapshot())


@pytest.mark.parametrize(
    ("minute", "level"),
    [
        (passed(100), None),
        (passed(960, failed=40), None),
        (passed(950, failed=50), "warn"),
        (passed(800, failed=200), "bad"),
        (passed(0, failed=10), "bad"),
        (passed(0, failed=9), None),
        (passed(100, by_client=900), None),
        (passed(100, refused=900), None),
        (passed(90, failed=10, refused=900), "warn"),
        (None, None),
    ],
)
def test_attention_is_called_for_by_the_share_of_accepted_calls_that_the_service_failed_at(
    minute: Window | None, level: str | None
) -> None:
    assert [notice.level for notice in failing_networks(minute, ErrorLog(), SETTINGS, NOW)] == (
        [level] if level else []
    )


def test_the_shares_are_those_of_the_settings() -> None:
    tolerant = ErrorsSettings(warn=0.5, bad=0.9)
    assert failing_networks(passed(60, failed=40), ErrorLog(), tolerant, NOW) == []
    assert [one.level for one in failing_networks(passed(40, failed=60), ErrorLog(), tolerant, NOW)] == ["warn"]


def test_the_sentence_says_what_most_failures_have_in_common() -> None:
    (notice,) = failing_networks(passed(960, failed=64), sample_log(NOW), SETTINGS, NOW)
    assert (notice.subject, notice.text) == (
        NETWORK,
        "harmony-s0: 6.25 % of the calls failed in the last minute (64 of 1024): "
        "most from node b (no answer in time), method hmyv2_getBlockByNumber, client shop",
    )


def test_the_sentence_says_how_many_retries_were_not_paid() -> None:
    window = passed(960, failed=64)
    window.passed.networks.extend([NetworkCell(NETWORK, unpaid=30), NetworkCell("other", unpaid=9)])
    (notice,) = failing_networks(window, ErrorLog(), SETTINGS, NOW)
    assert notice.text.endswith("(64 of 1024), 30 retries were not made because their budget was used up")


def test_the_sentence_names_nothing_that_has_no_more_than_half() -> None:
    log = ErrorLog()
    halves = (("b", "one"), ("c", "other"))
    groups = (
        seen_of(TIMEOUT._replace(method=name), 20, nodes={node: 20}, clients={name: 20}, kind=name)
        for node, name in halves
    )
    log.take(ErrorNews(tuple(groups)), NOW)
    (notice,) = failing_networks(passed(60, failed=40, seconds=20.0), log, SETTINGS, NOW)
    assert notice.text == "harmony-s0: 40 % of the calls failed in the last 20 s (40 of 100)"


def told(*groups: ErrorsSeen) -> str:
    """What the sentence says that most failures of so many have in common."""
    log = ErrorLog()
    log.take(ErrorNews(groups), NOW)
    (notice,) = failing_networks(passed(30, failed=sum(group.count for group in groups)), log, SETTINGS, NOW)
    return notice.text.partition(")")[2]


def test_failures_without_a_node_are_no_failures_of_the_node_with_the_most() -> None:
    nowhere = seen_of(TIMEOUT, 60, nodes={})
    pruned = seen_of(TIMEOUT._replace(method="hmyv2_call", text="pruned"), 10, kind="pruned")
    assert told(nowhere, pruned) == ": most: no answer in time, method hmyv2_getBlockByNumber, client shop"


def test_the_node_named_is_that_of_the_minute_and_not_of_the_one_before() -> None:
    log = ErrorLog()
    log.take(ErrorNews((seen_of(TIMEOUT, 1000, nodes={"old": 1000}),)), NOW)
    log.take(ErrorNews((seen_of(TIMEOUT, 20, nodes={"new": 20}),)), NOW + 80)
    (notice,) = failing_networks(passed(60, failed=40), log, SETTINGS, NOW + 80)
    assert "node new" in notice.text
    (group,) = log.groups()
    assert (sent(opened(group, NOW + 80))["node"], sent(opened(group, NOW + 5000))["node"]) == ("new", "new")


OF_SERVICE = [
    kind for kind in FailureKind if policy(kind).fault in {"node", "proxy"} or kind is FailureKind.NODE_BEHIND
]


@pytest.mark.parametrize("kind", OF_SERVICE)
def test_every_kind_that_may_be_a_failure_of_the_service_is_told_in_words(kind: FailureKind) -> None:
    assert f" ({kind})" not in told(seen_of(TIMEOUT, 40, kind=kind.value))
    assert told(seen_of(TIMEOUT, 40, kind=kind.value)).startswith(": most from node b (")


@pytest.mark.parametrize(
    ("counts", "name"), [({}, ""), ({"a": 1}, "a"), ({"a": 1, "b": 1}, ""), ({"a": 3, "b": 2}, "a"), ({OTHER: 9}, "")]
)
def test_most_is_more_than_half_and_has_a_name(counts: dict[str, int], name: str) -> None:
    assert most(counts) == name


def test_the_document_is_about_one_network_or_all() -> None:
    log = sample_log(NOW)
    log.take(ErrorNews((seen_of(INVENTED._replace(network="s1"), 2),), (UnknownMethod("s1", "x", 2),)), NOW)
    of_one = sent(errors(log, (), [], minutes=5, network="s1", now=NOW, at=AT))
    of_all = sent(errors(log, (), [], minutes=5, now=NOW, at=AT))
    assert [group["network"] for group in of_one["groups"]] == ["s1"]
    assert (of_one["codes"], of_all["codes"]["-32601"]) == ({"-32601": 2}, 9)
    assert ([one["method"] for one in of_one["unknown_methods"]], len(of_all["unknown_methods"])) == (["x"], 2)
    assert [one["network"] for one in of_one["history"]["series"]] == ["s1"]
    of_method = sent(errors(log, (), [], minutes=5, method=TIMEOUT.method, now=NOW, at=AT))
    assert [group["method"] for group in of_method["groups"]] == [TIMEOUT.method]


def test_the_history_has_narrow_slots_for_minutes_and_wide_ones_for_an_hour() -> None:
    log = sample_log(NOW)
    fine = sent(errors(log, (), [], minutes=5, now=NOW + 12, at=AT))["history"]
    assert (fine["spacing"], len(fine["at"])) == (5.0, 60)
    (timeouts,) = (one for one in fine["series"] if one["code"] == -32000)
    assert (timeouts["counts"][-3:], sum(timeouts["counts"])) == ([40, 0, 0], 40)
    assert fine["at"][-1] == AT + 3.0  # the slot under way ends then
    hour = sent(errors(log, (), [], minutes=60, now=NOW + 12, at=AT))["history"]
    assert (hour["spacing"], len(hour["at"]), sum(hour["series"][0]["counts"])) == (60.0, 60, 40)
    none = sent(errors(ErrorLog(began=AT - 90), (), [], minutes=60, now=NOW, at=AT))
    assert (none["history"]["series"], none["began"]) == ([], AT - 90)


def test_the_newest_sample_comes_first_when_a_group_is_opened() -> None:
    log = ErrorLog()
    for number in range(3):
        log.take(ErrorNews((seen_of(TIMEOUT, samples=[sample_of(request=str(number))]),)), NOW)
    (group,) = log.groups()
    assert [sample["request"] for sample in sent(opened(group, NOW))["samples"]] == ["2", "1", "0"]


def test_only_the_methods_called_most_are_named() -> None:
    log = ErrorLog()
    log.take(ErrorNews((), tuple(UnknownMethod(NETWORK, f"m{number}", number) for number in range(100))), NOW)
    named = sent(errors(log, (), [], minutes=5, now=NOW, at=AT))["unknown_methods"]
    assert [one["method"] for one in named[:2]] == ["m99", "m98"]
    assert len(named) == MAX_SHOWN_METHODS


def test_requests_refused_before_they_were_a_call_are_told_by_reason() -> None:
    tally = Tally()
    tally.refused("malformed")
    for reason in ("batch", "rate", "batch"):
        tally.client("shop").refused(reason)
    told = sent(refused_requests(tally.snapshot(), Window(60.0, tally.snapshot())))
    assert told == [
        {"reason": "batch", "minute": 2, "total": 2},
        {"reason": "malformed", "minute": 1, "total": 1},
    ]
