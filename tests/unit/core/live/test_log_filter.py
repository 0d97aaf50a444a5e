"""Filters of logs: one form for all that mean the same, and what one of them has to do with another."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.live.block import Log
from rpcaccel.core.live.log_filter import EVERYTHING, MAX_SHARED_WORDS, FilterIndex, LogFilter, covers, may_match, union

_WORDS = st.sampled_from(["0xa", "0xb", "0xc"])
_POSITION = st.lists(_WORDS, max_size=2)
FILTERS = st.builds(LogFilter.of, _POSITION, st.lists(_POSITION, max_size=4))
LOGS = st.builds(lambda address, topics: Log(address, tuple(topics), b"{}"), _WORDS, st.lists(_WORDS, max_size=4))


def log(address: str, *topics: str) -> Log:
    return Log(address, topics, b"{}")


def means(addresses: Sequence[str], topics: Sequence[Sequence[str]], one: Log) -> bool:
    """What nodes do, written down plainly (geth's filterLogs)."""
    if addresses and one.address not in addresses:
        return False
    if len(topics) > len(one.topics):
        return False
    return all(not many or one.topics[at] in many for at, many in enumerate(topics))


@given(st.lists(_WORDS, max_size=3), st.lists(_POSITION, max_size=4), LOGS, st.randoms())
def test_a_filter_has_one_form_and_means_what_was_written(addresses, topics, one, rng) -> None:  # type: ignore[no-untyped-def]
    wanted = LogFilter.of(addresses, topics)
    shuffled = [rng.sample(many, len(many)) + many for many in topics]
    again = LogFilter.of([word.upper() for word in addresses * 2], shuffled)
    assert wanted == again
    assert hash(wanted) == hash(again)
    assert wanted.matches(one) == means(addresses, topics, one)


@given(st.lists(FILTERS, min_size=1, max_size=5), LOGS)
def test_a_union_misses_nothing_that_a_member_matches(filters: list[LogFilter], one: Log) -> None:
    together = union(filters)
    assert all(covers(together, member) for member in filters)
    assert together.matches(one) or not any(member.matches(one) for member in filters)


@given(FILTERS, FILTERS, LOGS)
def test_a_filter_that_covers_another_matches_all_that_the_other_does(
    wide: LogFilter, narrow: LogFilter, one: Log
) -> None:
    assert covers(wide, wide)
    assert covers(EVERYTHING, narrow)
    if covers(wide, narrow) and narrow.matches(one):
        assert wide.matches(one)


def test_the_union_of_one_filter_is_that_filter_and_of_too_many_addresses_is_all() -> None:
    one = LogFilter.of(["0xa"], [["0xb"]])
    assert union([one]) == one
    many = [LogFilter.of([f"0x{number:x}"], [["0xb"]]) for number in range(MAX_SHARED_WORDS + 1)]
    assert len(union(many[:-1]).addresses) == MAX_SHARED_WORDS
    assert union(many) == LogFilter.of((), [["0xb"]])


def test_a_filter_asks_nodes_for_what_it_matches() -> None:
    assert EVERYTHING.params() == {}
    assert LogFilter.of(["0xB", "0xa"], [[], ["0xc"]]).params() == {
        "address": ["0xa", "0xb"],
        "topics": [None, ["0xc"]],
    }


def matching(index: FilterIndex, one: Log) -> list[LogFilter]:
    return [found for found in index.find(one) if found is not None]


@given(st.lists(st.tuples(st.booleans(), FILTERS), max_size=12), st.lists(LOGS, max_size=4))
def test_the_index_finds_what_a_look_at_every_filter_finds(
    steps: list[tuple[bool, LogFilter]], logs: list[Log]
) -> None:
    index, held = FilterIndex(), dict[LogFilter, None]()
    for adding, one in steps:
        if adding:
            index.add(one)
            held[one] = None
        elif one in held:
            index.remove(one)
            del held[one]
    for each in logs:
        found = matching(index, each)
        assert len(found) == len(set(found))
        assert set(found) == {one for one in held if one.matches(each)}


def test_an_index_from_which_all_is_removed_holds_nothing() -> None:
    index = FilterIndex()
    filters = [LogFilter.of([f"0x{n}"], [[], [f"0x{n + 1}"]]) for n in range(5)] + [EVERYTHING]
    for one in filters:
        index.add(one)
    for one in filters:
        index.remove(one)
    assert repr(index) == "<index of 0 tables>"


@pytest.mark.parametrize(
    "counts", [(0,), (1,), (1, 1, 1), (10, 10, 10), (1000,), (1, 16), (2, 2, 2), (60, 60, 60, 60, 60)]
)
def test_a_filter_weighs_no_less_than_it_takes_with_its_places(counts: tuple[int, ...]) -> None:
    index, held, names = FilterIndex(), dict[LogFilter, None](), count()
    tracemalloc.start()
    for _ in range(20):
        addresses, *topics = ([f"0x{next(names):0{64 if part else 40}x}" for _ in range(many)]
                              for part, many in enumerate(counts))  # fmt: skip
        one = LogFilter.of(addresses, topics)
        held[one] = None
        index.add(one)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken <= sum(one.weight for one in held) + 10_000


def test_filters_that_share_a_place_are_found_and_removed_one_by_one() -> None:
    index = FilterIndex()
    filters = [LogFilter.of(["0xa"], [[f"0x{number}" for number in range(size)]]) for size in (20, 21, 22)]
    for one in filters:
        index.add(one)
    for position, one in enumerate(filters):
        assert matching(index, log("0xa", "0x5")) == filters[position:]
        index.remove(one)
    assert repr(index) == "<index of 0 tables>"


def test_between_two_of_many_filters_that_share_a_place_others_may_come_and_go() -> None:
    index = FilterIndex()
    filters = [LogFilter.of(["0xa"], [[], ["0xb", "0xc"], ["0x5", f"0x{n}"]]) for n in range(10, 20)]
    for one in filters[:9]:
        index.add(one)
    looks = index.find(log("0xa", "0x0", "0xb", "0x12"))
    assert next(looks) is None
    index.add(filters[9])
    index.remove(filters[0])
    assert list(looks) == [None, filters[2], None, None, None, None, None, None]


def test_a_filter_with_very_many_combinations_has_few_places_and_is_found() -> None:
    index = FilterIndex()
    words = [f"0x{number:04x}" for number in range(1000)]
    index.add(LogFilter.of(words, [words, words, ["0xa"]]))
    assert matching(index, log("0x0001", "0x0002", "0x0003", "0xa"))
    assert not matching(index, log("0x0001", "0x0002", "nothing", "0xa"))
    assert not matching(index, log("0x0001", "0x0002", "0x0003", "0xb"))


# -- blooms ----------------------------------------------------------------------------------------------------------

ADDRESS = "0x095e7baea6a6c7c4c2dfeb977efac326af552d87"
TOPIC = "0x" + "0" * 64
OTHER = "0x" + "1" * 64
BITS = (222, 698, 1980, 269, 1163, 1241)
"""The bits of ADDRESS and of TOPIC, as go-ethereum numbers them."""
BLOOM = f"0x{sum(1 << bit for bit in BITS):0512x}"


def header(bloom: str) -> bytes:
    return b'{"number":"0x1","logsBloom":"%b"}' % bloom.encode()


@pytest.mark.parametrize(
    ("wanted", "may"),
    [
        (EVERYTHING, True),
        (LogFilter.of([ADDRESS]), True),
        (LogFilter.of([OTHER[:42], ADDRESS]), True),
        (LogFilter.of([OTHER[:42]]), False),
        (LogFilter.of([], [[TOPIC]]), True),
        (LogFilter.of([], [[OTHER, TOPIC]]), True),
        (LogFilter.of([], [[OTHER]]), False),
        (LogFilter.of([ADDRESS], [[], [OTHER]]), False),
        (LogFilter.of([ADDRESS], [[], []]), True),
    ],
)
def test_a_block_may_have_the_logs_whose_words_are_in_its_bloom(wanted: LogFilter, may: bool) -> None:
    assert may_match(header(BLOOM), wanted) is may


@pytest.mark.parametrize(
    "said",
    [
        b"{}",
        b"null",
        b"no JSON",
        b'{"logsBloom":null}',
        header("0x" + "0" * 512),
        header("0x" + "f" * 512),
        header("0x01"),
        header("0x" + "x" * 512),
    ],
)
def test_a_header_without_a_bloom_says_nothing(said: bytes) -> None:
    assert not may_match(said, EVERYTHING)
