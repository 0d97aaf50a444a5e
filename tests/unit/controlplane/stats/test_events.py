"""The stream of events: nothing is missed by one who subscribes first, and it is said when something was."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from rpcaccel.controlplane.stats.events import MAX_KEPT_EVENTS, MAX_UNREAD_EVENTS, Events, Subscription


def numbers(place: Subscription) -> list[int]:
    return [event.number for event in place.missed]


def parsed(frame: bytes) -> tuple[str, str, Any]:
    """(id, event, data) of a frame."""
    fields = dict(line.split(": ", 1) for line in frame.decode().strip().splitlines())
    return fields.get("id", ""), fields["event"], orjson.loads(fields["data"])


def test_who_comes_back_gets_what_was_missed() -> None:
    events = Events("run")
    for number in range(5):
        events.tell("node", {"n": number})
    events.tell("stats", {}, keep=False)
    assert numbers(events.subscribe("run-3")) == [4, 5]
    assert events.subscribe("run-3").complete
    assert numbers(events.subscribe("run-5")) == []
    assert numbers(events.subscribe()) == []


def test_a_gap_is_said() -> None:
    events = Events("run")
    for number in range(MAX_KEPT_EVENTS + 5):
        events.tell("node", {"n": number})
    assert not events.subscribe("run-2").complete
    assert events.subscribe("run-5").complete
    for unknown in ("other-3", "run-x", "run-", "run-99999", "3", "run--1", "run-²"):
        assert not events.subscribe(unknown).complete, unknown


async def test_the_stream_greets_replays_and_goes_on() -> None:
    events = Events("run")
    events.tell("node", {"n": 1})
    events.tell("node", {"n": 2})
    place = events.subscribe("run-1")
    events.tell("settings", {"n": 3})
    events.tell("stats", {"n": 4}, keep=False)
    events.close()
    frames = [parsed(frame) async for frame in events.frames(place, {"revision": 9})]
    assert frames == [
        ("", "hello", {"run": "run", "last": 3, "complete": True, "revision": 9}),
        ("run-2", "node", {"n": 2}),
        ("run-3", "settings", {"n": 3}),
        ("", "stats", {"n": 4}),
    ]
    assert events.readers == 0


async def test_a_quiet_stream_shows_that_it_is_alive() -> None:
    events = Events("run", quiet=0.01)
    stream = events.frames(events.subscribe(), {})
    assert parsed(await anext(stream))[1] == "hello"
    assert await anext(stream) == b": still here\n\n"
    events.tell("node", {})
    assert (await anext(stream)).startswith(b"id: run-1\n")
    await stream.aclose()


async def test_a_reader_that_is_far_behind_is_cut_off_and_comes_back_for_the_rest() -> None:
    events = Events("run")
    place = events.subscribe()
    for number in range(MAX_UNREAD_EVENTS + 1):
        events.tell("node", {"n": number})
    assert events.readers == 0
    async with asyncio.timeout(20):
        told = [parsed(frame) async for frame in events.frames(place, {})]
    assert told[-1][0] == f"run-{MAX_UNREAD_EVENTS}"
    assert numbers(events.subscribe(told[-1][0])) == [MAX_UNREAD_EVENTS + 1]


def test_a_reader_that_leaves_is_forgotten() -> None:
    events = Events()
    place = events.subscribe()
    assert repr(events) == f"<Events {events.run}-0, 1 readers>"
    events.leave(place)
    assert events.readers == 0
