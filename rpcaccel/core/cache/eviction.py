"""Which entry goes when the memory tier is full: LRU, SIEVE and S3-FIFO behind one interface.

A hit bumps `slot.uses` and nothing else (no list move, no lock), unless the policy asks to be told (`on_hit`).
Removed slots are left in the queues as husks and swept out as the queues are read, or when they are the most of it.
Sources: SIEVE, NSDI 2024; S3-FIFO, SOSP 2023. With both, what is asked for once goes before what is asked for twice.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import ClassVar, Protocol

from msgspec import Struct

from rpcaccel.core.cache.entry import Entry

USES_CAP = 3
"""S3-FIFO's two bits of frequency."""

CHANCES = 1000
"""How many used slots one eviction passes over before it takes the next one anyway: a put never stalls the loop."""

HUSKS = 64
"""A queue with no more husks than this is not worth sweeping."""

GHOST_BYTES = 128
"""What one remembered hash of an evicted key costs (bytes: an int, a place in a set and in a deque)."""


class CacheSlot(Struct, gc=False):
    """An entry's place in the tier. `gc=False`: it holds no cycle, and half a million of them must not be traversed."""

    key: bytes
    entry: Entry | None
    """None once removed: a husk that a queue still holds."""
    weight: int
    """Bytes the tier counts for it."""
    uses: int = 0
    """Hits since it was last passed over, at most USES_CAP."""
    squeezed: bytes = b""
    """The compressed form, once a client asked for it; counted in the weight."""
    settled: bool = False
    """S3-FIFO: in the main queue, no longer on probation."""


class Eviction(Protocol):
    """The order in which slots go."""

    name: ClassVar[str]
    slot_bytes: ClassVar[int]
    """What a place in its order costs beyond one in a plain queue (bytes)."""
    on_hit: Callable[[CacheSlot], None] | None
    """Called on each hit; None when bumping `slot.uses` is all it takes."""

    def admit(self, slot: CacheSlot) -> None:
        """Take in a new slot."""

    def victim(self, now: float) -> CacheSlot | None:
        """Take out the slot to go (expired ones get no second chance); None when there is none."""

    def forget(self, slot: CacheSlot) -> None:
        """`slot` is about to be removed (purge, expiry)."""

    def grew(self, slot: CacheSlot, by: int) -> None:
        """`slot` got another entry, `by` bytes heavier; its weight is already the new one."""

    @property
    def overhead(self) -> int:
        """Bytes held for slots that are gone (ghosts)."""


def _wanted(slot: CacheSlot, now: float) -> bool:
    return slot.uses > 0 and slot.entry is not None and slot.entry.expires > now


class Queue:
    """First in, first out, with husks: removal from the middle only marks."""

    __slots__ = ("_husks", "_slots", "settled", "weight")

    def __init__(self, settled: bool) -> None:
        self._slots: deque[CacheSlot] = deque()
        self._husks = 0
        self.settled = settled
        """Written to every slot that comes in, so that a slot tells which of two queues holds it."""
        self.weight = 0

    def push(self, slot: CacheSlot) -> None:
        """Add the newest."""
        slot.settled = self.settled
        self._slots.append(slot)
        self.weight += slot.weight

    def pop(self) -> CacheSlot | None:
        """Take the oldest that is still there."""
        while self._slots:
            slot = self._slots.popleft()
            if slot.entry is not None:
                self.weight -= slot.weight
                return slot
            self._husks -= 1
        return None

    def forget(self, slot: CacheSlot) -> None:
        """`slot`, which is in this queue, is about to become a husk."""
        self.weight -= slot.weight
        self._husks += 1
        if self._husks > HUSKS and self._husks * 2 > len(self._slots):
            self._slots = deque(other for other in self._slots if other.entry is not None and other is not slot)
            self._husks = 0


class Lru:
    """Least recently used: every hit moves the slot. The yardstick."""

    name: ClassVar[str] = "lru"
    slot_bytes: ClassVar[int] = 160
    __slots__ = ("_order", "on_hit")

    def __init__(self) -> None:
        self._order: OrderedDict[bytes, CacheSlot] = OrderedDict()
        self.on_hit: Callable[[CacheSlot], None] | None = self._touch

    def _touch(self, slot: CacheSlot) -> None:
        self._order.move_to_end(slot.key)

    def admit(self, slot: CacheSlot) -> None:
        """Take in a new slot."""
        self._order[slot.key] = slot

    def victim(self, now: float) -> CacheSlot | None:  # noqa: ARG002 - the order alone decides
        """The one unused for longest."""
        return self._order.popitem(last=False)[1] if self._order else None

    def forget(self, slot: CacheSlot) -> None:
        """`slot` is about to be removed."""
        del self._order[slot.key]

    def grew(self, slot: CacheSlot, by: int) -> None:
        """Nothing hangs on weights."""

    @property
    def overhead(self) -> int:
        """No ghosts."""
        return 0


class _TwoQueues:
    """What SIEVE and S3-FIFO share: every slot is in one of two queues, and a hit only bumps a counter."""

    slot_bytes: ClassVar[int] = 0
    __slots__ = ("_first", "_second", "on_hit")

    def __init__(self) -> None:
        self._first = Queue(settled=False)
        self._second = Queue(settled=True)
        self.on_hit: Callable[[CacheSlot], None] | None = None

    def _holding(self, slot: CacheSlot) -> Queue:
        return self._first if slot.settled is self._first.settled else self._second

    def forget(self, slot: CacheSlot) -> None:
        """`slot` is about to be removed."""
        self._holding(slot).forget(slot)

    def grew(self, slot: CacheSlot, by: int) -> None:
        """`slot` got another entry, `by` bytes heavier."""
        self._holding(slot).weight += by


class Sieve(_TwoQueues):
    """One queue and a hand that goes from the oldest to the newest, and takes the first not used since it last came by.

    The hand cuts the queue in two: `_first` is what it has not yet reached (new slots join), `_second` what it spared.
    """

    name: ClassVar[str] = "sieve"
    __slots__ = ()

    def admit(self, slot: CacheSlot) -> None:
        """Take in a new slot, ahead of the hand."""
        self._first.push(slot)

    def victim(self, now: float) -> CacheSlot | None:
        """The first slot under the hand that was not used since the hand last passed."""
        chances = CHANCES
        while True:
            slot = self._first.pop()
            if slot is None:
                self._first, self._second = self._second, self._first
                slot = self._first.pop()
            if slot is None or chances == 0 or not _wanted(slot, now):
                return slot
            chances -= 1
            slot.uses = 0
            self._second.push(slot)

    @property
    def overhead(self) -> int:
        """No ghosts."""
        return 0


class S3Fifo(_TwoQueues):
    """A small queue on probation (a tenth of the bytes), a main queue, and ghosts: hashes of what probation let go.

    A slot used more than once on probation settles in the main queue, and so does one asked for again as a ghost.
    """

    name: ClassVar[str] = "s3fifo"
    __slots__ = ("_ghost_order", "_ghosts", "_residents")

    def __init__(self) -> None:
        super().__init__()
        self._ghosts: set[int] = set()
        self._ghost_order: deque[int] = deque()
        self._residents = 0

    def admit(self, slot: CacheSlot) -> None:
        """Take in a new slot: on probation, unless it was let go not long ago."""
        self._residents += 1
        ghost = hash(slot.key)
        if ghost in self._ghosts:
            self._ghosts.discard(ghost)
            self._second.push(slot)
        else:
            self._first.push(slot)

    def victim(self, now: float) -> CacheSlot | None:
        """From probation while that holds more than a tenth of the bytes, else from the main queue."""
        chances = CHANCES
        small, main = self._first, self._second
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
        """`slot` is about to be removed."""
        super().forget(slot)
        self._residents -= 1
        self._trim()

    def _remember(self, ghost: int) -> None:
        self._ghosts.add(ghost)
        self._ghost_order.append(ghost)

    def _trim(self) -> None:
        # As many ghosts as residents: what a larger cache of the same kind would still hold.
        while len(self._ghost_order) > self._residents:
            self._ghosts.discard(self._ghost_order.popleft())

    @property
    def overhead(self) -> int:
        """Bytes held for ghosts."""
        return len(self._ghost_order) * GHOST_BYTES


POLICIES: dict[str, Callable[[], Eviction]] = {policy.name: policy for policy in (Lru, Sieve, S3Fifo)}
"""By name."""
