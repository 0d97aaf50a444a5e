"""The stream of new heads that one node pushes over a WebSocket, found again whenever it ends or falls silent."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Struct

from rpcaccel.chains import Identity
from rpcaccel.controlplane.nodes.probes import Asker, Questions, block_hash
from rpcaccel.core.heads.chain_view import Sighting
from rpcaccel.core.heads.identity import Claims, ExpectedIdentity, judge
from rpcaccel.core.live.block import LONGEST_HEADER
from rpcaccel.core.nodes.sliding_window import Inflow
from rpcaccel.core.wire.json_params import number_at
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.dataplane.upstream.node_socket import ANSWER_SECONDS, OnNotification

SEARCH_AGAIN_SECONDS = 600.0
"""Seconds after which the usual places are tried again where no WebSocket was found."""
QUICKEST, SLOWEST = 0.5, 60.0
"""Seconds: bounds of the time until a WebSocket that worked, or that the settings name, is opened again."""
LASTING = 30.0
"""Seconds after which a WebSocket that pushes is no failure when it ends."""
_LOST = 8
"""Failures in a row after which a WebSocket that was found counts as not found."""
_SILENT = 3.0
"""Block times for which a node may have a block that it did not push."""
_LEAST = 2.0
"""Seconds of that at the least."""
_MOST, _MOST_BYTES = 1000, 4 << 20
"""Blocks that a node may push within a second, and bytes of their headers: more would keep every worker busy."""


class HeadSocket(Asker, Protocol):
    """A WebSocket to a node (dataplane.upstream.node_socket.NodeSocket). Texts follow "its WebSocket"."""

    async def open(self) -> str:
        """Connect; returns why that failed, or an empty text."""
        ...

    async def follow(self, namespace: str, kind: str, heard: OnNotification) -> str:
        """Subscribe; returns why that failed, or an empty text."""
        ...

    async def ended(self) -> str:
        """Wait for the end; returns why it came."""
        ...


class PushedHead(Struct, frozen=True):
    """A block that a node has announced."""

    sighting: Sighting
    header: bytes
    """Raw JSON text, as the node sent it."""


class _Header(Struct, rename="camel"):
    number: str
    hash: str
    parent_hash: str


class StreamHooks(NamedTuple):
    """What a stream of heads calls."""

    connect: Callable[[str], HeadSocket]
    """Makes the WebSocket to an address."""
    strange: Callable[[Claims], str]
    """Says why an endpoint with this identity is not the node's; empty when it is."""
    pushed: Callable[[PushedHead], None]
    """Takes every block that the node announces."""
    turned: Callable[[], None]
    """Is called when the node begins to push, and when it no longer does."""


class HeadStream:
    """Follows the heads that one node pushes, from `run` on until that is cancelled."""

    def __init__(
        self,
        places: Sequence[str],
        identity: Identity,
        namespace: str,
        hooks: StreamHooks,
        *,
        named: bool,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random,
    ) -> None:
        """
        Args:
            places: the addresses that are tried, in order.
            namespace: that of the subscribe.
            named: do the settings name the address? Then the operator is told why it does not work.
        """
        self._places = places
        self._order = list(range(len(places)))
        """The places in the order in which they are tried: the one that worked last comes first."""
        self._namespace = namespace
        self._hooks = hooks
        self._named = named
        self._questions = Questions(identity, ANSWER_SECONDS)
        self._clock = clock
        self._inflow = Inflow("blocks", _MOST, _MOST_BYTES)
        self._sleep = sleep
        self._rng = rng
        self._subscribed, self._stalled = asyncio.Event(), asyncio.Event()
        self._why = ""
        """Why it was ended from this side."""
        self._first = True
        """Has no probe ended since the node was subscribed to?"""
        self._resting: asyncio.Future[None] | None = None
        self._fails = 0
        self._works = named
        """Did it work lately, or do the settings name the address?"""
        self.pushes = False
        self.place = 0
        """The address that works, as its place among `places`."""
        self.number = -1
        """The newest block that was pushed."""
        self.note = ""
        """Why the WebSocket that the settings name does not work; empty otherwise."""
        self._lacks: int | None = None
        self._lacks_since = 0.0

    def __repr__(self) -> str:
        return f"<HeadStream {'pushes' if self.pushes else 'silent'}, block {self.number}, {self._fails} fails>"

    async def run(self) -> None:
        """Follow the heads for ever, with pauses after failures."""
        while True:
            why, worked = "", False
            for place in self._order:
                self.place, began = place, self._clock()
                try:
                    why = await self._follow(self._places[place])
                except Exception as error:  # a bug must not end the stream
                    why = f"failed in an unforeseen way: {type(error).__name__}"
                worked = self.pushes
                self._end(why)
                if worked:
                    self._order = sorted(self._order, key=lambda other: other != place)
                    break
            self._fails = 1 if worked and self._clock() - began >= LASTING else self._fails + 1
            if self._fails > _LOST and not (self._named or worked):
                self._works = False
            self._resting = asyncio.ensure_future(self._sleep(self._pause()))
            try:
                await asyncio.wait({self._resting})
            finally:
                self._resting.cancel()
                self._resting = None

    def retry(self) -> None:
        """Look for the WebSocket now, if it is not open: the node came back."""
        if self._resting is not None:
            self._resting.cancel()

    def compare(self, head: int, now: float, block_time: float) -> None:
        """Compare what was pushed with a probe, which saw the node at block `head`: a stream that stays behind is
        ended."""
        if not self._subscribed.is_set():
            return
        if self._first:
            self._first, self.number = False, max(self.number, head)
        if self.number >= head:
            self._lacks = None
        elif self._lacks is None or self.number >= self._lacks:
            self._lacks, self._lacks_since = head, now
        elif now - self._lacks_since > max(_LEAST, _SILENT * block_time):
            self._cut("does not push the blocks that the node has")

    async def _follow(self, address: str) -> str:
        """Follow one WebSocket to its end; returns why it ended, or was not taken."""
        socket = self._hooks.connect(address)
        try:
            if why := await socket.open():
                return why
            claims = await self._questions.claims(socket)
            if claims is None:
                return "does not say which chain it serves"
            if why := self._hooks.strange(claims):
                return why
            self._stalled.clear()
            self._first, self._lacks = True, None
            self._inflow = Inflow("blocks", _MOST, _MOST_BYTES)
            if why := await socket.follow(self._namespace, "newHeads", self._hear):
                return why
            self._subscribed.set()
            ended, stalled = asyncio.ensure_future(socket.ended()), asyncio.ensure_future(self._stalled.wait())
            try:
                await asyncio.wait({ended, stalled}, return_when=asyncio.FIRST_COMPLETED)
                return ended.result() if ended.done() else self._why
            finally:
                ended.cancel()
                stalled.cancel()
        finally:
            await socket.close()

    def _hear(self, result: bytes) -> None:
        if why := self._inflow.take(len(result), self._clock()):
            self._cut(f"pushes {why}")
            return
        head = read_header(result)
        if head is None:
            return
        self.number, self._works, self.note = head.sighting.number, True, ""
        begins, self.pushes = not self.pushes, True
        self._hooks.pushed(head)
        if begins:
            self._hooks.turned()

    def _cut(self, why: str) -> None:
        """End the WebSocket from this side."""
        self._why = why
        self._stalled.set()

    def _end(self, why: str) -> None:
        self._subscribed.clear()
        before = self.pushes, self.note
        self.pushes, self.note = False, f"its WebSocket {why}" if self._named else ""
        if before != (self.pushes, self.note):
            self._hooks.turned()

    def _pause(self) -> float:
        if not self._works:
            return SEARCH_AGAIN_SECONDS * self._rng.uniform(0.9, 1.1)
        return min(SLOWEST, QUICKEST * 2.0 ** min(self._fails - 1, 20)) * self._rng.uniform(0.5, 1.0)


def strange(node: Claims | None, claims: Claims) -> str:
    """Why an endpoint that claims this identity is not taken for the node's; empty when it is. Another node may listen
    at a usual place, so that everything that the node tells of its chain must be told there too."""
    if node is None:
        return "is not asked before the node says which chain it serves"
    verdict = judge(claims, ExpectedIdentity(node.eth_chain_id, node.shard, node.genesis, node.block_one))
    if verdict.right and (claims.genesis or not node.genesis) and (claims.block_one or not node.block_one):
        return ""
    return "serves another chain" if verdict.right is False else "does not prove that it serves the node's chain"


def read_header(result: bytes) -> PushedHead | None:
    """The block that a notification announces; None for anything else, and for a header that is too long."""
    if len(result) > LONGEST_HEADER:
        return None
    try:
        header = msgspec.json.decode(result, type=_Header)
    except UNREADABLE:
        return None
    number = number_at(msgspec.json.encode(header.number), ".")
    own, parent = block_hash(header.hash), block_hash(header.parent_hash)
    if number is None or own is None or parent is None:
        return None
    return PushedHead(Sighting(number, own, parent), result)
