"""Which entry the memory tier drops when it is full: S3-FIFO (SOSP 2023).

A hit only increments `slot.uses`: it moves nothing in a list and takes no lock. An entry that is requested once is
evicted before an entry that is requested twice, so a scan of many blocks does not flush the entries that are in use.
A removed slot stays in its queue as a husk. Husks are dropped when the queue is read, or once they are its larger part.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from rpcaccel.core.cache.entry import Entry

USES_CAP = 3
"""The highest value of a slot's use counter (S3-FIFO keeps two bits)."""

CHANCES = 1000
"""Used slots that one eviction may skip before it evicts the next slot regardless, so that no put blocks the loop."""

HUSKS = 64
"""A queue with at most this many husks is not swept."""

GHOST_BYTES = 128
"""Memory of one ghost, the hash of an evicted key (bytes: an int and its places in a set and in a deque)."""


class CacheSlot(Struct, gc=False):
    """The place of an entry in the tier. It holds no reference cycle, so the garbage collector may ignore it."""

    key: bytes
    entry: Entry | None
    """None once the entry was removed and the slot is a husk."""
    weight: int
    """Bytes that the tier counts for the entry."""
    uses: int = 0
    """Hits since the eviction last skipped this slot, at most USES_CAP."""
    squeezed: bytes = b""
    """The gzip form of the reply, made when a client first asks for it; its size is part of the weight."""
    settled: bool = False
    """The slot is in the main queue, and no longer on probation."""


def _wanted(slot: CacheSlot, now: float) -> bool:
    return slot.uses > 0 and slot.entry is not None and slot.entry.expires > now


class Queue:
    """A first-in, first-out queue of slots in which removal from the middle only marks the slot as a husk."""

    __slots__ = ("_husks", "_slots", "settled", "weight")

    def __init__(self, settled: bool) -> None:
        self._slots: deque[CacheSlot] = deque()
        self._husks = 0
        self.settled = settled
        """Copied to each slot that is pushed, so that the slot says which of the two queues holds it."""
        self.weight = 0

    def push(self, slot: CacheSlot) -> None:
        """Append a slot at the young end."""
        slot.settled = self.settled
        self._slots.append(slot)
        self.weight += slot.weight

    def pop(self) -> CacheSlot | None:
        """Remove and return the oldest slot that is no husk."""
        while self._slots:
            slot = self._slots.popleft()
            if slot.entry is not None:
                self.weight -= slot.weight
                return slot
            self._husks -= 1
        return None

    def forget(self, slot: CacheSlot) -> None:
        """Account for a slot of this queue that is about to become a husk."""
        self.weight -= slot.weight
        self._husks += 1
        if self._husks > HUSKS and self._husks * 2 > len(self._slots):
            self._slots = deque(other for other in self._slots if other.entry is not None and other is not slot)
            self._husks = 0


class S3Fifo:
    """A probation queue (a tenth of the bytes), a main queue, and ghosts: hashes of keys evicted from probation.

    A slot moves to the main queue when it is used more than once on probation. A key that comes back while its ghost
    is remembered enters the main queue directly.
    """

    __slots__ = ("_ghost_order", "_ghosts", "_main", "_probation", "_residents", "overhead")

    def __init__(self) -> None:
        self._probation = Queue(settled=False)
        self._main = Queue(settled=True)
        self._ghosts: set[int] = set()
        self._ghost_order: deque[int] = deque()
        self._residents = 0
        self.overhead = 0
        """Bytes held for ghosts."""

    def admit(self, slot: CacheSlot) -> None:
        """Add a new slot: to the main queue if its key has a ghost, else to the probation queue."""
        self._residents += 1
        ghost = hash(slot.key)
        if ghost in self._ghosts:
            self._ghosts.discard(ghost)
            self._main.push(slot)
        else:
            self._probation.push(slot)

    def victim(self, now: float) -> CacheSlot | None:
        """Remove and return the slot to evict; None when the queue to evict from is empty.

        The victim comes from probation while that holds more than a tenth of the bytes, else from the main queue. A
        slot whose entry has expired gets no second chance.
        """
        chances = CHANCES
        small, main = self._probation, self._main
        while True:
            probation = small.weight * 10 > small.weight + main.weight
            slot = small.pop() if probation else main.pop()
            if slot is None:
                return None
            if chances > 0 and slot.uses > (1 if probation else 0) and _wanted(slot, now):
                chances -= 1
                slot.uses = 0 if probation else slot.uses - 1
                main.push(slot)
                continue
            self._residents -= 1
            if probation and slot.entry is not None and slot.entry.expires > now:
                self._remember(hash(slot.key))
            self._trim()
            return slot

    def forget(self, slot: CacheSlot) -> None:
        """Account for a slot that is about to be removed by a purge or because it expired."""
        self._holding(slot).forget(slot)
        self._residents -= 1
        self._trim()

    def grew(self, slot: CacheSlot, by: int) -> None:
        """Account for a slot whose weight has grown by `by` bytes."""
        self._holding(slot).weight += by

    def _holding(self, slot: CacheSlot) -> Queue:
        return self._main if slot.settled else self._probation

    def _remember(self, ghost: int) -> None:
        self._ghosts.add(ghost)
        self._ghost_order.append(ghost)
        self.overhead += GHOST_BYTES

    def _trim(self) -> None:
        # As many ghosts as residents: the keys that a tier of twice the size would still hold.
        while len(self._ghost_order) > self._residents:
            self._ghosts.discard(self._ghost_order.popleft())
            self.overhead -= GHOST_BYTES
