"""The subscriptions of one connection of a client."""

from __future__ import annotations

from typing import Protocol

from rpcaccel.core.stats.counters import CutReason, NetworkCell
from rpcaccel.core.wire.websocket_frames import CloseCode


class Sink(Protocol):
    """The connection of a client, as its subscriptions write to it."""

    @property
    def unread(self) -> int:
        """Bytes that were sent and that the client has not taken yet."""
        ...

    def notify(self, *parts: bytes) -> bool:
        """Send one message, given in parts. False when the connection is closed, or is closed now because its client
        left too much unread. Never raises."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Close the connection with a close code (RFC 6455 section 7.4.1) and a reason of at most 123 bytes."""
        ...


class Held(Protocol):
    """A subscription, as its connection holds it (dataplane.live.topics.LiveSubscription)."""

    id: str
    open: bool

    def begin(self) -> None:
        """Begin to send: the answer to the subscribe is written."""
        ...

    def end(self) -> None:
        """End: nothing more is sent."""
        ...


class LiveSession:
    """The subscriptions of one connection."""

    __slots__ = ("_held", "closed", "holder", "most", "queue", "sink")

    def __init__(self, sink: Sink, most: int, holder: str = "", queue: int = 4 << 20) -> None:
        """
        Args:
            most: how many subscriptions there may be.
            holder: the name under which the connections of one client are counted.
            queue: bytes of notifications that the client may leave unread.
        """
        self.sink = sink
        self.most = most
        self.holder = holder
        self.queue = queue
        self.closed = False
        self._held: dict[str, Held] = {}

    def __repr__(self) -> str:
        return f"<session of {self.count} subscriptions>"

    @property
    def count(self) -> int:
        """The number of subscriptions."""
        return len(self._held)

    def turn(self) -> MessageTurn:
        """A turn for one message of the client, which may hold several calls."""
        return MessageTurn(self)

    def hold(self, subscription: Held) -> None:
        """Keep a subscription until it ends. On a connection that is closed already it ends at once."""
        if self.closed:
            subscription.end()
        else:
            self._held[subscription.id] = subscription

    def end(self, subscription_id: str) -> bool:
        """End one subscription; False when the connection has none of this id."""
        found = self._held.pop(subscription_id, None)
        if found is not None:
            found.end()
        return found is not None

    def cut(self, code: int, reason: str) -> bool:
        """Close the connection from our side; False when it is closed already."""
        if self.closed:
            return False
        self.close()
        self.sink.close(code, reason)
        return True

    def close(self) -> None:
        """End all subscriptions: the connection is closed."""
        self.closed = True
        held, self._held = self._held, {}
        for subscription in held.values():
            subscription.end()


def cut(
    session: LiveSession, cell: NetworkCell, reason: CutReason, words: str, code: CloseCode = CloseCode.RESTART
) -> None:
    """Close a connection from our side, and count that for the network whose subscription is the cause.

    Args:
        words: what the client is told, at most 123 bytes.
    """
    if session.cut(code, words):
        cell.was_cut(reason)


class MessageTurn:
    """One message of a client. What it subscribes to begins once its answer is written, so that no notification comes
    before the answer."""

    __slots__ = ("_new", "session")

    def __init__(self, session: LiveSession) -> None:
        self.session = session
        self._new: list[Held] = []

    def add(self, subscription: Held) -> None:
        """Take a subscription that begins with `settle`."""
        self.session.hold(subscription)
        self._new.append(subscription)

    def drop(self) -> None:
        """End the subscriptions: the message was refused after all, and its client has not learnt their ids."""
        new, self._new = self._new, []
        for subscription in new:
            self.session.end(subscription.id)

    def settle(self) -> None:
        """Begin the subscriptions: the answer to the message is written."""
        new, self._new = self._new, []
        for subscription in new:
            if subscription.open:
                subscription.begin()
