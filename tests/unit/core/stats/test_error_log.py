"""The log of errors: what it counts, and that nothing makes it grow beyond its bounds."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.replies.error_rules import fold
from rpcaccel.core.stats.counters import MAX_REASONS, OTHER
from rpcaccel.core.stats.error_log import (
    FAULTS,
    MAX_ERROR_SERIES,
    MAX_UNKNOWN_METHODS,
    PARAMS_OFF,
    SAMPLES,
    CountsOverTime,
    ErrorAttempt,
    ErrorKey,
    ErrorLog,
    ErrorNews,
    ErrorSample,
    ErrorsSeen,
    Lately,
    UnknownMethod,
)
from tests.support.sample_errors import INVENTED, LIMITED, NETWORK, TIMEOUT, sample_log, sample_of, seen_of

NOW = 1000.0
RAW = f"0x{'f8' * 100}"

TEXTS = st.text(max_size=40)


def sampled(text: str, params: str, attempts: int) -> ErrorSample:
    tried = (ErrorAttempt(text, 0.0, 1.0, text, text),) * attempts
    about = dict.fromkeys(("client", "address", "request", "message", "node"), text)
    return sample_of(**about, params=params, attempts=tried)


LONG = st.builds(str.__mul__, st.sampled_from(["x", "é", "\U0001f980"]), st.integers(0, 2048))
SAMPLED = st.builds(sampled, TEXTS, LONG, st.integers(0, 3))
KEYS = st.builds(ErrorKey, TEXTS, TEXTS, st.integers(-40000, 40000), TEXTS, st.sampled_from(FAULTS))
NEWS = st.builds(
    ErrorNews,
    st.lists(
        st.builds(
            ErrorsSeen,
            KEYS,
            count=st.integers(1, 1000),
            last_seen=st.floats(0, 2e9),
            clients=st.integers(0, 40).map(lambda many: {f"client {one}": 1 for one in range(many)}),
            samples=st.lists(SAMPLED, max_size=3),
        ),
        max_size=6,
    ).map(tuple),
)


def texts_of(log: ErrorLog) -> int:
    """Bytes of everything that the log holds of its groups, as a message would carry it."""
    held = [[group.key, group.clients, group.nodes, list(group.samples)] for group in log.groups()]
    return sum(len(msgspec.msgpack.encode(one)) for one in held)


@given(st.lists(NEWS, max_size=8))
def test_whatever_comes_the_log_stays_within_its_bounds_and_forgets_no_count(came: list[ErrorNews]) -> None:
    log = ErrorLog(most_groups=9, most_bytes=60_000)
    for number, news in enumerate(came):
        log.take(news, float(number))
        assert len(log) <= 9
        assert texts_of(log) <= log.size <= 60_000
    counted = sum(seen.count for news in came for seen in news.groups)
    assert sum(group.count for group in log.groups()) + log.forgotten_errors == counted


def test_errors_of_one_cause_are_one_group() -> None:
    log = ErrorLog()
    log.take(ErrorNews((seen_of(TIMEOUT, 3, last_seen=10.0),)), NOW)
    log.take(ErrorNews((seen_of(TIMEOUT, 4, last_seen=20.0, nodes={"c": 4}, kind="connect"),)), NOW + 1)
    (group,) = log.groups()
    assert (group.count, group.kind, group.first_seen, group.last_seen) == (7, "connect", 10.0, 20.0)
    assert (group.clients, group.nodes) == ({"shop": 7}, {"b": 3, "c": 4})
    assert log.group(group.id) is group
    assert log.group("nothing") is None


def test_whose_doing_it_is_tells_groups_apart() -> None:
    assert {group.key.fault for group in sample_log(NOW).groups()} == set(FAULTS)
    assert len({key.id for key in (TIMEOUT, INVENTED, LIMITED, TIMEOUT._replace(fault="client"))}) == 4


def test_the_newest_samples_are_kept() -> None:
    log = ErrorLog()
    for number in range(SAMPLES + 3):
        log.take(ErrorNews((seen_of(TIMEOUT, samples=[sample_of(request=str(number))]),)), NOW)
    (group,) = log.groups()
    assert [sample.request for sample in group.samples] == [str(number) for number in range(3, SAMPLES + 3)]


def test_the_group_not_seen_for_longest_is_forgotten_first_and_counted() -> None:
    log = ErrorLog(most_groups=6)
    for code in (1, 2, 1, 3):
        log.take(ErrorNews((seen_of(TIMEOUT._replace(code=code)),)), NOW)
    assert {group.key.code for group in log.groups()} == {1, 3}
    assert (log.forgotten, log.forgotten_errors) == (1, 1)


def test_large_samples_cost_groups_and_no_more_memory() -> None:
    log = ErrorLog(most_groups=300, most_bytes=60_000)
    for code in range(30):
        log.take(ErrorNews((seen_of(TIMEOUT._replace(code=code), samples=[sample_of(params="x" * 2000)] * 3),)), NOW)
    assert log.size <= 20_000
    assert {group.key.code for group in log.groups()} == {29}


def test_a_flood_of_clients_mistakes_pushes_out_no_failure_of_a_node() -> None:
    log = ErrorLog()
    log.take(ErrorNews((seen_of(TIMEOUT),)), NOW)
    for number in range(1000):
        log.take(ErrorNews((seen_of(INVENTED._replace(text=f"invented {number}")),)), NOW)
    assert log.group(TIMEOUT.id) is not None
    assert log.forgotten == 900


def test_names_beyond_a_bound_are_counted_together() -> None:
    log = ErrorLog()
    log.take(ErrorNews((seen_of(TIMEOUT, 100, clients={str(name): 1 for name in range(100)}),)), NOW)
    (group,) = log.groups()
    assert len(group.clients) == MAX_REASONS + 1
    assert group.clients[OTHER] == 100 - MAX_REASONS


def test_counts_over_time_forget_what_is_too_long_ago() -> None:
    counts = CountsOverTime()
    counts.add(5, NOW)
    counts.add(2, NOW + 100)
    assert [counts.last(seconds, NOW + 100) for seconds in (60, 300, 3600)] == [2, 7, 7]
    assert [counts.last(seconds, NOW + 1000) for seconds in (60, 300, 3600)] == [0, 0, 7]
    assert sum(counts.coarse.series(NOW + 1000)) == 7
    assert counts.last(3600, NOW + 10_000) == 0


def test_params_are_taken_out_of_the_samples_that_are_here_and_of_those_that_come() -> None:
    log = ErrorLog()
    quoting = sample_of(message=f"cannot decode {RAW}", attempts=(ErrorAttempt("b", 0.0, 1.0, "unknown", f"no {RAW}"),))
    log.take(ErrorNews((seen_of(TIMEOUT, samples=[quoting]),)), NOW)
    size = log.size
    log.hide_params(fold)
    assert log.size < size
    log.take(ErrorNews((seen_of(TIMEOUT, samples=[quoting]),)), NOW)
    (group,) = log.groups()
    for sample in group.samples:
        assert (sample.params, sample.params_note, sample.client) == ("", PARAMS_OFF, "shop")
        assert (sample.message, sample.attempts[0].said) == ("cannot decode <hex>", "no <hex>")
    log.hide_params(None)
    log.take(ErrorNews((seen_of(TIMEOUT, samples=[quoting]),)), NOW)
    assert [RAW in sample.message for sample in group.samples] == [False, False, True]


def test_counts_by_name_are_those_of_the_last_minute() -> None:
    lately = Lately()
    assert lately.counts() == {}
    for second in range(600):
        lately.add({"early" if second < 300 else "late": 1}, NOW + second)
        assert sum(lately.counts(NOW + second).values()) <= 70
    assert set(lately.counts(NOW + 599)) == {"late"}
    assert lately.counts(NOW + 599) == lately.counts()
    assert lately.counts(NOW + 700) == {}
    assert lately.size < 5000


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0, 4000)), max_size=40))
def test_a_clock_that_is_put_back_loses_no_count(added: list[tuple[int, float]]) -> None:
    counts, latest = CountsOverTime(), 0.0
    for number, at in added:
        counts.add(number, at)
        latest = max(latest, at)
    assert counts.last(3600, latest) >= sum(number for number, at in added if latest - at < 3500)


def test_codes_are_counted_over_time_by_network_and_fault() -> None:
    log = sample_log(NOW)
    told = {(network, fault, code): counts.last(60, NOW) for network, fault, code, counts in log.series()}
    assert told == {(NETWORK, "service", -32000): 40, (NETWORK, "client", -32601): 7, (NETWORK, "refused", -32005): 3}
    for code in range(2 * MAX_ERROR_SERIES):
        log.take(ErrorNews((seen_of(TIMEOUT._replace(code=code), samples=[]),)), NOW)
    assert len(list(log.series())) == MAX_ERROR_SERIES


def test_names_that_were_called_once_do_not_hide_one_that_is_called_now() -> None:
    log = ErrorLog()
    invented = [UnknownMethod(NETWORK, f"invented{number}", 50) for number in range(MAX_UNKNOWN_METHODS)]
    for start in range(0, MAX_UNKNOWN_METHODS, 200):
        log.take(ErrorNews((), tuple(invented[start : start + 200])), NOW)
    for second in range(120):
        flood = [UnknownMethod(NETWORK, f"more{second}_{number}", 1) for number in range(199)]
        log.take(ErrorNews((), (*flood, UnknownMethod(NETWORK, "hmyv2_real", 20, 20, float(second)))), NOW)
    real = log.methods()[0]
    assert (real.method, real.calls, real.errors, real.over) == ("hmyv2_real", 2400, 2400, 50)
    assert len(log.methods()) == MAX_UNKNOWN_METHODS
    assert sum(one.calls for one in log.methods()) + log.unnamed == MAX_UNKNOWN_METHODS * 50 + 120 * (199 + 20)


def test_methods_without_a_rule_are_counted_by_name_and_the_least_called_ones_dropped() -> None:
    log = ErrorLog()
    often = UnknownMethod(NETWORK, "hmyv2_often", 50, 2, 1.0)
    for number in range(5):
        flood = [UnknownMethod(NETWORK, f"hmyv2_{number}_{name}", 1, 1, float(number)) for name in range(200)]
        log.take(ErrorNews((), (often, *flood), unnamed=3), NOW)
    found = log.methods()
    assert (found[0].method, found[0].calls, found[0].errors) == ("hmyv2_often", 250, 10)
    assert len(found) == MAX_UNKNOWN_METHODS
    assert sum(one.calls for one in found) + log.unnamed == 5 * (50 + 200 + 3)
