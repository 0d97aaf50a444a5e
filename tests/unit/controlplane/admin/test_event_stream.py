"""What the stream is told each second."""

from __future__ import annotations

from msgspec.structs import replace

from rpcaccel.controlplane.admin.event_stream import LiveEvents
from rpcaccel.controlplane.stats.events import Event, Subscription
from rpcaccel.controlplane.stats.history import History
from tests.support.sample_control import SampleControl
from tests.support.sample_view import SampleView


def heard(place: Subscription) -> list[Event]:
    found = []
    while not place.queue.empty():
        event = place.queue.get_nowait()
        assert event is not None
        found.append(event)
    return found


def test_a_reader_gets_the_figures_of_the_second() -> None:
    control, view, history = SampleControl(), SampleView(), History()
    news, place = LiveEvents(control), control.events.subscribe()
    history.add(view.snapshot(), 0.0, 100.0)
    news.tell(view.frame(), history, 100.0)
    view.advance(1.0)
    history.add(view.snapshot(), 1.0, 101.0)
    news.tell(view.frame(), history, 101.0)
    first, second = heard(place)
    assert (first.kind, first.number, first.data["point"]) == ("stats", 0, None)
    assert second.data["point"]["calls_per_second"] > 0
    assert (second.data["revision"], second.data["adopted"], second.data["workers"]) == (1, 1, 1)
    assert second.data["networks"][0].network == "harmony-s0"
    assert view.secret not in str(second.data)


def test_a_node_that_changes_its_state_is_told_once_and_kept_for_who_comes_later() -> None:
    control, view, history = SampleControl(), SampleView(), History()
    news = LiveEvents(control)
    history.add(view.snapshot(), 0.0, 0.0)
    news.tell(view.frame(), history, 0.0)
    view.node_list[1] = replace(view.node_list[1], state="failing", why="it does not answer")
    news.tell(view.frame(), history, 1.0)
    news.tell(view.frame(), history, 2.0)
    (event,) = control.events.subscribe(f"{control.events.run}-0").missed
    assert event.data == {
        "network": "harmony-s0",
        "id": "b",
        "state": "failing",
        "was": "serving",
        "why": "it does not answer",
        "at": 1.0,
    }
    assert "3 nodes" in repr(news)
