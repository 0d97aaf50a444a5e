"""Which alerts there are."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import pytest

from rpcaccel.controlplane.alerts.alert_book import MAX_ALERTS, Alert, AlertBook, alert_id
from rpcaccel.controlplane.stats.snapshot import Notice

AFTER = 30.0


def stands(seconds: float = 60, level: Literal["warn", "bad"] = "warn") -> Notice:
    return Notice(level, "s0", f"s0 has seen no new block for {seconds} s", "no block")


class Book:
    """An AlertBook that is looked at once a line; a moment is 1,000 seconds later in seconds since 1970."""

    def __init__(self, *looks: tuple[float, list[Notice]], after: float = AFTER) -> None:
        self.book, self.after = AlertBook(), after
        for now, notices in looks:
            self.look(notices, now)

    def look(self, notices: list[Notice], now: float) -> None:
        self.book.look(notices, now, now + 1000, self.after)

    def alerts(self, state: str) -> list[Alert]:
        found = self.book.alerts(["s0", "redis"], lambda _id, _subject: None)
        assert all(one.id == id for id, one in found.items())
        assert self.book.levels() == Counter(one.level for one in found.values() if one.state == "firing")
        return [one for one in found.values() if one.state == state]

    @property
    def firing(self) -> list[Alert]:
        return self.alerts("firing")

    @property
    def waiting(self) -> list[Alert]:
        return self.alerts("waiting")


def test_what_has_lasted_is_an_alert_and_what_has_not_waits() -> None:
    book = Book((0, [stands(60)]), (29, [stands(89)]))
    assert not book.firing
    assert [alert.since for alert in book.waiting] == [1000]
    book.look([stands(90)], 30)
    (alert,) = book.firing
    assert (alert.id, alert.level, alert.since) == (alert_id(stands()), "warn", 1000)
    assert alert.text == "s0 has seen no new block for 90 s"
    assert not book.waiting


def test_what_flickers_is_no_alert_and_a_flicker_ends_none() -> None:
    book = Book(*((now, [stands()] if now % 20 < 10 else []) for now in range(0, 200, 5)))
    assert not book.firing
    book = Book((0, [stands()]), (30, [stands()]), (31, []), (60, []), (60.5, [stands()]), (90, []), (119, []))
    assert book.firing
    book.look([], 120)
    assert not book.firing
    assert not book.waiting


def test_an_alert_that_becomes_worse_is_the_same_alert() -> None:
    book = Book((0, [stands()]), (30, [stands()]), (40, [stands(level="bad")]), (69, [stands(level="bad")]))
    assert [alert.level for alert in book.firing] == ["warn"]
    book.look([stands(level="bad")], 70)
    assert [(alert.level, alert.since) for alert in book.firing] == [("bad", 1000)]


def test_an_alert_begins_with_the_level_of_that_moment() -> None:
    book = Book((0, [stands()]), (20, [stands(level="bad")]), (30, [stands(level="bad")]), (40, [stands()]))
    assert [alert.level for alert in book.firing] == ["bad"]
    better = Book((0, [stands(level="bad")]), (20, [stands()]), (30, [stands()]))
    assert [alert.level for alert in better.firing] == ["warn"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("worker w1 was killed (3 s ago)", "worker w1 was killed (12.5 s ago)", True),
        ("worker w1 was killed", "worker w2 was killed", False),
        ("12 % of 1,400 calls", "13.5 % of 9 calls", True),
        ("redis at 10.0.0.1:6379 has no maxmemory", "redis at 10.0.0.2:6379 has no maxmemory", False),
    ],
)
def test_numbers_by_themselves_do_not_make_another_alert(one: str, other: str, same: bool) -> None:
    first, second = (alert_id(Notice("warn", "rpcaccel", text)) for text in (one, other))
    assert (first == second) is same


def test_the_subject_and_a_given_kind_make_the_id_and_the_sentence_does_not() -> None:
    assert alert_id(Notice("warn", "s0/a", "is behind", "node")) == alert_id(Notice("bad", "s0/a", "fails", "node"))
    assert alert_id(Notice("warn", "s0/a", "x", "node")) != alert_id(Notice("warn", "s0/b", "x", "node"))


def test_the_number_of_alerts_and_the_length_of_a_sentence_are_bounded() -> None:
    many = [Notice("warn", f"s0/{number}", "x" * 5000, "node") for number in range(MAX_ALERTS + 10)]
    firing = Book((0, many), after=0).firing
    assert len(firing) == MAX_ALERTS
    assert {len(alert.text) for alert in firing} == {500}


def test_of_notices_with_one_id_the_worst_counts() -> None:
    book = Book((0, [stands(1), stands(2, "bad"), stands(3)]), after=0)
    assert [(alert.level, alert.text[-3:]) for alert in book.firing] == [("bad", "2 s")]


@pytest.mark.parametrize(
    ("notice", "place"),
    [
        (Notice("warn", "s0", "x"), ("s0", None)),
        (Notice("warn", "s0/a:1", "x"), ("s0", "a:1")),
        (Notice("warn", "rpcaccel", "x"), (None, None)),
        (Notice("warn", "redis", "x", "tier"), (None, None)),
    ],
)
def test_an_alert_names_the_network_and_node_that_it_is_about(
    notice: Notice, place: tuple[str | None, str | None]
) -> None:
    (alert,) = Book((0, [notice]), after=0).firing
    assert (alert.network, alert.node) == place
