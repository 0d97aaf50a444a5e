"""Who of the hosts is behind: by what they tell, on a clock of the test's own."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.controlplane.alerts.alert_book import alert_id
from rpcaccel.controlplane.hosts.host_book import (
    HOSTS_AT_FULL_PACE,
    MAX_COMPARED_NETWORKS,
    ROUND,
    Front,
    HostBook,
    HostNow,
    reached_by_half,
    usual_version,
)
from rpcaccel.controlplane.hosts.host_report import HostReport, encoded
from rpcaccel.stores.shared_board import HostEntries, HostEntry
from tests.support.described_answers import sent

NETWORK = "harmony-s0"


class Group:
    """Hosts that post and listen each round; `a` is the one whose book is looked at."""

    def __init__(self, *names: str) -> None:
        self.now = 1000.0
        self.book = HostBook("a")
        self.reports = {name: HostReport(name=name, version="1.0.0", heads={NETWORK: 100}) for name in ("a", *names)}
        self.posted: dict[str, tuple[float, HostReport]] = {}
        self.mute: set[str] = set()
        """Hosts that post nothing any more."""
        self.block_time: float | None = 2.0
        self.foreign: list[HostEntry] = []

    def tell(self, *names: str, **fields: Any) -> None:
        """Change what hosts tell from now on."""
        for name in names:
            known = {field: getattr(self.reports[name], field) for field in HostReport.__struct_fields__}
            self.reports[name] = HostReport(**{**known, **fields})

    def advance(self, *names: str, blocks: int = 1) -> None:
        """Let hosts, or all, serve newer heads."""
        for name in names or tuple(self.reports):
            self.tell(name, heads={NETWORK: self.reports[name].heads[NETWORK] + blocks})

    def round(self, times: int = 1, *moving: str) -> Group:
        """Pass rounds: every host posts a moment before `a` listens."""
        for _ in range(times):
            if moving:
                self.advance(*moving)
            self.now += ROUND
            self.posted |= {name: (self.now, one) for name, one in self.reports.items() if name not in self.mute}
            self.book.tell(self.reports["a"], self.now)
            entries = [HostEntry(name, self.now - at, encoded(one)) for name, (at, one) in self.posted.items()]
            self.book.hear(HostEntries([*entries, *self.foreign]), self.now, {NETWORK: self.block_time})
        return self

    def lose(self, seconds: float) -> None:
        """Let Redis be away for so long."""
        for _ in range(int(seconds / ROUND)):
            self.now += ROUND
            self.book.tell(self.reports["a"], self.now)
            self.book.lose("no answer in time", self.now)

    def of(self, name: str) -> HostNow:
        """What is told of a host."""
        return next(one for one in sent(self.book.document(self.now, shared=True))["hosts"] if one["name"] == name)

    def states(self) -> dict[str, str]:
        """The state of each host."""
        return {one["name"]: one["state"] for one in sent(self.book.document(self.now, shared=True))["hosts"]}

    @property
    def notices(self) -> list[str]:
        """What calls for attention."""
        return [notice.text for notice in self.book.notices(self.now)]


def test_hosts_that_tell_the_same_are_well_and_nothing_calls_for_attention() -> None:
    group = Group("b", "c").round(60, "a", "b", "c")
    assert group.states() == {"a": "well", "b": "well", "c": "well"}
    assert group.notices == []
    assert [one["here"] for one in sent(group.book.document(group.now, shared=True))["hosts"]] == [True, False, False]


def test_two_hosts_of_one_name_are_both_shown() -> None:
    group = Group("b", "c")
    group.tell("b", "c", name="pod")
    shown = sent(group.round().book.document(group.now, shared=True))["hosts"]
    assert [(one["run"], one["name"]) for one in shown] == [("a", "a"), ("b", "pod"), ("c", "pod")]


# ---- heads ----------------------------------------------------------------------------------------------------------


def test_a_host_whose_head_stands_while_others_go_on_is_behind_after_a_moment() -> None:
    group = Group("b").round(3, "a", "b")
    group.round(4, "a")
    assert group.states()["b"] == "well", "a moment is no reason"
    group.round(3, "a")
    assert group.of("b")["state"] == "behind"
    assert group.of("b")["why"] == f"its head of {NETWORK} is 7 blocks behind that of the others"
    assert group.of("b")["heads"][0]["lag"] == 7
    assert group.notices == []
    group.round(16, "a")
    assert group.notices == [f"host b: {group.of('b')['why']}"]
    group.advance("b", blocks=23)
    group.round()
    assert (group.states()["b"], group.notices) == ("well", [])


def test_slow_blocks_give_a_host_more_time() -> None:
    group = Group("b")
    group.block_time = 12.0
    group.round(3, "a", "b").round(20, "a")
    assert group.states()["b"] == "well"
    group.round(8, "a")
    assert group.states()["b"] == "behind"


def test_a_document_that_is_older_than_a_block_makes_no_host_late() -> None:
    """Blocks come each round; `b` is up to date whenever it posts, and posts every fourth round."""
    group = Group("b", "c")
    for number in range(40):
        group.mute = set() if number % 4 == 0 else {"b"}
        group.round(1, "a", "b", "c")
        assert group.states()["b"] == "well"


def test_a_single_host_that_tells_of_a_head_that_nobody_has_makes_nobody_late() -> None:
    group = Group("b", "c")
    group.tell("c", heads={NETWORK: 1 << 50})
    group.round(60, "a", "b")
    assert group.states() == {"a": "well", "b": "well", "c": "well"}


def test_this_host_finds_itself_behind() -> None:
    group = Group("b", "c").round(30, "b", "c")
    assert group.states()["a"] == "behind"
    assert group.notices == [f"this host: its head of {NETWORK} is 30 blocks behind that of the others"]


def test_a_chain_that_begins_anew_on_all_hosts_makes_nobody_late() -> None:
    group = Group("b", "c").round(20, "a", "b", "c")
    for name in ("a", "b", "c"):
        group.tell(name, heads={NETWORK: 1})
        group.round()
    group.round(20, "a", "b", "c")
    assert group.states() == {"a": "well", "b": "well", "c": "well"}


# ---- settings and purges --------------------------------------------------------------------------------------------


def test_a_host_that_does_not_follow_a_change_is_behind_after_a_few_seconds() -> None:
    group = Group("b", "c").round(2)
    group.tell("a", revision=7)
    group.round(3)
    assert group.states() == {"a": "well", "b": "well", "c": "well"}
    group.tell("c", revision=7)
    group.round()
    assert group.of("b")["why"] == "it has settings 0 while 7 are posted"
    assert group.states()["c"] == "well"


def test_a_host_that_cannot_adopt_what_others_posted_says_why() -> None:
    group = Group("b")
    group.tell("a", "b", revision=7)
    group.tell("b", refusal="networks.x: node c is not there")
    group.round()
    assert group.of("b")["state"] == "behind"
    assert group.of("b")["why"] == "what other hosts changed is not in force on it: networks.x: node c is not there"


def test_a_host_that_says_by_itself_what_it_cannot_adopt_says_it_once() -> None:
    """Its own settings tell of it under Attention."""
    group = Group("b")
    group.tell("a", refusal="no")
    assert group.round(60).states()["a"] == "behind"
    assert group.notices == []


def test_a_host_that_hears_no_purges_is_behind() -> None:
    group = Group("b")
    group.tell("b", purges_late=20.0)
    assert group.round().states()["b"] == "well"
    group.tell("b", purges_late=40.0)
    assert group.round().of("b")["why"] == "it has heard no purges of other hosts for 40 s"


# ---- versions -------------------------------------------------------------------------------------------------------


def test_an_upgrade_under_way_is_marked_and_is_no_alarm_until_it_takes_an_hour() -> None:
    group = Group("b", "c")
    group.tell("b", version="1.1.0")
    group.round(1500)
    assert group.of("b")["state"] == "other-version"
    assert group.of("b")["why"] == "it runs 1.1.0; 2 of 3 hosts run 1.0.0"
    assert (group.states()["a"], group.notices) == ("well", [])
    group.round(400)
    assert group.notices == ["hosts run different versions for 1 h: 1.0.0, 1.1.0"]
    group.tell("a", "c", version="1.1.0")
    group.round()
    assert (group.notices, group.states()["b"]) == ([], "well")


@pytest.mark.parametrize(
    ("versions", "usual"),
    [("1.0 1.0 1.1", "1.0"), ("0.9.0 0.10.0", "0.10.0"), ("x 1.0", "1.0"), ("", "")],
)
def test_the_usual_version_is_that_of_most_hosts_and_of_equally_many_the_newest(versions: str, usual: str) -> None:
    assert usual_version(Counter(versions.split())) == usual


# ---- not heard ------------------------------------------------------------------------------------------------------


def test_a_host_that_was_killed_is_not_heard_then_calls_for_attention_and_is_then_forgotten() -> None:
    group = Group("b", "c").round(10)
    group.mute = {"b"}
    group.round(5)
    assert group.states()["b"] == "well", "10 s are waited for"
    group.round()
    assert group.of("b")["state"] == "silent"
    assert group.of("b")["why"] == "last heard 12 s ago; it was killed, or is cut off from Redis"
    assert group.notices == []
    group.round(10)
    assert group.notices == ["host b: last heard 32 s ago; it was killed, or is cut off from Redis"]
    del group.posted["b"]
    del group.reports["b"]
    group.round()
    assert (group.states(), group.notices) == ({"a": "well", "c": "well"}, [])


def test_hosts_that_end_in_good_order_are_draining_and_then_gone_without_a_notice() -> None:
    group = Group("b").round(3)
    group.tell("b", draining=True)
    group.round(3, "a")
    assert (group.of("b")["state"], group.of("b")["why"]) == (
        "draining",
        "it finishes what it has and takes no new calls",
    )
    del group.posted["b"], group.reports["b"]
    group.round()
    assert (group.states(), group.notices) == ({"a": "well"}, [])


def test_a_host_that_drains_counts_in_no_majority() -> None:
    group = Group("b", "c", "d").round(2)
    group.tell("b", "c", "d", draining=True, version="0.9.0", revision=0)
    group.tell("a", revision=3)
    assert group.round(20).states()["a"] == "well"


def test_of_many_hosts_in_one_trouble_the_first_have_a_sentence_each_and_the_others_one() -> None:
    group = Group(*"bcdefgh").round(10)
    for name in "fedcbgh":
        group.mute.add(name)
        group.round(2)
    *each, others = group.round(20).notices
    assert [text.partition(":")[0] for text in each] == ["host f", "host e", "host d"]
    assert others == "4 more hosts are not heard: c, b, g and 1 more"


def test_what_is_said_of_a_host_is_one_alert_whatever_befalls_others_and_however_its_sentence_changes() -> None:
    group = Group("b", "c", "d").round(10)
    group.mute = {"b"}
    (first,) = map(alert_id, group.round(17).book.notices(group.now))
    group.mute = {"b", "c"}
    assert first in map(alert_id, group.round(17).book.notices(group.now)), "it is not over when another one dies"

    group = Group("b", "c", "d").round(10)
    group.round(1, "a", "c", "d")
    (one,) = group.round(25).book.notices(group.now)
    (several,) = group.round(15, "a", "c", "d").book.notices(group.now)
    group.tell("b", purges_late=60.0)
    (more,) = group.round().book.notices(group.now)
    assert ("1 block behind" in one.text, "16 blocks" in several.text, "no purges" in more.text) == (True, True, True)
    assert alert_id(one) == alert_id(several) == alert_id(more)


def test_hosts_of_very_many_versions_make_no_long_sentence_and_stay_one_alert() -> None:
    group = Group(*"bcdefgh")
    for name in "bcdefgh":
        group.tell(name, version=f"{name}" * 100)
    group.round(int(3700 / ROUND))
    (before,) = group.book.notices(group.now)
    group.tell("b", version="1.0.0")
    (after,) = group.round(2).book.notices(group.now)
    assert (len(before.text) < 400, alert_id(before)) == (True, alert_id(after))


def test_documents_that_name_very_many_networks_cost_no_more_than_a_bound_and_hide_no_own_network() -> None:
    group = Group("b", "c").round()
    for number in range(100):
        heads = {f"{number}-{one}": one for one in range(100)}
        group.foreign.append(HostEntry(f"x{number}", 0.0, encoded(HostReport(name="x", heads=heads))))
    group.round(2).advance("a", "c", blocks=9)
    group.round(10)
    assert repr(group.book) == f"<HostBook a: 103 hosts, {MAX_COMPARED_NETWORKS} networks>"
    assert group.of("b")["why"] == f"its head of {NETWORK} is 9 blocks behind that of the others"


def test_while_redis_is_away_no_other_host_is_judged_and_ages_grow() -> None:
    group = Group("b").round(10)
    group.lose(60)
    told = sent(group.book.document(group.now, shared=True))
    assert told["note"] == "Redis is away (no answer in time): the other hosts are not known"
    assert (group.states(), group.of("b")["heard"]) == ({"a": "well", "b": "unknown"}, 60.0)
    assert (told["together"]["hosts"], group.notices) == (1, [])


def test_a_single_round_without_an_answer_changes_nothing() -> None:
    group = Group("b").round(10)
    group.mute = {"b"}
    group.round(8)
    group.lose(ROUND)
    assert (sent(group.book.document(group.now, shared=True))["note"], group.states()["b"]) == ("", "silent")
    group.lose(ROUND)
    assert group.states() == {"a": "well", "b": "unknown"}


def test_where_redis_never_answered_that_is_said_at_once() -> None:
    group = Group()
    group.lose(ROUND)
    assert sent(group.book.document(group.now, shared=True))["note"].startswith("Redis is away")


def test_once_redis_is_back_a_host_has_time_to_speak_before_it_is_not_heard() -> None:
    group = Group("b", "c").round(10)
    group.lose(60)
    group.mute = {"b"}
    group.round()
    assert group.states() == {"a": "well", "b": "unknown", "c": "well"}
    assert (group.of("b")["why"], group.notices) == ("this host has only begun to listen", [])
    group.round(6)
    assert group.states()["b"] == "silent"


# ---- what is shown --------------------------------------------------------------------------------------------------


def test_what_is_no_document_is_counted_and_harms_nothing() -> None:
    group = Group("b")
    group.foreign = [HostEntry("x", 0.0, b"junk"), HostEntry("y", 0.0, b"{}")]
    told = sent(group.round().book.document(group.now, shared=True))
    assert (told["unreadable"], len(told["hosts"])) == (2, 2)
    group.foreign = [HostEntry("run\x1b[2J", 0.0, encoded(HostReport(name="x")))]
    assert group.round().of("x")["run"] == "run\\x1b[2J"
    group.foreign = []
    assert sent(group.round().book.document(group.now, shared=True))["unreadable"] == 0


def test_calls_of_all_hosts_are_summed_and_ratios_are_those_of_all_calls() -> None:
    group = Group("b", "c")
    group.tell("a", window=10.0, calls=1000, accepted=1000, hits=900, errors=10, workers=2, miss_p99=0.1)
    group.tell("b", window=10.0, calls=110, accepted=100, hits=0, errors=0, workers=1)
    group.round()
    together = sent(group.book.document(group.now, shared=True))["together"]
    assert together == {
        "hosts": 3,
        "workers": 3,
        "calls_per_second": 111.0,
        "hit_ratio": pytest.approx(900 / 1100),
        "error_ratio": pytest.approx(10 / 1100),
    }
    assert (group.of("b")["calls_per_second"], group.of("b")["hit_ratio"]) == (11.0, 0.0)
    assert (group.of("c")["calls_per_second"], group.of("c")["hit_ratio"], group.of("c")["miss_p99"]) == (None,) * 3


def test_a_host_by_itself_is_well_before_any_round() -> None:
    book = HostBook("a")
    assert sent(book.document(0.0, shared=False))["hosts"] == []
    book.tell(HostReport(name="a"), 0.0)
    told = sent(book.document(1.0, shared=False))
    assert [(one["state"], one["heard"]) for one in told["hosts"]] == [("well", 1.0)]
    assert (told["note"], told["together"]["calls_per_second"], book.notices(1.0)) == ("", None, [])


def test_rounds_grow_longer_with_many_hosts() -> None:
    group = Group(*(f"h{number}" for number in range(2 * HOSTS_AT_FULL_PACE - 1)))
    assert group.book.every == ROUND
    assert group.round().book.every == 2 * ROUND
    assert "100 hosts" in repr(group.book)


@given(st.lists(st.integers(0, 100), min_size=1))
def test_half_of_the_hosts_or_more_have_reached_the_front_and_less_than_half_are_beyond(numbers: list[int]) -> None:
    front = reached_by_half(numbers)
    assert 2 * sum(number >= front for number in numbers) >= len(numbers)
    assert 2 * sum(number > front for number in numbers) < len(numbers)


def test_a_front_says_how_far_and_for_how_long_it_was_beyond_a_number() -> None:
    front = Front()
    assert (front.beyond(5, 10.0), repr(front)) == ((0, 0.0), "<Front nowhere>")
    for at, number in ((0.0, 5), (2.0, 7), (4.0, 7), (6.0, 9)):
        front.move(at, number)
    assert front.beyond(9, 10.0) == (0, 0.0)
    assert front.beyond(7, 10.0) == (2, 4.0)
    assert front.beyond(5, 10.0) == (4, 8.0)
    assert front.beyond(5, 5.0) == (2, 3.0), "what came later does not count"
    front.move(11.0, 3)
    assert front.beyond(5, 12.0) == (0, 0.0)
    assert repr(front) == "<Front 3>"
