"""Remembers which nodes took recently sent transactions, so that a client can read what it has written.

Until gossip has spread a transaction, only the nodes that took it know it. The memory is bounded in number and time;
the oldest transaction is dropped first.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import msgspec
from msgspec import Struct

from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.wire.json_text import UNREADABLE

WRITE_SECONDS = 120.0
"""Seconds for which a transaction is looked up on the nodes that took it. Gossip takes seconds; a busy pool may hold a
cheap transaction for minutes."""
NONCE_REMEMBERED = 30.0
"""Seconds for which a client's pending reads go to the nodes that took its last transaction."""
MAX_WRITES = 4096
"""Transactions that are remembered at once, and clients."""

UNFILLED = frozenset({b"null", b'"0x"', b"[]"})
"""Results of a lookup while the node does not have the transaction."""

_HASH_LENGTH = 68
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Sent(Struct, frozen=True, tag=True):
    """A message between workers: these nodes took a transaction."""

    network: str
    hash: bytes
    """The transaction's hash as JSON text (with quotes), in lower case."""
    nodes: tuple[str, ...]
    client: bytes = b""
    """The identity of the sender; empty when it is not known."""


class _Holders(Struct):
    nodes: tuple[str, ...]
    until: float


class Recent:
    """The recently sent transactions. Times are monotonic seconds."""

    __slots__ = ("_clients", "hashes")

    def __init__(self) -> None:
        self.hashes: dict[tuple[str, bytes], _Holders] = {}
        """By network and hash: which nodes took the transaction. Empty as long as nothing was sent."""
        self._clients: dict[tuple[str, bytes], _Holders] = {}

    def __len__(self) -> int:
        return len(self.hashes)

    def __repr__(self) -> str:
        return f"<Recent {len(self.hashes)} transactions, {len(self._clients)} clients>"

    def add(self, sent: Sent, now: float) -> None:
        """Remember a transaction, or add nodes to one that is known."""
        _put(self.hashes, (sent.network, sent.hash), sent.nodes, now, WRITE_SECONDS, add=True)
        if sent.client:
            _put(self._clients, (sent.network, sent.client), sent.nodes, now, NONCE_REMEMBERED, add=False)

    def of_hash(self, network: str, hash_text: bytes, now: float) -> tuple[str, ...]:
        """Ids of the nodes that took the transaction."""
        return _get(self.hashes, (network, hash_text), now)

    def of_client(self, network: str, client: bytes, now: float) -> tuple[str, ...]:
        """Ids of the nodes that took the client's last transaction."""
        return _get(self._clients, (network, client), now)


def hash_text(result: bytes) -> bytes | None:
    """A transaction's hash as JSON text (with quotes) in lower case; None when the result is no hash."""
    if len(result) != _HASH_LENGTH or not result.startswith(b'"0x') or not result.endswith(b'"'):
        return None
    return result.lower()


def hash_named(plan: Plan) -> bytes | None:
    """The hash of the transaction that a call looks up, in the form of `hash_text`; None for other calls."""
    at = plan.rule.names_transaction
    if at is None:
        return None
    try:
        items = _decode_items(plan.asked)
    except UNREADABLE:
        return None
    return hash_text(bytes(items[at])) if at < len(items) else None


def _put(
    table: dict[tuple[str, bytes], _Holders],
    key: tuple[str, bytes],
    nodes: tuple[str, ...],
    now: float,
    seconds: float,
    *,
    add: bool,
) -> None:
    known = table.pop(key, None)  # inserted again at the end: the order is that of age
    if known is not None and add:
        nodes = tuple(dict.fromkeys((*known.nodes, *nodes)))
    elif len(table) >= MAX_WRITES:
        del table[next(iter(table))]
    table[key] = _Holders(nodes, now + seconds)


def _get(table: dict[tuple[str, bytes], _Holders], key: tuple[str, bytes], now: float) -> tuple[str, ...]:
    found = table.get(key)
    if found is None:
        return ()
    if found.until <= now:
        del table[key]
        return ()
    return found.nodes


MAX_PRIVATE, MAX_PRIVATE_BYTES = 1000, 16 << 20
"""Transactions of one worker that wait to be told to all nodes, and bytes of their params."""


class PrivateSend(Struct, frozen=True):
    """A transaction that was told to one node alone, and is told to all where no block has it in time."""

    network: str
    hash: bytes
    """The transaction's hash as JSON text (with quotes), as its node gave it."""
    method: str
    params: bytes
    due: int
    """The head at which it is looked up."""
    lookups: int = 20
    """Blocks within which it can be looked up; else it is told to nobody more."""


class PrivateSends:
    """The transactions that wait to be told to all nodes."""

    __slots__ = ("_bytes", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, bytes], PrivateSend] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __repr__(self) -> str:
        return f"<{len(self)} private transactions>"

    def add(self, one: PrivateSend) -> bool:
        """Let a transaction wait, once; False where there is no room for it."""
        if (one.network, one.hash) in self._waiting:
            return True
        size = len(one.params)
        if len(self) >= MAX_PRIVATE or self._bytes + size > MAX_PRIVATE_BYTES:
            return False
        self._waiting[one.network, one.hash] = one
        self._bytes += size
        return True

    def take_due(self, network: str, head: int, most: int) -> list[PrivateSend]:
        """Take out at most so many transactions of a network that are due at this head, the oldest first."""
        due = [one for one in self._waiting.values() if one.network == network and one.due <= head][:most]
        self._forget(due)
        return due

    def keep_of(self, networks: Container[str]) -> None:
        """Forget the transactions of all other networks."""
        self._forget([one for one in self._waiting.values() if one.network not in networks])

    def _forget(self, some: Iterable[PrivateSend]) -> None:
        for one in some:
            del self._waiting[one.network, one.hash]
            self._bytes -= len(one.params)
