"""The messages that the control plane and the data plane exchange, and their form on a byte stream.

Between processes each message is one frame: four bytes of length (big-endian), then MessagePack.
"""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from rpcaccel.core.agreement.cases import Case
from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.explanation import Explanation
from rpcaccel.core.heads.recent_writes import Sent
from rpcaccel.core.heads.served_head import NetworkHeads
from rpcaccel.core.nodes.limits import Brought, QuotaUse
from rpcaccel.core.replies.unknown_errors import UnclassedError
from rpcaccel.core.stats.counters import TallySnapshot
from rpcaccel.core.stats.error_log import ErrorNews


class NodeReport(Struct, frozen=True, kw_only=True):
    """One node as one worker sees it. Durations in seconds."""

    network: str
    id: str
    head: int
    in_flight: int
    breaker: str
    """The breaker's state: closed, open or half-open."""
    latency: float | None
    """Recent average of successful calls; None before the first one."""
    parked: float
    """Time until the node is no longer parked; 0 when it is not parked."""
    rests: str = ""
    """A sentence naming the methods whose rate the node limits; empty when there are none."""
    ejected: float = 0.0
    """Time until the node is no longer ejected as much slower than the others; 0 when it is not ejected."""
    limit: int = 0
    """The adaptive limit of light calls in flight."""
    quota: tuple[QuotaUse, ...] = ()
    """What is used of the node's quotas, as this worker knows it."""
    refusal: str
    """A sentence saying why the node gets no calls, whatever its head is; empty when it gets them. Whether it lags is
    for the probes to say (core.heads.lateness): a worker sees the heads of one moment."""


class WorkerReport(Struct, frozen=True, kw_only=True, tag=True):
    """The state and counters of a worker. Counters only grow while the worker lives."""

    worker: str
    pid: int
    revision: int
    uptime: float
    """Seconds since the worker started."""
    port: int
    tally: TallySnapshot
    nodes: tuple[NodeReport, ...]
    flights: int
    """Flights under way."""
    longest_turn: float = 0.0
    """Seconds of the longest turn of the worker's event loop in the last minute."""
    unclassed: tuple[UnclassedError, ...] = ()
    """Errors of nodes that no row of an error table fits."""
    warnings: tuple[tuple[str, str], ...] = ()
    """Sentences for the operator, each with the tier that it is about: "disk" or "redis"."""


class Hint(Struct, frozen=True, tag=True):
    """An answer showed that a node has reached a block."""

    network: str
    node: str
    head: int


class PurgeDone(Struct, frozen=True, tag=True):
    """Entries removed from a worker's memory, and from the tiers behind it."""

    memory: int
    store: int
    """From Redis."""
    number: int = 0
    """The number of the PurgeOrder that this answers."""
    disk: int = 0
    store_complete: bool = True
    """Was all of Redis looked through? True where there is no Redis."""
    disk_complete: bool = True
    """Was the file on disk looked through? True where there is no disk tier."""

    @property
    def complete(self) -> bool:
        """Was every tier looked through?"""
        return self.store_complete and self.disk_complete

    @classmethod
    def nothing(cls, number: int = 0) -> PurgeDone:
        """A purge that was carried out nowhere."""
        return cls(0, 0, number, store_complete=False, disk_complete=False)


class Adopt(Struct, frozen=True, tag=True):
    """Adopt a revision of the settings."""

    revision: int
    settings: bytes
    """The settings, pickled: the link is a socket pair between a process and its own child."""
    number: int = 0


class Adopted(Struct, frozen=True, tag=True):
    """A revision is in force in a worker, or was refused with a reason."""

    revision: int
    refusal: str = ""
    number: int = 0
    """The number of the Adopt that this answers."""


class Heads(Struct, frozen=True, tag=True):
    """The heads of a network: the served head, and what is known of each node."""

    heads: NetworkHeads


class Announced(Struct, frozen=True, tag=True):
    """A node pushed the header of a new block. It is told before the heads that follow from it."""

    network: str
    number: int
    hash: str
    """In lower case, with 0x."""
    header: bytes
    """The result of the notification: raw JSON text, as the node sent it."""


class Rewritten(Struct, frozen=True, tag=True):
    """A call changed the state or the blocks of a network without a new block (core.plan.rules.Rule.rewrites)."""

    network: str


class PurgeOrder(Struct, frozen=True, tag=True):
    """Remove entries from the cache, or only count them."""

    number: int
    selection: Selection
    dry: bool = False


class ExplainOrder(Struct, frozen=True, tag=True):
    """Explain how a call would be treated, without making it."""

    number: int
    network: str
    method: str
    params: bytes
    """Raw JSON text."""


class ExplainReply(Struct, frozen=True, tag=True):
    """The answer to an ExplainOrder; `explanation` is None when the network is not served."""

    number: int
    explanation: Explanation | None


class RecordedCall(Struct, frozen=True, kw_only=True):
    """A call that a client made, without anything about the client."""

    at: Annotated[float, Meta(description="When it came, in the monotonic seconds of that machine.")]
    network: str
    method: str
    params: Annotated[str, Meta(description="JSON, as sent.")]
    head: Annotated[int, Meta(description="The served head it was answered at.")]
    block: Annotated[int | None, Meta(description="The block it was about.")]
    first: Annotated[int | None, Meta(description="The first block, of a range.")]
    source: Annotated[str, Meta(description="Where the answer came from.")]
    seconds: float
    hashed: Annotated[bool, Meta(description="Do the params stand for a transaction, as its hash?")] = False


class RecordOrder(Struct, frozen=True, tag=True):
    """Hand over the calls recorded since the last order, and continue to record this share of all calls, or stop."""

    number: int
    sample: float
    stop: bool = False


class Recorded(Struct, frozen=True, tag=True):
    """The calls recorded since the last order, and how many were dropped for want of room."""

    calls: tuple[RecordedCall, ...] = ()
    missed: int = 0
    number: int = 0
    """The number of the RecordOrder that this answers."""


class Drain(Struct, frozen=True, tag=True):
    """Take no new calls, finish the running ones within `timeout` seconds, and end."""

    timeout: float
    linger: float = 0.0
    """Seconds before the drain in which calls are still answered, so that clients notice it on their connections."""


class Started(Struct, frozen=True, tag=True):
    """The worker listens and serves the revision of its first Adopt."""

    port: int
    number: int = 0
    """The number of the Adopt that this answers."""


class Spent(Struct, frozen=True, tag=True):
    """Rate-limit tokens that clients spent at one worker; the supervisor forwards them to the other workers."""

    tokens: dict[str, int]


class QuotaBrought(Struct, frozen=True, tag=True):
    """What earlier runs and other workers used of the quotas, as far as it has changed."""

    uses: tuple[Brought, ...]


Order = Adopt | Heads | Announced | PurgeOrder | ExplainOrder | RecordOrder | Drain | Sent | Spent | QuotaBrought
"""From the control plane to a worker."""
Noted = Hint | Sent | ErrorNews | Case | Rewritten
"""What a worker notes while it answers calls, and tells at once."""
Word = Started | Adopted | WorkerReport | PurgeDone | ExplainReply | Recorded | Spent | Noted
"""From a worker to the control plane."""


MAX_FRAME_BYTES = 256 * 1024 * 1024
"""Bytes of the longest frame. A longer one is a fault of the sender."""

T = TypeVar("T")


def encode(message: object) -> bytes:
    """Encode one message as one frame."""
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(4, "big") + body


class FrameReader(Generic[T]):
    """Decodes a byte stream into messages of one type (or union of types)."""

    def __init__(self, kind: type[T]) -> None:
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[T]:
        """Add bytes; return the messages that are now complete.

        Raises:
            ValueError: a frame is longer than MAX_FRAME_BYTES or is not a message of this type.
        """
        self._buffer += data
        messages: list[T] = []
        while len(self._buffer) >= 4:
            length = int.from_bytes(self._buffer[:4], "big")
            if length > MAX_FRAME_BYTES:
                raise ValueError(f"a frame of {length} bytes")
            if len(self._buffer) < 4 + length:
                break
            messages.append(self._decode(bytes(self._buffer[4 : 4 + length])))
            del self._buffer[: 4 + length]
        return messages
