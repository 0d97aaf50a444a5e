"""What a webhook is told, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.controlplane.alerts.alert_book import Alert, AlertBook
from rpcaccel.controlplane.alerts.delivery import GIVE_UP, PACE, AlertMessage, Delivered, Delivery, End
from rpcaccel.controlplane.stats.snapshot import Notice

OK, AGAIN, REFUSED = Delivered("ok"), Delivered("again", "HTTP 503"), Delivered("refused", "HTTP 404")
NEVER = 0.0


class Told:
    """A delivery, a clock and what the receiver took: (id, firing or resolved)."""

    def __init__(self, repeat: float = NEVER, resolved: bool = True) -> None:
        self.delivery = Delivery()
        self.now = 1000.0
        self.taken: list[tuple[str, str]] = []
        self.tries: list[float] = []
        self.repeat, self.resolved = repeat, resolved
        self._rng = Random(1)

    def look(self, *firing: str, outcome: Delivered = OK, silenced: Sequence[str] = (), after: float = 1.0) -> int:
        """Let time pass and look at the alerts of these names ("a!" is a bad one); returns how many news were sent."""
        self.now += after
        alerts = {one.strip("!"): _alert(one, self.now) for one in firing}
        self.delivery.see(alerts, frozenset(silenced), self.now, resolved=self.resolved)
        return self.send(outcome)

    def send(self, outcome: Delivered = OK) -> int:
        message = self.delivery.message(self.now, self.repeat)
        if message is None:
            return 0
        self.sent(message, outcome)
        return len(message.news)

    def sent(self, message: AlertMessage, outcome: Delivered) -> None:
        self.tries.append(self.now)
        self.delivery.done(message, outcome, self.now, self._rng)
        if outcome.end == "ok":
            self.taken += [(one.alert.id, "resolved" if one.alert.ended else "firing") for one in message.news]


def _alert(name: str, since: float) -> Alert:
    level: Literal["warn", "bad"] = "bad" if name.endswith("!") else "warn"
    return Alert(id=name.strip("!"), level=level, subject=name, kind="", text=name, since=since)


def test_an_alert_is_told_once_when_it_begins_and_once_when_it_is_over() -> None:
    told = Told()
    for _ in range(100):
        told.look("a")
    for _ in range(100):
        told.look()
    assert told.taken == [("a", "firing"), ("a", "resolved")]
    assert told.delivery.sent == {"ok": 2, "retried": 0, "lost": 0}


def test_alerts_of_one_moment_go_in_one_message_and_later_ones_wait_for_the_pace() -> None:
    told = Told()
    assert told.look("a", "b", "c") == 3
    assert [told.look("a", "b", "c", name, after=1) for name in "defg"] == [0, 0, 0, 0]
    assert told.look("a", "b", "c", "d", "e", "f", after=PACE) == len("def") + len("g")


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


def test_what_lasts_is_told_again_after_the_time_for_it_together_with_what_is_nearly_due() -> None:
    told = Told(repeat=3600)
    told.look("a")
    told.look("a", "b", after=60)
    assert [told.look("a", "b", after=600) for _ in range(5)] == [0] * 5
    message = told.delivery.message(told.now + 600, told.repeat)
    assert message is not None
    assert [(one.alert.id, one.reminder) for one in message.news] == [("a", True), ("b", True)]


def test_after_an_outage_of_the_receiver_it_gets_one_message_about_what_is_so_then() -> None:
    told = Told()
    for number in range(600):
        told.look("a", f"passing {number // 60}", outcome=AGAIN)
    assert told.taken == []
    sent = 0
    for _ in range(400):
        sent += bool(told.look("a", "b"))
    assert sent == 1
    assert Counter(what for _, what in told.taken) == {"firing": 2, "resolved": 10}


def test_tries_come_ever_more_seldom_and_no_sooner_than_the_receiver_asks() -> None:
    told = Told()
    for _ in range(3500):
        told.look("a", outcome=AGAIN)
    gaps = [later - earlier for earlier, later in pairwise(told.tries)]
    assert gaps[0] <= 3
    assert all(150 <= gap <= 301 for gap in gaps[-5:])
    assert len(told.tries) < 30
    told = Told()
    told.look("a", outcome=Delivered("again", "HTTP 429", retry_after=120))
    assert [told.look("a", after=60), told.look("a", after=59), told.look("a", after=1)] == [0, 0, 1]


def test_what_could_not_be_told_within_the_bound_is_lost_and_goes_with_the_next_news() -> None:
    told = Told()
    while not told.delivery.sent["lost"]:
        told.look("a", outcome=AGAIN)
    assert told.now - 1000 < GIVE_UP + 310
    assert told.delivery.broken
    assert [told.look("a", after=600) for _ in range(20)] == [0] * 20
    assert told.look("a", "b") == 2
    assert not told.delivery.broken


def test_a_refusal_is_not_tried_again_until_something_has_changed() -> None:
    told = Told()
    assert told.look("a", outcome=REFUSED) == 1
    assert told.delivery.broken
    assert [told.look("a", after=600) for _ in range(20)] == [0] * 20
    told.delivery.hope(OK, told.now)
    assert told.look("a") == 1
    assert told.delivery.sent == {"ok": 1, "retried": 0, "lost": 1}


def test_a_lost_alert_is_told_when_it_becomes_worse_and_is_over_without_a_word_where_nobody_heard_of_it() -> None:
    told = Told()
    told.look("a", outcome=REFUSED)
    assert told.look("a!", after=60, outcome=REFUSED) == 1
    assert told.look(after=60) == 0
    assert told.taken == []


def test_the_end_of_an_alert_is_told_also_after_a_reminder_was_lost() -> None:
    told = Told(repeat=600)
    told.look("a")
    assert told.look("a", after=601, outcome=REFUSED) == 1
    assert told.look(after=60) == 1
    assert told.taken == [("a", "firing"), ("a", "resolved")]


def test_a_silenced_alert_is_told_once_the_silence_is_over_if_it_still_lasts() -> None:
    told = Told(repeat=60)
    assert [told.look("a", silenced=["a"], after=60) for _ in range(10)] == [0] * 10
    assert told.look("a") == 1
    assert [told.look("a", silenced=["a"], after=60) for _ in range(10)] == [0] * 10


def test_of_a_silenced_alert_the_end_is_told_where_the_beginning_was() -> None:
    told = Told()
    told.look("a")
    assert told.look("a", "b", silenced=["a", "b"], after=60) == 0
    assert told.look(after=60) == 1
    assert told.taken == [("a", "firing"), ("a", "resolved")]


def test_what_begins_again_while_its_end_is_on_its_way_is_told_as_new() -> None:
    told = Told()
    told.look("a")
    told.now += 60
    told.delivery.see({}, frozenset(), told.now, resolved=True)
    message = told.delivery.message(told.now, NEVER)
    assert message is not None
    told.delivery.see({"a": _alert("a", told.now)}, frozenset(), told.now, resolved=True)
    told.sent(message, OK)
    assert told.look("a", after=PACE) == 1
    assert told.taken == [("a", "firing"), ("a", "resolved"), ("a", "firing")]


def test_what_the_settings_leave_out_is_forgotten_without_a_word() -> None:
    told = Told()
    told.look("a")
    told.delivery.forget(["a", "unknown"])
    assert told.look(after=60) == 0


def test_what_began_again_and_ended_while_an_end_was_on_its_way_is_not_passed_over() -> None:
    told = Told()
    told.look("a")
    told.now += 60
    told.delivery.see({}, frozenset(), told.now, resolved=True)
    message = told.delivery.message(told.now, NEVER)
    assert message is not None
    told.delivery.see({"a": _alert("a", told.now)}, frozenset(), told.now, resolved=True)
    told.delivery.see({}, frozenset(), told.now + 1, resolved=True)
    told.sent(message, OK)
    assert told.look(after=60) == 1
    assert told.taken == [("a", "firing"), ("a", "resolved"), ("a", "resolved")]


AFTER = 5
LOOKS = st.lists(
    st.tuples(
        st.sets(st.sampled_from("abc")),
        st.integers(1, 12),
        st.sampled_from(["ok", "ok", "again"]),
        st.floats(0, 40),
    ),
    max_size=40,
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
def test_over_any_story_each_alert_that_lasted_is_told_in_turn_and_messages_keep_their_pace(
    story: list[tuple[set[str], int, End, float]],
) -> None:
    told, book = Told(), AlertBook()
    seconds = [one for one in story for _ in range(one[1])] + [(set[str](), 1, "ok", 0.0)] * 400
    ends: list[Delivered] = [Delivered(end, "" if end == "ok" else "no", retry_after=w) for _, _, end, w in seconds]
    for (seen, *_), outcome in zip(seconds, ends, strict=True):
        told.now += 1
        book.look([Notice("warn", name, name, "k") for name in seen], told.now, AFTER)
        told.delivery.see(book.firing(), frozenset(), told.now, resolved=True)
        told.send(outcome)
    ids = {name: id for name in "abc" for id in [_id(name)]}
    for name, id in ids.items():
        heard = [what for one, what in told.taken if one == id]
        episodes = lasted([seen for seen, *_ in seconds], name)
        # What began, ended and began again while nobody listened is one story; none is told twice, and the last word
        # is that it is over.
        assert heard.count("resolved") <= episodes
        assert bool(heard) == bool(episodes)
        assert not episodes or heard[-1] == "resolved"
        assert all(pair != ("firing", "firing") for pair in pairwise(heard))
        if all(outcome.end == "ok" for outcome in ends):
            assert heard.count("resolved") == episodes
    assert all(later - earlier >= 1 for earlier, later in pairwise(told.tries))
    assert told.delivery.sent["ok"] <= 1 + (told.now - 1000) / PACE


def _id(name: str) -> str:
    book = AlertBook()
    book.look([Notice("warn", name, name, "k")], 0, 0)
    return next(iter(book.firing()))
