"""Read your writes: lookups of a transaction that was just sent go to a node that took it, in every worker.

- A worker tells the others on its host over the link, and other hosts by a short-lived mark in the second tier.
- No answer that says "not there (yet)" is taken from a tier for such a transaction, nor from a flight that began
  before it was sent.
- What a pool holds changes without a new head, so null to a lookup that would show a pooled transaction is kept by
  nobody (core.cache.retention). A worker the news has not reached yet, some milliseconds, therefore asks a node.
- Pending reads (the nonce) go to the nodes that took what the same client sent last. The client is told by its address
  and not by the account: the sender of a transaction is in its signature, and to recover it costs milliseconds of this
  process for each transaction. Clients behind one address share the preference, which harms none of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import msgspec

from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.heads.recent_writes import REMEMBERED, UNFILLED, Recent, Sent, hash_named, hash_text
from rpcaccel.core.plan import cache_key
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.stores.base import Store

MARK = "sent"
"""Stands in place of a method in the keys of marks, so that marks are purged with their network."""
_decode_nodes = msgspec.json.Decoder(tuple[str, ...]).decode


class ReadYourWrites:
    """The transactions sent lately, by this worker and by those it has heard of."""

    def __init__(self, store: Store, clock: Callable[[], float], tell: Callable[[Sent], None]) -> None:
        """`tell` sends a message to the other workers of this host."""
        self.recent = Recent()
        """As long as it is empty, no call need ask for `holders`."""
        self._store = store
        self._shared = store.name != "memory"
        self._clock = clock
        self._tell = tell

    def took(self, network: Network, result: bytes, nodes: tuple[str, ...], address: str) -> None:
        """Note that these nodes took a transaction of the client at `address` and answered `result`, its hash."""
        name = hash_text(result)
        if name is None:
            return
        sent = Sent(network.name, name, nodes, address.encode())
        self.heard(sent)
        self._tell(sent)
        if self._shared and network.view.known:
            all_of_them = self.recent.of_hash(network.name, name, self._clock())
            self._store.put(_mark(network, name), self._entry(network, all_of_them), REMEMBERED)

    def heard(self, sent: Sent) -> None:
        """Note that this worker or another one sent a transaction."""
        self.recent.add(sent, self._clock())

    def holders(self, network: Network, plan: Plan, address: str = "") -> tuple[str, ...]:
        """Ids of the nodes that should be asked first for the client at `address`, as far as this worker knows; empty
        when any node will do."""
        if plan.rule.names_transaction is None:
            return self.recent.of_client(network.name, address.encode(), self._clock()) if plan.pending else ()
        name = hash_named(plan)
        return () if name is None else self.recent.of_hash(network.name, name, self._clock())

    def doubts(self, network: Network, plan: Plan, result: bytes) -> bool:
        """May a transaction that was sent since have made this kept answer untrue?"""
        if plan.rule.names_transaction is None or result not in UNFILLED:
            return False
        return bool(self.holders(network, plan))

    def look(self, network: Network, plan: Plan, done: Callable[[], None]) -> bool:
        """Ask the second tier whether another host sent the transaction that a lookup names; `done` is called when that
        is known. False when there is nothing to ask: then `done` is not called."""
        name = hash_named(plan) if self._shared and network.view.known else None
        if name is None or self.recent.of_hash(network.name, name, self._clock()):
            return False

        def found(mark: Entry | None) -> None:
            if mark is not None:
                with contextlib.suppress(*UNREADABLE):
                    self.heard(Sent(network.name, name, _decode_nodes(mark.result)))
            done()

        return self._store.look([_mark(network, name)], lambda _key, _mark: True, found)

    def _entry(self, network: Network, nodes: tuple[str, ...]) -> Entry:
        now = self._clock()
        return Entry(
            result=msgspec.json.encode(nodes),
            cache=CacheClass.NEVER,
            network=network.name,
            method=MARK,
            stored_at=now,
            expires=now + REMEMBERED,
        )


def _mark(network: Network, name: bytes) -> bytes:
    view = network.view
    tag = cache_key.network_tag(network.name, view.eth_chain_id, view.genesis or "", view.block_one or "")
    return cache_key.cache_key(tag, MARK, cache_key.SCOPE_SENT, name)
