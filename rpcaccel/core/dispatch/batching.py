"""Decides when calls for one node are sent as a batch, and how many calls a batch has.

Calls are sent one by one, each on its own connection, until requests are so frequent that the requests themselves are
the cost. Then calls that arrive in one turn of the loop, or that wait, are sent together. A Harmony node executes a
batch one call after the other (docs/harmony.md section 1), so the length of batches is learnt: a batch must take little
longer than a single call.
"""

from __future__ import annotations

from math import inf

SINGLES_PER_SECOND = 2000.0
"""Requests a second to one node from which calls are batched. By Little's law, latency times this rate may be in
flight, so calls to a distant node, which take long without any queue, are not batched. The latency used is that of the
quicker calls: the average grows with the worker's own queue, so that the busiest worker would batch least."""
FEWEST_SLOTS = 4
MOST_ITEMS = 64
MAX_BATCH_BYTES = 64 * 1024
"""Bytes of params in one batch."""
_FIRST_ITEMS = 4
_SLOWER = 2.0
"""A batch may take this many times as long as a single call, or _SPARE seconds longer if that is more."""
_SPARE = 0.002
_TURNS = 8
"""Turns of the event loop that a batch may wait for on its way out and back, which say nothing about the node."""
_FORGETS = 0.005
"""Share by which the lowest latency moves towards each slower call, so that a node that became slower is recognised
after some hundred calls."""
_SLOW_TWOS = 8
"""Consecutive slow batches of two before batching rests: one may be slow by chance, or because this process is busy."""
_BUSY_FROM = 500.0
"""Calls a second to one node from which calls of one turn are sent together although there is a slot for each."""
_BUSY, _BUSIEST = 100.0, 200.0
"""Recent calls beyond that rate from which a node counts as busy, and the most that are counted: a twentieth of a
second of calm ends the busy time."""
SLOT_SECONDS = 0.05
"""Seconds for which a request keeps its slot at the least."""
_PATIENT = 4.0
"""Multiple of a single call's latency for which a request keeps its slot. A longer request (an expensive read, a lost
packet) does not show that requests are frequent, so no call waits for it."""
_SINGLE_EACH = 32
"""One in this many requests carries a single call, so that the latency for comparison stays up to date."""
_REST = 300.0
"""Seconds for which a node gets no batches after it answered a batch wrongly or slowly."""


class Gathering:
    """What is known about batches to one node. `now` is in monotonic seconds."""

    __slots__ = ("_at", "_level", "_since_single", "items", "most", "proved", "quickest", "rest_until", "single",
                 "slots", "slow", "turn")  # fmt: skip

    def __init__(self) -> None:
        self.items = _FIRST_ITEMS
        """Calls in one batch at the most."""
        self.most = MOST_ITEMS
        """The calls that batches may grow to."""
        self.proved = False
        """Has the node answered a batch? Until then only one batch is under way at a time."""
        self.single = 0.0
        """Moving average of a single call's latency in seconds; 0.0 before the first one."""
        self.slow = 0
        """Consecutive slow batches of two."""
        self.quickest = 0.0
        """Latency of the quicker single calls in seconds: that of node and network without any queue."""
        self.turn = 0.0
        """Moving average of a turn of the event loop under load, in seconds."""
        self.slots = FEWEST_SLOTS
        """Requests that may be under way before calls wait for a batch."""
        self.rest_until = -inf
        """The time until which the node is sent no batches."""
        self._level, self._at = 0.0, 0.0
        self._since_single = 0

    def __repr__(self) -> str:
        return f"<gathering up to {self.items}, single {self.single * 1000:.1f} ms>"

    def patience(self) -> float:
        """Seconds after which a request under way no longer occupies a slot."""
        return max(SLOT_SECONDS, self.single * _PATIENT)

    def called(self, now: float) -> bool:
        """Count a call. True when calls of one turn should be sent together although there is a slot for each.

        Calls fill a bucket that drains at a fixed rate; its level shows how busy the node is.
        """
        level = self._level - (now - self._at) * _BUSY_FROM
        self._level = level = min(level, _BUSIEST) + 1.0 if level > 0.0 else 1.0
        self._at = now
        return level > _BUSY

    def together(self) -> int:
        """The number of calls that the next request may carry."""
        self._since_single += 1
        if self._since_single < _SINGLE_EACH:
            return self.items
        self._since_single = 0
        return 1

    def turn_took(self, seconds: float) -> None:
        """Note the seconds from a call to the end of its turn of the event loop."""
        self.turn += (seconds - self.turn) * 0.1

    def single_took(self, seconds: float) -> None:
        """Note the seconds in which a single call was answered."""
        self._since_single = 0
        if self.single == 0.0:
            self.single = self.quickest = seconds
        else:
            self.single += (seconds - self.single) * (0.3 if seconds > self.single else 0.1)
            self.quickest = min(seconds, self.quickest + (seconds - self.quickest) * _FORGETS)
        self.slots = max(FEWEST_SLOTS, int(self.quickest * SINGLES_PER_SECOND))

    def batch_took(self, items: int, seconds: float, now: float) -> None:
        """Note that every item of a batch was answered.

        Full and quick batches make the length grow; a slow one halves it. If batches of two are slow repeatedly, the
        node gets none for some time.
        """
        self.proved = True
        bound = max(self.single * _SLOWER, self.single + _SPARE) + self.turn * _TURNS
        if seconds <= bound:
            self.slow = 0
            if items >= self.items:
                self.items = min(self.most, self.items * 2)
        elif items > 2:
            self.items = max(2, items // 2)
        else:
            self.slow += 1
            if self.slow >= _SLOW_TWOS:
                self.refused(now)

    def bound(self, most: int | None) -> None:
        """Set the most calls that the node answers in one batch; None where no limit is known. A node that takes no
        batches is sent none."""
        most = MOST_ITEMS if most is None else min(most, MOST_ITEMS)
        if most < 2:
            self.rest_until = inf
        elif self.rest_until == inf:
            self.rest_until = -inf
        self.most = max(2, most)
        self.items = min(self.items, self.most)

    def refused(self, now: float) -> None:
        """Note that the node refused a batch or answered it wrongly."""
        self.rest_until = max(self.rest_until, now + _REST)
        self.proved, self.slow = False, 0
        self.items = min(_FIRST_ITEMS, self.most)
