"""Transactions sent a moment ago, and which nodes took them: a client must be able to read what it has written.

Until gossip has carried a transaction to every node, only those that took it know it. The memory is bounded in number
and time, the oldest goes first.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.wire.json_text import UNREADABLE

REMEMBERED = 120.0
"""Seconds for which a sent transaction is looked up on the nodes that took it: gossip takes seconds, a busy pool
may keep a cheap transaction some minutes, and then every node has it."""
NONCE_REMEMBERED = 30.0
"""Seconds for which a client's pending reads go to the nodes that took what it sent last."""
MOST = 4096
"""Transactions, and clients, remembered at once."""

UNFILLED = frozenset({b"null", b'"0x"', b"[]"})
"""What a lookup says as long as the transaction is not there."""

_HASH_LENGTH = 68
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Sent(Struct, frozen=True, tag=True):
    """Nodes took a transaction: what workers tell one another."""

    network: str
    hash: bytes
    """As in the JSON text, quotes included, in lower case."""
    nodes: tuple[str, ...]
    client: bytes = b""
    """What tells the sender from other clients; empty when it is not known."""


class _Holders(Struct):
    nodes: tuple[str, ...]
    until: float


class Recent:
    """What was sent lately. Times are monotonic seconds."""

    __slots__ = ("_clients", "_hashes")

    def __init__(self) -> None:
        self._hashes: dict[tuple[str, bytes], _Holders] = {}
        self._clients: dict[tuple[str, bytes], _Holders] = {}

    def __len__(self) -> int:
        return len(self._hashes)

    def __repr__(self) -> str:
        return f"<Recent {len(self._hashes)} transactions, {len(self._clients)} clients>"

    def add(self, sent: Sent, now: float) -> None:
        """Remember it; further nodes add to those known."""
        _put(self._hashes, (sent.network, sent.hash), sent.nodes, now, REMEMBERED, add=True)
        if sent.client:
            _put(self._clients, (sent.network, sent.client), sent.nodes, now, NONCE_REMEMBERED, add=False)

    def of_hash(self, network: str, hash_text: bytes, now: float) -> tuple[str, ...]:
        """Ids of the nodes that took the transaction."""
        return _get(self._hashes, (network, hash_text), now)

    def of_client(self, network: str, client: bytes, now: float) -> tuple[str, ...]:
        """Ids of the nodes that took what the client sent last."""
        return _get(self._clients, (network, client), now)


def hash_text(result: bytes) -> bytes | None:
    """A transaction's hash as it stands in JSON (quotes included), in lower case; None when it is none."""
    if len(result) != _HASH_LENGTH or not result.startswith(b'"0x') or not result.endswith(b'"'):
        return None
    return result.lower()


def hash_named(plan: Plan) -> bytes | None:
    """The transaction that a lookup names, as `hash_text` writes it; None for calls that look up none."""
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
    known = table.pop(key, None)  # and in again at the end: the order is that of age
    if known is not None and add:
        nodes = tuple(dict.fromkeys((*known.nodes, *nodes)))
    elif len(table) >= MOST:
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
