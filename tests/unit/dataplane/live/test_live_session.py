"""What a message subscribes to begins with its answer, or ends when the message is refused."""

from __future__ import annotations

from typing import cast

from rpcaccel.dataplane.live.live_session import LiveSession, MessageTurn, Sink


class NotedHeld:
    def __init__(self, name: str) -> None:
        self.id = name
        self.open = True
        self.begun = False

    def begin(self) -> None:
        self.begun = True

    def end(self) -> None:
        self.open = False


def held(turn: MessageTurn, name: str) -> NotedHeld:
    made = NotedHeld(name)
    turn.add(made)
    return made


def test_what_a_refused_message_subscribed_to_ends_and_the_rest_stays() -> None:
    session = LiveSession(cast(Sink, None), 10)
    first, second = session.turn(), session.turn()
    kept, dropped = held(first, "0x1"), held(second, "0x2")
    first.settle()
    second.drop()
    second.settle()
    assert (kept.open, kept.begun) == (True, True)
    assert (dropped.open, dropped.begun) == (False, False)
    assert session.count == 1
