"""When waiting calls travel to a node as one batch, and how many at a time.

Calls go one by one, each on its own connection, until the node is asked so often that the asking itself is the cost;
what comes in one moment, or waits, travels together then. A Harmony node carries a batch out one call after the other
(docs/harmony.md section 1), so a batch is kept so short that it takes little longer than a single call: the length is
learnt.
"""

from __future__ import annotations

SINGLES_PER_SECOND = 2000.0
"""Requests a second to one node from which on calls are gathered. By Little's law it allows latency times this many at
once, so a distant node, whose calls take long without any queue, is not gathered for. The latency that counts is that
of the quicker calls: the average grows with our own queue, and by it the busiest worker would gather least."""
FEWEST_SLOTS = 4
MOST_ITEMS = 64
MOST_BYTES = 64 * 1024
"""Bytes of params in one batch."""
_FIRST_ITEMS = 4
_SLOWER = 2.0
"""A batch may take this many times as long as a single call, or _SPARE seconds longer where that is more."""
_SPARE = 0.002
_TURNS = 8
"""Turns of our own loop that a batch may wait for, on its way out and back: they say nothing of the node."""
_FORGETS = 0.005
"""Share of the way from the quickest call to each slower one that is gone: a node that became slower is seen to be so
after some hundred calls."""
_SLOW_TWOS = 8
"""Batches of two that must be slow in a row: one may be so by chance, or because this process was busy."""
_BUSY_FROM = 500.0
"""Calls a second to one node from which on those of one moment travel together though there is a slot for each."""
_BUSY, _BUSIEST = 100.0, 200.0
"""Calls beyond that, lately, from which on a node is asked busily, and the most that are remembered: a
twentieth of a second of calm ends it."""
PATIENCE = 0.05
"""Seconds at the least for which a request keeps its slot,"""
_PATIENT = 4.0
"""and times that a single call takes. One that takes longer (a light read that is none, a lost packet) is no sign that
the node is asked often, so that nothing waits for it."""
_SINGLE_EACH = 32
"""Of so many requests one carries a single call, however busy: what batches are held against must not grow old."""
_REST = 300.0
"""Seconds for which a node gets no batches after it answered one badly."""


class Gathering:
    """What is known about one node's batches. `now` is in monotonic seconds."""

    __slots__ = ("_at", "_level", "_rest_until", "_since_single", "items", "proved", "quickest", "single", "slow",
                 "turn")  # fmt: skip

    def __init__(self) -> None:
        self.items = _FIRST_ITEMS
        """Calls in one batch at the most."""
        self.proved = False
        """Did the node answer a batch? Until then, one at a time is tried."""
        self.single = 0.0
        """Seconds a single call takes, a moving average; 0.0 before the first."""
        self.slow = 0
        """Batches of two in a row that were slow."""
        self.quickest = 0.0
        """Seconds that the quicker ones take: what the node and the way to it cost, without any queue."""
        self.turn = 0.0
        """Seconds that a turn of our own loop takes while calls come thick and fast, a moving average."""
        self._rest_until = float("-inf")
        self._level, self._at = 0.0, 0.0
        self._since_single = 0

    def __repr__(self) -> str:
        return f"<gathering up to {self.items}, single {self.single * 1000:.1f} ms>"

    def allowed(self, now: float) -> bool:
        """May the node be sent batches?"""
        return now >= self._rest_until

    def slots(self, most: int) -> int:
        """Requests that may be under way before calls wait to be gathered; `most` is the connector's own limit."""
        return min(most, max(FEWEST_SLOTS, int(self.quickest * SINGLES_PER_SECOND)))

    def patience(self) -> float:
        """Seconds after which a request under way no longer counts against the slots."""
        return max(PATIENCE, self.single * _PATIENT)

    def called(self, now: float) -> bool:
        """A call came. True when they come so often that those of one moment travel together though there is a slot
        for each: the level of a bucket that so many a second run out of."""
        level = self._level - (now - self._at) * _BUSY_FROM
        self._level = level = min(level, _BUSIEST) + 1.0 if level > 0.0 else 1.0
        self._at = now
        return level > _BUSY

    def together(self) -> int:
        """How many calls the next request may carry."""
        self._since_single += 1
        if self._since_single < _SINGLE_EACH:
            return self.items
        self._since_single = 0
        return 1

    def turn_took(self, seconds: float) -> None:
        """So long it took from a call until all that came with it were there."""
        self.turn += (seconds - self.turn) * 0.1

    def single_took(self, seconds: float) -> None:
        """A single call was answered."""
        self._since_single = 0
        if self.single == 0.0:
            self.single = self.quickest = seconds
            return
        self.single += (seconds - self.single) * (0.3 if seconds > self.single else 0.1)
        self.quickest = min(seconds, self.quickest + (seconds - self.quickest) * _FORGETS)

    def batch_took(self, items: int, seconds: float, now: float) -> None:
        """A batch was answered, every item of it. Longer ones are tried while they are full and quick; a slow one
        halves the length, and a node that is slow with two again and again rests."""
        self.proved = True
        bound = max(self.single * _SLOWER, self.single + _SPARE) + self.turn * _TURNS
        if seconds <= bound:
            self.slow = 0
            if items >= self.items:
                self.items = min(MOST_ITEMS, self.items * 2)
        elif items > 2:
            self.items = max(2, items // 2)
        else:
            self.slow += 1
            if self.slow >= _SLOW_TWOS:
                self.refused(now)

    def refused(self, now: float) -> None:
        """The node took no batch, or answered one wrongly."""
        self._rest_until = now + _REST
        self.proved, self.slow = False, 0
        self.items = _FIRST_ITEMS
