"""Who subscribes to what on one network, and the delivery of notifications to all of them.

What many clients are sent alike is written once. A delivery gives the loop a turn again and again, so that calls are
answered beside it; it sends to those who were there when it began, and the next one waits for it.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence

from rpcaccel.core.live import log_filter
from rpcaccel.core.live.block import LiveBlock, Log, notification_rest
from rpcaccel.core.live.log_filter import FilterIndex, LogFilter
from rpcaccel.core.live.subscription import HEADS, LOGS, PENDING
from rpcaccel.core.stats.counters import CutReason, NetworkCell
from rpcaccel.core.stats.histogram import BOUNDS
from rpcaccel.dataplane.event_loop import TURN_SECONDS
from rpcaccel.dataplane.live.live_session import LiveSubscription, count_delivered, cut, log_text

WHOLE = f"whole {PENDING}"
"""The key of subscriptions to whole pending transactions."""
_LOOK_EVERY = 8
"""Notifications between two looks at the clock. A power of 2."""
_FEW = 100
"""Filters whose union is made anew at once when one of them goes."""


_Pairs = Iterable[tuple[LiveSubscription | None, bytes]]
"""Subscriptions, each with the notification for it; None where the search for them took a step."""


class Topics:
    """The topics of one network of a worker. `cell`: the counters of the network."""

    def __init__(self, cell: NetworkCell, clock: Callable[[], float]) -> None:
        self._cell = cell
        self._clock = clock
        self.joined = 0
        """How many subscriptions have ever joined."""
        self._plain: dict[str, dict[LiveSubscription, None]] = {}
        """The subscriptions to everything but logs, by kind; those to whole pending transactions under WHOLE."""
        self._logs: dict[LogFilter, dict[LiveSubscription, None]] = {}
        self._index = FilterIndex()
        self._union: LogFilter | None = None
        self._left = 0
        """Filters that have gone since the union was made."""
        self._turns: dict[str, asyncio.Lock] = {}
        """By kind: deliveries of one kind follow one another."""

    def __repr__(self) -> str:
        return f"<topics of {self._cell.network}: {len(self._plain)} kinds, {len(self._logs)} filters of logs>"

    @property
    def heads_wanted(self) -> bool:
        """Does anybody subscribe to new heads?"""
        return HEADS in self._plain

    @property
    def pending_wanted(self) -> bool:
        """Does anybody subscribe to pending transactions?"""
        return PENDING in self._plain or WHOLE in self._plain

    @property
    def whole_wanted(self) -> bool:
        """Does anybody subscribe to whole pending transactions?"""
        return WHOLE in self._plain

    @property
    def logs_wanted(self) -> LogFilter | None:
        """A filter that matches everything that the topics of logs match, and perhaps more; None: there are none."""
        if self._left and (len(self._logs) <= _FEW or self._left > len(self._logs)):
            self._left = 0
            self._union = log_filter.union(list(self._logs)) if self._logs else None
        return self._union

    def add(self, subscription: LiveSubscription) -> None:
        """Let a subscription join: every delivery that begins from now on is for it as well."""
        self.joined += 1
        subscription.join(self.joined)
        wanted = subscription.topic.filter
        if wanted is None:
            self._plain.setdefault(_plain_kind(subscription), {})[subscription] = None
        elif wanted in self._logs:
            self._logs[wanted][subscription] = None
        else:
            self._logs[wanted] = {subscription: None}
            self._index.add(wanted)
            union = self._union
            if union is None:
                self._union = wanted
            elif not log_filter.covers(union, wanted):
                self._union = log_filter.union([union, wanted])
        self._count_topics()

    def remove(self, subscription: LiveSubscription) -> None:
        """Remove a subscription. One that has not joined is none of them."""
        wanted, kind = subscription.topic.filter, _plain_kind(subscription)
        held = self._plain.get(kind) if wanted is None else self._logs.get(wanted)
        if held is None or subscription not in held:
            return
        del held[subscription]
        if not held and wanted is None:
            del self._plain[kind]
        elif not held and wanted is not None:
            del self._logs[wanted]
            self._index.remove(wanted)
            self._left += 1
        self._count_topics()

    async def heads(self, block: LiveBlock, since: float) -> None:
        """Send a new head. `since`: when it became the served head (monotonic seconds)."""
        text = notification_rest(block.header)
        await self._deliver(HEADS, ((one, text) for one in self._of(HEADS)), since)

    async def logs(
        self, logs: Sequence[Log], since: float, *, removed: bool = False, joined: int | None = None
    ) -> None:
        """Send all logs of one block, in their order, to those whose filters match; `since` as for heads. `joined`:
        only to the first so many that ever joined."""
        if self._logs:
            await self._deliver(LOGS, self._matched(logs, removed=removed), since, joined)

    async def pending(self, hashes: Sequence[bytes]) -> None:
        """Send pending transactions, given by their hashes (raw JSON texts)."""
        pairs = ((one, notification_rest(text)) for text in hashes for one in self._of(PENDING))
        await self._deliver(PENDING, pairs, None)

    async def whole_pending(self, transactions: Sequence[bytes]) -> None:
        """Send pending transactions to those who want them whole (raw JSON texts)."""
        pairs = ((one, notification_rest(text)) for text in transactions for one in self._of(WHOLE))
        await self._deliver(PENDING, pairs, None)

    def cut(self, kind: str, reason: CutReason, words: str) -> None:
        """Close every connection that has a subscription of this kind, so that the client comes back, and count them by
        reason; `words`: what the client is told, at most 123 bytes."""
        for one in self._of(kind):
            cut(one.session, self._cell, reason, words)

    def _of(self, kind: str) -> list[LiveSubscription]:
        """The subscriptions of a kind at this moment."""
        if kind == LOGS:
            return [one for held in self._logs.values() for one in held]
        return list(self._plain.get(kind, ()))

    def _matched(self, logs: Sequence[Log], *, removed: bool) -> Iterator[tuple[LiveSubscription | None, bytes]]:
        for log in logs:
            yield None, b""
            text = b""
            for wanted in self._index.find(log):
                if wanted is None:
                    yield None, b""
                    continue
                text = text or log_text(log, removed=removed)
                for one in list(self._logs.get(wanted, ())):
                    yield one, text

    async def _deliver(self, kind: str, pairs: _Pairs, since: float | None, joined: int | None = None) -> None:
        """Send notifications to the subscriptions that have joined by now, in turns of the loop."""
        joined = self.joined if joined is None else joined
        async with self._turns.setdefault(kind, asyncio.Lock()):
            sent, turn_ends = 0, self._clock() + TURN_SECONDS
            for steps, (one, text) in enumerate(pairs, 1):
                if one is not None and one.number <= joined:
                    sent += one.send(text)
                if not steps % _LOOK_EVERY and (now := self._clock()) >= turn_ends:
                    self._note(kind, sent, since, now)
                    await asyncio.sleep(0)
                    sent, turn_ends = 0, self._clock() + TURN_SECONDS
            self._note(kind, sent, since, self._clock())

    def _note(self, kind: str, sent: int, since: float | None, now: float) -> None:
        """Count what was sent in one turn of the loop, all as late as the last of it."""
        count_delivered(self._cell, kind, sent)
        if since is not None and sent:
            late = max(0.0, now - since)
            self._cell.lateness.counts[bisect_left(BOUNDS, late)] += sent
            self._cell.lateness.seconds += late * sent

    def _count_topics(self) -> None:
        self._cell.topics = len(self._plain) + len(self._logs)


def _plain_kind(subscription: LiveSubscription) -> str:
    return WHOLE if subscription.topic.full else subscription.topic.kind
