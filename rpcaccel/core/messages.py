"""What the control plane and the data plane say to each other, in one process or across many.

Messages as frames on a byte stream: four bytes of length (big-endian), then MessagePack.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.explanation import Explanation
from rpcaccel.core.heads.recent_writes import Sent
from rpcaccel.core.heads.served_head import NetworkHeads
from rpcaccel.core.nodes.quota import Brought, QuotaUse
from rpcaccel.core.replies.unknown_errors import UnclassedError
from rpcaccel.core.stats.counters import TallySnapshot


class NodeReport(Struct, frozen=True, kw_only=True):
    """One node as one worker sees it."""

    network: str
    id: str
    head: int
    in_flight: int
    breaker: str
    """State of the breaker: closed, open or half-open."""
    latency: float | None
    """Seconds, recent average of successes; None without any."""
    parked: float
    """Seconds for which it still is to be left alone; 0 when it is not parked."""
    rests: str = ""
    """The methods that it limits the rate of, in a sentence; empty when there are none."""
    ejected: float = 0.0
    """Seconds for which it is still left alone for being much slower than the others."""
    limit: int = 0
    """Light calls it may have at once, as its answers have shown."""
    quota: tuple[QuotaUse, ...] = ()
    """What is used of the node's quotas, as this worker knows it."""
    refusal: str
    """Why it gets no calls about the newest blocks, in a sentence; empty when it gets them."""


class WorkerReport(Struct, frozen=True, kw_only=True, tag=True):
    """A worker's account of itself. Counters only grow while the worker lives."""

    worker: str
    pid: int
    revision: int
    uptime: float
    """Seconds."""
    port: int
    tally: TallySnapshot
    nodes: tuple[NodeReport, ...]
    flights: int
    """Under way."""
    unclassed: tuple[UnclassedError, ...] = ()
    """Errors of nodes that no rule knew."""
    warnings: tuple[str, ...] = ()
    """Sentences about the second tier."""


class Hint(Struct, frozen=True, tag=True):
    """An answer showed that a node has reached a block."""

    network: str
    node: str
    head: int


class PurgeDone(Struct, frozen=True, tag=True):
    """Entries removed from a worker's memory, and from the second tier."""

    memory: int
    store: int
    complete: bool = True
    number: int = 0
    """Which PurgeOrder this answers."""


class Adopt(Struct, frozen=True, tag=True):
    """Take over a revision of the settings."""

    revision: int
    settings: bytes
    """The pickled settings: the link is a socket pair between a process and its own child."""
    number: int = 0


class Adopted(Struct, frozen=True, tag=True):
    """A revision is in force in a worker, or was refused with a reason."""

    revision: int
    refusal: str = ""
    number: int = 0
    """Which Adopt this answers."""


class Heads(Struct, frozen=True, tag=True):
    """Where the nodes of a network are."""

    heads: NetworkHeads


class PurgeOrder(Struct, frozen=True, tag=True):
    """Remove entries, or only count them."""

    number: int
    selection: Selection
    dry: bool = False


class ExplainOrder(Struct, frozen=True, tag=True):
    """Say how a call would be treated."""

    number: int
    network: str
    method: str
    params: bytes
    """Raw JSON text."""


class ExplainReply(Struct, frozen=True, tag=True):
    """How a call would be treated; None when the network is not served."""

    number: int
    explanation: Explanation | None


class Seen(Struct, frozen=True, kw_only=True):
    """A call that a client made, without anything about the client."""

    at: float
    """When it came, in the monotonic seconds of this machine."""
    network: str
    method: str
    params: bytes
    """Raw JSON text, as sent."""
    head: int
    """The served head it was answered at."""
    block: int | None
    """The block it was about, once resolved."""
    first: int | None
    """The first block, of a range."""
    source: str
    """Where the answer came from."""
    seconds: float
    """What it took."""
    hashed: bool = False
    """Do the params stand for a transaction, as its hash?"""


class RecordOrder(Struct, frozen=True, tag=True):
    """Hand over the calls kept since the last time, and go on keeping this share of them, or stop."""

    number: int
    sample: float
    stop: bool = False


class Recorded(Struct, frozen=True, tag=True):
    """Calls that were kept, and how many found no room."""

    calls: tuple[Seen, ...] = ()
    missed: int = 0
    number: int = 0
    """Which RecordOrder this answers."""


class Drain(Struct, frozen=True, tag=True):
    """Take no new calls, finish what runs within `timeout` seconds, and end."""

    timeout: float
    linger: float = 0.0
    """Seconds that clients get before that to notice on their open connections, where calls are still answered."""


class Started(Struct, frozen=True, tag=True):
    """The worker listens, with the revision of its first Adopt in force."""

    port: int
    number: int = 0
    """Which Adopt this answers."""


class Spent(Struct, frozen=True, tag=True):
    """Tokens that clients spent at one worker: told to the supervisor, and by it to the other workers."""

    tokens: dict[str, int]


class QuotaBrought(Struct, frozen=True, tag=True):
    """What earlier runs and other workers used of the quotas, as far as it has changed."""

    uses: tuple[Brought, ...]


Order = Adopt | Heads | PurgeOrder | ExplainOrder | RecordOrder | Drain | Sent | Spent | QuotaBrought
"""From the control plane to a worker."""
Word = Started | Adopted | WorkerReport | Hint | PurgeDone | ExplainReply | Recorded | Sent | Spent
"""From a worker to the control plane."""


LONGEST = 256 * 1024 * 1024
"""Bytes. A longer frame is a fault of the other side, not a message."""

T = TypeVar("T")


def encode(message: object) -> bytes:
    """One message as one frame."""
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(4, "big") + body


class FrameReader(Generic[T]):
    """Collects bytes into messages of one type (or union)."""

    def __init__(self, kind: type[T]) -> None:
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[T]:
        """The messages that are complete now.

        Raises:
            ValueError: a frame is longer than LONGEST or is not a message of this type.
        """
        self._buffer += data
        messages: list[T] = []
        while len(self._buffer) >= 4:
            length = int.from_bytes(self._buffer[:4], "big")
            if length > LONGEST:
                raise ValueError(f"a frame of {length} bytes")
            if len(self._buffer) < 4 + length:
                break
            messages.append(self._decode(bytes(self._buffer[4 : 4 + length])))
            del self._buffer[: 4 + length]
        return messages
