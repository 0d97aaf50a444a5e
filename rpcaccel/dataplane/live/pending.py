"""Transactions that wait to be mined, as one node of a network tells them, for all subscribers of this worker.

What is told is best effort: each node has a pool of its own, a transaction that this node never had is not told, and
what comes while one node is left for another is lost. Each hash is told once.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from rpcaccel.config.model import NodeSettings
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead
from rpcaccel.core.live.subscription import PENDING
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.dataplane.engine.engine import Engine
from rpcaccel.dataplane.event_loop import report_bug
from rpcaccel.dataplane.live.topics import Topics
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.node_socket import NodeSocket, places

POLL_SECONDS = 1.0
"""Seconds between two polls of a filter at the least; half a block where that is longer."""
MIN_REST_SECONDS, LONGEST_REST_SECONDS = 1.0, 30.0
"""Seconds: bounds of the pause after a node could not be listened to."""
REFUSED_SECONDS = 600.0
"""Seconds for which a node whose WebSocket does not tell pending transactions is not asked for them again."""
MAX_TOLD_HASHES = 16_384
"""Hashes that were told lately."""
_MAX_WAITING_HASHES = 10_000
"""Hashes that may wait for the subscribers; the oldest are dropped."""
_FETCHES_AT_ONCE = 16
"""Transactions that are fetched at the same time."""
_HASH = re.compile(rb'"0x[0-9a-f]{64}"')


class PendingTransactions:
    """The pending transactions of one network, told to its topics while `want` says that somebody subscribes."""

    def __init__(
        self,
        network: Network,
        engine: Engine,
        topics: Topics,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
        open_socket: Callable[[NodeSettings, str], NodeSocket] = NodeSocket,
    ) -> None:
        self._network = network
        self._engine = engine
        self._topics = topics
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._open_socket = open_socket
        self._heads: tuple[NodeHead, ...] = ()
        self._running: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        """The task that runs, and those that are being cancelled."""
        self._node = ""
        """The node whose WebSocket is listened to; empty while there is none."""
        self._left = asyncio.Event()
        """Set when the node that is listened to is no longer fit."""
        self._refused: dict[str, float] = {}
        """When a node refused to tell pending transactions, or could not be listened to."""
        self._recent: dict[bytes, None] = {}
        self._waiting: deque[bytes] = deque(maxlen=_MAX_WAITING_HASHES)
        self._came = asyncio.Event()

    def __repr__(self) -> str:
        how = f"listening to {self._node}" if self._node else "polling" if self._running else "idle"
        return f"<PendingTransactions {self._network.name} {how}>"

    def want(self, *, wanted: bool) -> None:
        """Begin when somebody subscribes, and stop when nobody does any more."""
        if wanted and (self._running is None or self._running.done()):
            self._running = asyncio.get_running_loop().create_task(self._run(), name=f"pending {self._network.name}")
            self._tasks.add(self._running)
            self._running.add_done_callback(self._tasks.discard)
        elif not wanted and self._running is not None:
            self._running.cancel()
            self._running = None

    def adopt(self, network: Network) -> None:
        """Take over the network of a new revision."""
        self._network = network
        known = {node.id for node in network.settings.nodes}
        self._refused = {node: at for node, at in self._refused.items() if node in known}
        self._look()

    def see(self, heads: NetworkHeads) -> None:
        """Take the heads of the network, which say what nodes push."""
        self._heads = heads.nodes
        self._look()

    async def _transactions(self, hashes: Sequence[bytes]) -> list[bytes]:
        """The transactions with these hashes (raw JSON texts), as raw JSON texts; without those that no node knows."""
        places_left = asyncio.Semaphore(_FETCHES_AT_ONCE)

        async def one(name: bytes) -> bytes | None:
            async with places_left:
                return await self._call("eth_getTransactionByHash", b"[%b]" % name)

        found = await asyncio.gather(*(one(name) for name in hashes))
        return [text for text in found if text is not None and text != b"null"]

    async def close(self) -> None:
        """Stop, and wait until everything is closed."""
        self.want(wanted=False)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- listening -----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        telling = asyncio.create_task(self._tell())
        fails = 0
        try:
            while True:
                found = self._pusher()
                worked = await _attempt(self._poll() if found is None else self._listen(*found))
                if found is not None and not worked:
                    self._refused[found[0].id] = self._engine.now()
                fails = 0 if worked else fails + 1
                pause = min(LONGEST_REST_SECONDS, MIN_REST_SECONDS * 2.0 ** min(max(0, fails - 1), 10))
                await self._sleep(pause * self._rng.uniform(0.5, 1.0))
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

    def _pusher(self) -> tuple[NodeSettings, str] | None:
        """A node whose WebSocket may be listened to, and its address; None when there is none."""
        now = self._engine.now()
        settings = {node.id: node for node in self._network.settings.nodes if node.weight and not node.drain}
        for head in self._rng.sample(self._heads, len(self._heads)):
            refused = self._refused.get(head.id)
            if not _fit(head) or head.id not in settings or (refused is not None and now - refused < REFUSED_SECONDS):
                continue
            rule, live = self._network.settings.websockets, self._network.chain.live
            found = places(settings[head.id], rule, live, self._network.settings.nodes)
            if head.place < len(found):
                return settings[head.id], found[head.place]
        return None

    async def _listen(self, node: NodeSettings, address: str) -> bool:
        """Listen to the WebSocket of a node until it ends, or the node is no longer fit; False when it never began."""
        socket = self._open_socket(node, address)
        try:
            if await socket.open() or await socket.follow(self._network.chain.live.namespaces[0], PENDING, self._hear):
                return False
            self._node = node.id
            self._left.clear()
            self._look()
            ended = asyncio.ensure_future(socket.ended())
            left = asyncio.ensure_future(self._left.wait())
            try:
                either: tuple[asyncio.Future[object], ...] = (ended, left)  # type: ignore[assignment] # both are read by nobody
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                ended.cancel()
                left.cancel()
            return True
        finally:
            self._node = ""
            await socket.close()

    def _look(self) -> None:
        """Leave the node that is listened to when it is gone, or no longer pushes."""
        settings = {node.id: node for node in self._network.settings.nodes}
        if self._node and (
            self._node not in settings or not any(_fit(head) for head in self._heads if head.id == self._node)
        ):
            self._left.set()

    async def _poll(self) -> bool:
        """Poll a filter of one node until the node loses it, or a node pushes; False when none could be made."""
        space = next(iter(self._network.chain.live.namespaces), "eth")
        made = await self._call(f"{space}_newPendingTransactionFilter", b"[]")
        if made is None:
            return False
        params = b"[%b]" % made
        while self._pusher() is None:
            await self._sleep(max(POLL_SECONDS, self._network.block_time / 2))
            changes = await self._call(f"{space}_getFilterChanges", params)
            if changes is None:
                return True
            for text in _texts(changes):
                self._hear(text)
        await self._call(f"{space}_uninstallFilter", params)
        return True

    async def _call(self, method: str, params: bytes) -> bytes | None:
        """The result of a call; None when there is none, also because the call was given up."""
        network = self._network
        plan = network.plan(method, params)
        try:
            outcome = self._engine.answer_now(network, plan) or await self._engine.outcome(network, plan)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            return None
        return outcome.result

    # -- telling -------------------------------------------------------------------------------------------------

    def _hear(self, result: bytes) -> None:
        text = result.lower()
        if _HASH.fullmatch(text) is None or text in self._recent:
            return
        self._recent[text] = None
        if len(self._recent) > MAX_TOLD_HASHES:
            del self._recent[next(iter(self._recent))]
        self._waiting.append(text)
        self._came.set()

    async def _tell(self) -> None:
        """Hand what came to the topics, together with what came while they were busy."""
        while True:
            await self._came.wait()
            self._came.clear()
            hashes = [*self._waiting]
            self._waiting.clear()
            await _attempt(self._send(hashes))

    async def _send(self, hashes: Sequence[bytes]) -> bool:
        await self._topics.pending(hashes)
        if self._topics.whole_wanted:
            await self._topics.whole_pending(await self._transactions(hashes))
        return True


def _is_cancelled() -> bool:
    """Is the task that runs to end? A CancelledError without that is of something that it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _attempt(work: Awaitable[bool]) -> bool:
    """Did the work succeed? A failure that nobody foresaw is reported, and ends nothing but this work."""
    try:
        return await work
    except asyncio.CancelledError:
        if _is_cancelled():
            raise
    except Exception as error:
        report_bug("pending transactions are not followed for a moment", error)
    return False


def _fit(head: NodeHead) -> bool:
    """May the node be listened to?"""
    return head.pushes and head.answering and head.chain_ok is not False


def _texts(result: bytes) -> list[bytes]:
    """The strings of a list, as raw JSON texts; none where it is no list of strings."""
    try:
        return [b'"%b"' % name.encode() for name in msgspec.json.decode(result, type=list[str])]
    except UNREADABLE:
        return []
