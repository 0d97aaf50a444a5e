"""The subscriptions of one worker: answers subscribe and unsubscribe, and hands heads on to those who follow them.

A network is followed from its first subscription on, for all clients of the worker together.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from secrets import token_hex

from msgspec.structs import replace

from rpcaccel.config.sections import WebSocketSettings
from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.heads.served_head import NetworkHeads
from rpcaccel.core.live import subscription as subscriptions
from rpcaccel.core.live.log_filter import LogFilter
from rpcaccel.core.live.subscription import Replay, Topic
from rpcaccel.core.messages import Announced
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.stats.counters import AnswerSource, CutReason, NetworkCell
from rpcaccel.core.stats.tally import Tally
from rpcaccel.core.wire import jsonrpc
from rpcaccel.core.wire.jsonrpc import Invalid
from rpcaccel.dataplane.engine.engine import Engine
from rpcaccel.dataplane.live.follower import Follower
from rpcaccel.dataplane.live.live_session import LiveSession, LiveSubscription, MessageTurn, cut
from rpcaccel.dataplane.live.pending import PendingTransactions
from rpcaccel.dataplane.live.topics import Topics
from rpcaccel.dataplane.networks.build import same_chain
from rpcaccel.dataplane.networks.network import Network

MAX_FILTER_BYTES = 64 << 20
"""Bytes that the different filters of logs of a worker may take."""
PART_OF_FILTERS = 4
"""One part in so many of these bytes is what the filters of one client may take."""
MAX_RESUMING = 2000
"""Subscriptions of one client that are still sent what they missed."""
HEADS_OF_A_CALL, LOGS_OF_A_CALL = 16, 256
"""Blocks that are sent again for the price of one call."""
NETWORK_GONE = "the network is no longer served here"
_ID_BYTES = 16


Pay = Callable[[str, int], Outcome | None]
"""Has a client pay for so many calls of a method; the refusal where it may not make them."""


@dataclass(slots=True)
class _Filter:
    """A filter that is held."""

    filter: LogFilter
    holder: str
    """The client that came with it first."""
    uses: int = 0


class _Filters:
    """The different filters of logs that are subscribed to, each held once, and the bytes that they take. A filter
    counts for the client that came with it first, as long as anybody uses it."""

    def __init__(self, most: int) -> None:
        """`most`: bytes that they may take."""
        self._most = most
        self._held: dict[LogFilter, _Filter] = {}
        self._bytes: Counter[str] = Counter()
        """The bytes of each client's filters, by its name."""

    def take(self, one: LogFilter, holder: str) -> LogFilter | str:
        """The held filter that equals this one, used once more; or the limit that it exceeds, in words."""
        held = self._held.get(one)
        if held is None:
            part = self._most // PART_OF_FILTERS
            if self._bytes[holder] + one.weight > part:
                return f"{part} bytes of filters of one client"
            if self._bytes.total() + one.weight > self._most:
                return f"{self._most} bytes of filters of all clients together"
            self._bytes[holder] += one.weight
            held = self._held[one] = _Filter(one, holder)
        held.uses += 1
        return held.filter

    def drop(self, one: LogFilter) -> None:
        """Undo one `take`."""
        held = self._held[one]
        held.uses -= 1
        if not held.uses:
            del self._held[one]
            self._bytes[held.holder] -= one.weight
            if not self._bytes[held.holder]:
                del self._bytes[held.holder]


class _Followed:
    """A network that is followed for the subscriptions of this worker."""

    def __init__(
        self,
        topics: Topics,
        cell: NetworkCell,
        follower: Follower,
        pending: PendingTransactions,
        filters: _Filters,
        behind: Counter[str],
    ) -> None:
        self.cell = cell
        self.topics = topics
        self._follower = follower
        self._pending = pending
        self.held: dict[LiveSubscription, None] = {}
        """All subscriptions, also those that have not joined the topics yet."""
        self._filters = filters
        self._behind = behind

    def open(self, subscription_id: str, topic: Topic, session: LiveSession) -> LiveSubscription:
        """A new subscription, which is counted until it ends."""
        opened = LiveSubscription(subscription_id, topic, session, self)
        self.held[opened] = None
        self._count(topic.kind, 1)
        if topic.from_block is not None:
            self.cell.resumed += 1
            self._behind[session.holder] += 1
        return opened

    def begin(self, subscription: LiveSubscription) -> None:
        """Send what the subscription wants from now on."""
        if subscription.topic.kind == subscriptions.PENDING:
            self.topics.add(subscription)
            self._pending.want(wanted=True)
        else:
            self._follower.begin(subscription)

    def joined(self, subscription: LiveSubscription) -> None:
        """Note that a subscription was sent all that it missed."""
        if subscription.topic.from_block is not None:
            self._caught_up(subscription)

    def _caught_up(self, subscription: LiveSubscription) -> None:
        holder = subscription.session.holder
        self._behind[holder] -= 1
        if not self._behind[holder]:
            del self._behind[holder]

    def ended(self, subscription: LiveSubscription) -> None:
        """Forget a subscription that has ended."""
        del self.held[subscription]
        if subscription.topic.from_block is not None and not subscription.number:
            self._caught_up(subscription)
        self._count(subscription.topic.kind, -1)
        if subscription.topic.filter is not None:
            self._filters.drop(subscription.topic.filter)
        self.topics.remove(subscription)
        self._pending.want(wanted=self.topics.pending_wanted)
        self._follower.ended(subscription)

    def see(self, heads: NetworkHeads) -> None:
        """Take the heads of the network."""
        self._pending.see(heads)
        self._follower.look(heads.served)

    def announced(self, header: Announced) -> None:
        """Take a header that a node pushed."""
        self._follower.announced(header)

    def adopt(self, network: Network) -> None:
        """Take the network of a new revision."""
        self._pending.adopt(network)
        self._follower.adopt(network)

    async def close(self) -> None:
        """Stop following."""
        await self._pending.close()
        await self._follower.close()

    def cut(self, reason: CutReason, words: str) -> None:
        """Close all connections with subscriptions here."""
        for one in list(self.held):
            cut(one.session, self.cell, reason, words)

    def _count(self, kind: str, change: int) -> None:
        self.cell.subscriptions[kind] = self.cell.subscriptions.get(kind, 0) + change


class Hub:
    """The subscriptions of one worker."""

    def __init__(
        self,
        tally: Tally,
        clock: Callable[[], float],
        engine: Engine,
        settings: WebSocketSettings,
        *,
        follow: type[Follower] = Follower,
        listen: type[PendingTransactions] = PendingTransactions,
        token: Callable[[int], str] = token_hex,
        most_filters: int = MAX_FILTER_BYTES,
    ) -> None:
        """
        Args:
            follow: what follows the blocks of a network; `listen`: its pending transactions.
            token: gives so many random bytes in hex.
            most_filters: bytes that the different filters of logs may take.
        """
        self.settings = settings
        self._tally = tally
        self._clock = clock
        self._engine = engine
        self._follow, self._listen = follow, listen
        self._token = token
        self._filters = _Filters(most_filters)
        self.most_behind = MAX_RESUMING
        self._behind: Counter[str] = Counter()
        """By client: the subscriptions that are still sent what they missed."""
        self._networks: Mapping[str, Network] = {}
        self._followed: dict[str, _Followed] = {}
        self._heads: dict[str, NetworkHeads] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Hub {' '.join(self._followed)}>"

    def answer(self, network: Network, plan: Plan, turn: MessageTurn | None, pay: Pay) -> Outcome:
        """The answer to a subscribe or an unsubscribe.

        Args:
            turn: the message that it came in; None over HTTP.
            pay: called when blocks are to be sent again, with the method by which the client could have got them.
        """
        namespace, _, verb = plan.method.rpartition("_")
        if verb == subscriptions.UNSUBSCRIBE:
            return self._unsubscribe(network, plan, turn)
        if turn is None:
            error = Invalid(network.chain.live.http_code, subscriptions.NOT_SUPPORTED)
            return _refused(network, error, FailureKind.INVALID_PARAMS)
        if network.name not in self._networks:  # the connection is older than the revision that has it no more
            return _refused(network, Invalid(-32000, NETWORK_GONE), FailureKind.INVALID_PARAMS)
        replay = Replay(network.view.head, self.settings.replay)
        topic = subscriptions.subscribed(namespace, plan.params, network.chain.live, replay)
        if isinstance(topic, Invalid):
            return _refused(network, topic, FailureKind.INVALID_PARAMS)
        return self._subscribe(network, topic, turn, pay)

    def _subscribe(self, network: Network, topic: Topic, turn: MessageTurn, pay: Pay) -> Outcome:
        session = turn.session
        if session.count >= session.most:
            return _too_much(network, f"{session.most} subscriptions on one connection (http.websocket.subscriptions)")
        if topic.from_block is not None:
            if self._behind[session.holder] >= self.most_behind:
                return _too_much(network, f"{self.most_behind} of one client that are still sent what they missed")
            if (refused := pay(*_stands_for(topic, topic.from_block, network.view.head))) is not None:
                return refused
        if topic.filter is not None:
            held = self._filters.take(topic.filter, session.holder)
            if isinstance(held, str):
                return _too_much(network, held)
            topic = replace(topic, filter=held)
        subscription_id = f"0x{self._token(_ID_BYTES)}"
        turn.add(self._of(network.name).open(subscription_id, topic, session))
        return Outcome(source=AnswerSource.LIVE, result=b'"%b"' % subscription_id.encode(), block=network.view.head)

    def _unsubscribe(self, network: Network, plan: Plan, turn: MessageTurn | None) -> Outcome:
        """End a subscription of the connection: as on nodes, whatever the namespace."""
        named = subscriptions.unsubscribed(plan.params)
        if isinstance(named, Invalid):
            return _refused(network, named, FailureKind.INVALID_PARAMS)
        if turn is None or not turn.session.end(named):
            return _refused(network, subscriptions.NOT_FOUND, FailureKind.FILTER_NOT_FOUND)
        return Outcome(source=AnswerSource.LIVE, result=b"true", block=network.view.head)

    def _of(self, name: str) -> _Followed:
        """A network of the revision in force, with its topics and its followers."""
        found = self._followed.get(name)
        if found is None:
            cell, network = self._tally.network(name), self._networks[name]
            topics = Topics(cell, self._clock)
            follower = self._follow(network, self._engine, topics, cell, self._clock)
            pending = self._listen(network, self._engine, topics)
            found = _Followed(topics, cell, follower, pending, self._filters, self._behind)
            self._followed[name] = found
            if name in self._heads:
                found.see(self._heads[name])
        return found

    def see(self, heads: NetworkHeads) -> None:
        """Take the heads of a network."""
        self._heads[heads.network] = heads
        if heads.network in self._followed:
            self._followed[heads.network].see(heads)

    def announced(self, header: Announced) -> None:
        """Take a header that a node pushed; the served head that follows from it comes afterwards."""
        if header.network in self._followed:
            self._followed[header.network].announced(header)

    def adopt(self, networks: Mapping[str, Network], settings: WebSocketSettings) -> None:
        """Take the networks of a new revision. The subscribers of one that is gone are told so and closed."""
        before, self.settings, self._networks = self._networks, settings, networks
        for name in list(self._heads):
            known = before.get(name)
            if name not in networks or (known and not same_chain(known.settings, networks[name].settings)):
                del self._heads[name]
        for name in list(self._followed):
            if name in networks:
                self._followed[name].adopt(networks[name])
                continue
            gone = self._followed.pop(name)
            gone.cut(CutReason.RESTARTED, NETWORK_GONE)
            task = asyncio.get_running_loop().create_task(gone.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Stop following. The connections have been closed before."""
        followed, self._followed = self._followed, {}
        for one in followed.values():
            await one.close()
        await asyncio.gather(*self._closing, return_exceptions=True)


def _stands_for(topic: Topic, first: int, head: int) -> tuple[str, int]:
    """The method by which a client gets the blocks that it wants to be sent again, and the number of its calls."""
    name, blocks = ("getLogs", LOGS_OF_A_CALL) if topic.filter is not None else ("getBlockByNumber", HEADS_OF_A_CALL)
    return f"{topic.namespace}_{name}", 1 + max(0, head - first) // blocks


def _refused(network: Network, error: Invalid, kind: FailureKind) -> Outcome:
    text = jsonrpc.error_object(error.code, error.message)
    return Outcome(source=AnswerSource.LIVE, error=text, block=network.view.head, kind=kind)


def _too_much(network: Network, what: str) -> Outcome:
    """The refusal of one more subscription."""
    text = jsonrpc.error_object(jsonrpc.LIMIT_EXCEEDED, f"too many subscriptions: at most {what}")
    return Outcome(source=AnswerSource.REFUSED, error=text, block=network.view.head)
