"""The subscriptions of one connection of a client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rpcaccel.core.live.block import LiveBlock, Log, notification_opening, notification_rest
from rpcaccel.core.live.block import removed as as_removed
from rpcaccel.core.live.subscription import Topic
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
        self._held: dict[str, LiveSubscription] = {}

    def __repr__(self) -> str:
        return f"<session of {self.count} subscriptions>"

    @property
    def count(self) -> int:
        """The number of subscriptions."""
        return len(self._held)

    def turn(self) -> MessageTurn:
        """A turn for one message of the client, which may hold several calls."""
        return MessageTurn(self)

    def hold(self, subscription: LiveSubscription) -> None:
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
        self._new: list[LiveSubscription] = []

    def add(self, subscription: LiveSubscription) -> None:
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


class Feed(Protocol):
    """What feeds a subscription: its network."""

    cell: NetworkCell

    def begin(self, subscription: LiveSubscription) -> None:
        """Send what the subscription wants from now on: the answer to its subscribe is written."""
        ...

    def joined(self, subscription: LiveSubscription) -> None:
        """Note that a subscription gets what comes from now on."""
        ...

    def ended(self, subscription: LiveSubscription) -> None:
        """Forget a subscription that has ended."""
        ...


class LiveSubscription:
    """One subscription of one client."""

    __slots__ = ("_feed", "_opening", "id", "number", "open", "session", "topic")

    def __init__(self, subscription_id: str, topic: Topic, session: LiveSession, feed: Feed) -> None:
        self.id = subscription_id
        self.topic = topic
        self.session = session
        self.open = True
        """Has the client neither unsubscribed nor left?"""
        self.number = 0
        """The place in the order in which subscriptions joined the topics of the network; 0 before that."""
        self._feed = feed
        self._opening = notification_opening(topic.namespace, subscription_id)

    def __repr__(self) -> str:
        return f"<subscription {self.id} to {self.topic.kind}>"

    @property
    def unread(self) -> int:
        """Bytes that the client has not taken yet."""
        return self.session.sink.unread

    def begin(self) -> None:
        """Begin: the answer to the subscribe is written."""
        self._feed.begin(self)

    def join(self, number: int) -> None:
        """Be sent what comes from now on, as the subscription of this number that joined."""
        self.number = number
        self._feed.joined(self)

    def end(self) -> None:
        """End: from now on the client is sent nothing more of it."""
        if self.open:
            self.open = False
            self._feed.ended(self)

    def send(self, text: bytes) -> bool:
        """Send a notification, given as all but its opening. False when the subscription has ended."""
        if not self.open:
            return False
        if self.session.sink.notify(self._opening, text):
            return True
        self.session.close()
        return False

    def head(self, block: LiveBlock) -> bool:
        """Send a head to this client alone. False when the subscription has ended."""
        sent = self.send(notification_rest(block.header))
        count_delivered(self._feed.cell, self.topic.kind, sent)
        return sent

    def logs(self, logs: Sequence[Log], *, removed: bool = False) -> bool:
        """Send those logs of a block that match the filter to this client alone. False when the subscription has
        ended."""
        wanted, sent = self.topic.filter, 0
        for log in logs:
            if wanted is None or wanted.matches(log):
                sent += self.send(log_text(log, removed=removed))
        count_delivered(self._feed.cell, self.topic.kind, sent)
        return self.open


def log_text(log: Log, *, removed: bool = False) -> bytes:
    """The notification of a log, all but its opening; `removed`: its block was abandoned."""
    return notification_rest(as_removed(log.text) if removed else log.text)


def count_delivered(cell: NetworkCell, kind: str, sent: int) -> None:
    """Count so many notifications of a kind that were sent."""
    if sent:
        cell.delivered[kind] = cell.delivered.get(kind, 0) + sent
