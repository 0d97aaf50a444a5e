"""What a webhook is told, and when."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.config.sections import WebhookSettings
from rpcaccel.controlplane.alerts.alert_book import Alert, AlertBook, alert_id
from rpcaccel.controlplane.alerts.mutes import Mute
from rpcaccel.controlplane.alerts.receiver import (
    FAILING_TRIES,
    MAX_BACKOFF_SECONDS,
    PACE_SECONDS,
    AlertNews,
    Delivered,
    Receiver,
)
from rpcaccel.controlplane.stats.snapshot import Notice

OK = Delivered(webhook="ops", ok=True, status=200)
FAILED = Delivered(webhook="ops", ok=False, status=503, error="HTTP 503")
MUTE = Mute(what="all", until=1e9, by="ann", at=0.0)


class Told:
    """A receiver, a clock and what it took: (id, firing or resolved)."""

    def __init__(self, **settings: Any) -> None:
        self.receiver = Receiver("ops", _settings(**settings))
        self.now = 1000.0
        self.taken: list[tuple[str, str]] = []
        self.tries: list[float] = []
        self._rng = Random(1)

    def look(self, *firing: str, outcome: Delivered = OK, muted: Sequence[str] = (), after: float = 1.0) -> int:
        """Let time pass and look at the alerts of these names ("a!" is a bad one); returns how many news were sent."""
        self.now += after
        return self.send({one.id: one for one in (_alert(name, muted) for name in firing)}, outcome)

    def send(self, alerts: dict[str, Alert], outcome: Delivered = OK) -> int:
        news = self.news(alerts)
        if news:
            self.sent(news, outcome)
        return len(news)

    def news(self, alerts: dict[str, Alert]) -> list[AlertNews]:
        return self.receiver.news(alerts, self.now, self.now)

    def sent(self, news: list[AlertNews], outcome: Delivered = OK) -> None:
        self.tries.append(self.now)
        self.receiver.done(news, outcome, self.now, self.now, self._rng)
        if outcome.ok:
            self.taken += [(one.alert.id, one.status) for one in news]


def _settings(**settings: Any) -> WebhookSettings:
    return WebhookSettings.model_validate({"url": "https://hooks.example/S3cret", "repeat": 0, **settings})


def _alert(name: str, muted: Sequence[str] = (), network: str | None = None) -> Alert:
    level: Literal["warn", "bad"] = "bad" if name.endswith("!") else "warn"
    id = name.strip("!")
    mute = MUTE if id in muted else None
    return Alert(id=id, state="firing", level=level, subject=name, network=network, text=name, since=0.0, muted=mute)


def test_an_alert_is_told_once_when_it_begins_and_once_when_it_is_over() -> None:
    told = Told()
    for _ in range(100):
        told.look("a")
    for _ in range(100):
        told.look()
    assert told.taken == [("a", "firing"), ("a", "resolved")]
    assert told.receiver.now.sent == {"ok": 2, "failed": 0}


def test_alerts_of_one_moment_go_in_one_message_and_later_ones_wait_for_the_pace() -> None:
    told = Told()
    assert told.look("a", "b", "c") == 3
    assert [told.look("a", "b", "c", name, after=1) for name in "defg"] == [0, 0, 0, 0]
    assert told.look("a", "b", "c", "d", "e", "f", after=PACE_SECONDS) == len("def")


def test_ends_are_not_told_where_nobody_wants_them() -> None:
    told = Told(resolved=False)
    told.look("a")
    assert told.look(after=60) == 0
    assert told.look("a", after=60) == 1


def test_what_becomes_worse_is_told_again_and_what_becomes_better_is_not() -> None:
    told = Told()
    told.look("a")
    assert told.look("a!", after=60) == 1
    assert told.look("a", after=60) == 0
    assert told.look("a!", after=60) == 0
    assert told.taken == [("a", "firing"), ("a", "firing")]


def test_what_lasts_is_told_again_after_the_time_for_it() -> None:
    told = Told(repeat=3600)
    told.look("a")
    assert [told.look("a", after=600) for _ in range(5)] == [0] * 5
    told.now += 600
    assert [(one.alert.id, one.reminder) for one in told.news({"a": _alert("a")})] == [("a", True)]


def test_a_webhook_is_told_of_its_level_and_networks_and_never_of_its_own_failures() -> None:
    told = Told(least="bad", networks=["s0"])
    alerts = [_alert("a!", network="s0"), _alert("b!"), _alert("c!", network="s1"), _alert("d", network="s0")]
    own = Alert(id=alert_id(told.receiver.notice), state="firing", level="bad", subject="alerts", text="x", since=0.0)
    assert [one.alert.id for one in told.news({one.id: one for one in (*alerts, own)})] == ["a", "b"]


def test_what_the_settings_leave_out_now_is_over_without_a_word() -> None:
    told = Told()
    told.look("a", "b!")
    told.receiver.adopt(_settings(least="bad"), told.now)
    assert told.look("a", "b!", after=60) == 0
    assert told.look(after=60) == 1
    assert told.taken[2:] == [("b", "resolved")]
    assert told.receiver.now.least == "bad"


def test_after_an_outage_of_the_receiver_it_gets_one_message_about_what_is_so_then() -> None:
    told = Told()
    told.look("a", "passing")
    for number in range(600):
        told.look("b", f"passing {number // 60}", outcome=FAILED)
    assert sum(bool(told.look("b", "c")) for _ in range(400)) == 1
    assert told.taken[2:] == [("b", "firing"), ("c", "firing"), ("a", "resolved"), ("passing", "resolved")]


def test_tries_come_ever_more_seldom_and_no_sooner_than_the_receiver_asks() -> None:
    told = Told()
    for _ in range(3500):
        told.look("a", outcome=FAILED)
    gaps = [later - earlier for earlier, later in pairwise(told.tries)]
    assert gaps[0] <= 3
    assert all(150 <= gap <= MAX_BACKOFF_SECONDS + 1 for gap in gaps[-5:])
    assert len(told.tries) < 30
    told = Told()
    told.look("a", outcome=Delivered(webhook="ops", ok=False, status=429, error="HTTP 429", retry_after=120))
    assert told.receiver.now.next_try == told.now + 120
    assert [told.look("a", after=60), told.look("a", after=59), told.look("a", after=1)] == [0, 0, 1]


def test_a_webhook_is_failing_after_some_tries_and_well_with_the_next_message_that_is_taken() -> None:
    told = Told()
    states = [told.receiver.now.state]
    for outcome in (*[FAILED] * FAILING_TRIES, OK):
        told.look("a", outcome=outcome, after=MAX_BACKOFF_SECONDS)
        states.append(told.receiver.now.state)
    assert states == ["untried", "retrying", "retrying", "failing", "well"]
    assert (told.receiver.now.error, told.receiver.now.next_try, told.receiver.now.taken_at) == ("", None, told.now)


def test_a_failure_to_tell_what_is_over_is_over_as_well() -> None:
    told = Told()
    for _ in range(FAILING_TRIES):
        told.look("a", outcome=FAILED, after=MAX_BACKOFF_SECONDS)
    assert told.receiver.now.state == "failing"
    told.look()
    assert (told.receiver.now.state, told.receiver.now.error, told.receiver.now.next_try) == ("untried", "", None)


def test_a_test_that_is_taken_and_other_settings_end_the_wait_for_the_next_try() -> None:
    told = Told()
    test = [AlertNews(alert=_alert("test"), status="test")]
    told.look("a", outcome=FAILED)
    told.sent(test, FAILED)
    assert told.receiver.now.sent == {"ok": 0, "failed": 1}
    assert told.look("a", outcome=FAILED, after=0) == 0
    told.sent(test)
    assert told.receiver.now.state == "well"
    assert told.look("a", outcome=FAILED, after=PACE_SECONDS) == 1
    told.receiver.adopt(_settings(timeout=5), told.now)
    assert told.look("a", after=0) == 1


def test_a_muted_alert_is_told_once_the_mute_is_over_if_it_still_lasts() -> None:
    told = Told(repeat=60)
    assert [told.look("a", muted=["a"], after=60) for _ in range(10)] == [0] * 10
    assert told.look("a") == 1
    assert [told.look("a", muted=["a"], after=60) for _ in range(10)] == [0] * 10


def test_of_a_muted_alert_the_end_is_told_where_the_beginning_was() -> None:
    told = Told()
    told.look("a")
    assert told.look("a", "b", muted=["a", "b"], after=60) == 0
    assert told.look(after=60) == 1
    assert told.taken == [("a", "firing"), ("a", "resolved")]


def test_what_begins_again_while_its_end_is_on_its_way_is_told_as_new() -> None:
    told = Told()
    told.look("a")
    told.now += 60
    news = told.news({})
    told.news({"a": _alert("a")})
    told.sent(news)
    assert told.look("a", after=PACE_SECONDS) == 1
    assert told.taken == [("a", "firing"), ("a", "resolved"), ("a", "firing")]


def test_an_end_is_told_with_the_time_at_which_it_was_seen() -> None:
    told = Told()
    told.look("a")
    told.look(outcome=FAILED, after=60)
    ended = told.now
    told.now += 600
    assert [one.ended for one in told.news({})] == [ended]


AFTER = 5
LOOKS = st.lists(
    st.tuples(st.sets(st.sampled_from("abc")), st.integers(1, 12), st.sampled_from([OK, OK, FAILED])), max_size=40
)


def lasted(looks: Sequence[set[str]], name: str) -> int:
    """How often something lasted AFTER seconds, with ends that lasted as long between."""
    on, episodes, turning = False, 0, None
    for second, seen in enumerate(looks):
        if (name in seen) == on:
            turning = None
            continue
        turning = second if turning is None else turning
        if second - turning >= AFTER:
            on, turning = not on, None
            episodes += on
    return episodes


@given(LOOKS)
def test_over_any_story_what_lasts_is_told_in_turn_and_messages_keep_their_pace(
    story: list[tuple[set[str], int, Delivered]],
) -> None:
    told, book = Told(), AlertBook()
    seconds = [one for one in story for _ in range(one[1])] + [(set[str](), 1, OK)] * 400
    for seen, _, outcome in seconds:
        told.now += 1
        book.look([Notice("warn", name, name, "k") for name in seen], told.now, told.now, AFTER)
        told.send(book.alerts([], lambda _id, _subject: None), outcome)
    always_taken = all(outcome.ok for _, _, outcome in seconds)
    for name in "abc":
        id = alert_id(Notice("warn", name, name, "k"))
        heard = [what for one, what in told.taken if one == id]
        episodes = lasted([seen for seen, *_ in seconds], name)
        # What began and ended while nobody listened is not told; the last word is that it is over.
        assert heard == ["firing", "resolved"] * (len(heard) // 2)
        assert len(heard) // 2 <= episodes
        assert not always_taken or heard.count("resolved") == episodes
    assert told.receiver.now.sent["ok"] <= 1 + (told.now - 1000) / PACE_SECONDS
