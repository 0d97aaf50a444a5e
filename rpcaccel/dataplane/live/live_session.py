"""The subscriptions of one connection of a client."""

from __future__ import annotations

from typing import Protocol


class Sink(Protocol):
    """The connection of a client, as its subscriptions write to it."""

    def notify(self, *parts: bytes) -> bool:
        """Send one message, given in parts. False when the connection is closed, or is closed now because its client
        left too much unread. Never raises."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Close the connection with a close code (RFC 6455 section 7.4.1) and a reason of at most 123 bytes."""
        ...


class LiveSession:
    """The subscriptions of one connection. `most`: how many there may be."""

    def __init__(self, sink: Sink, most: int) -> None:
        self.sink = sink
        self.most = most

    @property
    def count(self) -> int:
        """The number of subscriptions."""
        return 0

    def turn(self) -> MessageTurn:
        """A turn for one message of the client, which may hold several calls."""
        return MessageTurn(self)

    def close(self) -> None:
        """End all subscriptions: the connection is closed."""


class MessageTurn:
    """One message of a client. What it subscribes to begins once its answer is written, so that no notification comes
    before the answer."""

    __slots__ = ("session",)

    def __init__(self, session: LiveSession) -> None:
        self.session = session

    def settle(self) -> None:
        """Begin the subscriptions: the answer to the message is written."""
