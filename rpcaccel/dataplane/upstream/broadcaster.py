"""Sends a transaction to many nodes: drives `core.dispatch.broadcast`, answers at the first acceptance, and goes on
with the other nodes behind the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from rpcaccel.core.cache.retention import NULL
from rpcaccel.core.dispatch.broadcast import AskNode, Broadcast, BroadcastSettings
from rpcaccel.core.dispatch.dispatch_policy import Settle
from rpcaccel.core.dispatch.machine import Asked, failure_of
from rpcaccel.core.dispatch.outcome import Forwarded
from rpcaccel.core.hashing.keccak import transaction_hash
from rpcaccel.core.heads.recent_writes import hash_text
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.stats.counters import NetworkCell, bump
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.dataplane.upstream.attempt import Attempt, attempt, concluded
from rpcaccel.dataplane.upstream.chooser import CallOrigin, Chooser
from rpcaccel.dataplane.upstream.pool import NodePool

Taken = Callable[[bytes, tuple[str, ...]], None]
"""The hash of a transaction (JSON text), and the nodes that took it."""
PlanOf = Callable[[str, bytes], Plan]
"""The plan of a method with params, at this moment."""


class _Found(msgspec.Struct):
    hash: msgspec.Raw = msgspec.Raw()


_decode_found = msgspec.json.Decoder(_Found).decode


class Broadcasts:
    """The broadcasts of one worker. After a client has its answer, the rest of a broadcast goes on here, within the
    call's deadline."""

    __slots__ = ("_running",)

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def __repr__(self) -> str:
        return f"<broadcasts, {len(self)} nodes being told>"

    async def send(
        self,
        plan: Plan,
        pool: NodePool,
        settings: BroadcastSettings,
        plan_of: PlanOf,
        cell: NetworkCell,
        taken: Taken,
        *,
        deadline: float,
        origin: CallOrigin,
    ) -> Forwarded:
        """Send the transaction; the answer is the first acceptance, or the most telling refusal.

        Args:
            settings: how many nodes are told.
            plan_of: plans the lookup of a transaction that nodes say they have.
            taken: called with every node that takes the transaction, also after the answer.
            deadline: when the call must be over, on the pool's clock.
        """
        route_key = plan.route_key or origin.address.encode()
        chooser = Chooser(plan, pool.nodes, pool.balancer, pool.rng, route_key, urgent=True)
        named = transaction_hash(plan.params)
        sure = named if plan.rule.names_itself == "keccak" else None
        machine = Broadcast(chooser, pool.budget, settings, ends=deadline, hash=sure)
        telling = _Telling(machine, plan, pool, deadline, taken, origin)
        for node in machine.start(chooser.count(pool.clock()), pool.clock()):
            self.begin(telling.tell(node, cell))
        if machine.open:
            await asyncio.shield(telling.decided)
        end = machine.end() or Settle(None, None, None)
        if end.failure is not None and machine.doubt is not None and named is not None:
            lookup = plan_of(plan.rule.found_by, b"[%b]" % named)
            end = await _look_up(machine.doubt, named, lookup, pool, deadline, origin) or end
        bump(cell.broadcasts, _word(end, machine))
        return concluded(end, machine, telling.attempts, count=telling.begun, forced=chooser.forced)

    async def close(self, grace: float = 0.0) -> None:
        """Give the broadcasts under way `grace` seconds, then end them."""
        running = list(self._running)
        if running and grace > 0:
            await asyncio.wait(running, timeout=grace)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin work that no caller waits for, such as a part of a broadcast."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)


class _Telling:
    """One broadcast, with a task for each node."""

    __slots__ = ("_origin", "_plan", "_pool", "attempts", "begun", "decided", "ends", "machine", "taken")

    def __init__(
        self, machine: Broadcast, plan: Plan, pool: NodePool, ends: float, taken: Taken, origin: CallOrigin
    ) -> None:
        self._origin = origin
        self.machine = machine
        self._plan = plan
        self._pool = pool
        self.attempts: list[Attempt] = []
        """The attempts that are over."""
        self.begun = 0
        """The number of attempts, also of those under way."""
        self.ends = ends
        self.taken = taken
        self.decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def tell(self, first: Node, cell: NetworkCell) -> None:
        """Send the transaction to one node, again if the node is busy, and to another one if the node is gone."""
        machine, clock = self.machine, self._pool.clock
        ask: AskNode | None = AskNode(first)
        number = 0
        try:
            while ask is not None:
                number += 1
                await asyncio.sleep(ask.delay)
                self.begun += 1
                node, timeout = ask.node, min(ask.node.timeout, self.ends - clock())
                made, reply, kind = await attempt(self._plan, self._pool, Asked(number, node, timeout), self._origin)
                self.attempts.append(made)
                answer, failure = _parts(reply, kind, node)
                ask = machine.heard(node, answer, failure, clock())
                self._note(node, answer, failure)
        finally:
            if ask is not None:  # cancelled: this node's answer will not come
                machine.lost()
            if machine.end() is not None and not self.decided.done():
                self.decided.set_result(None)
            if not machine.open:
                for how, count in machine.told.items():
                    cell.told[how] = cell.told.get(how, 0) + count

    def _note(self, node: Node, answer: Answer | None, failure: Failure | None) -> None:
        """Report a node that took the transaction, now or before, so that lookups may go there."""
        if failure is None and answer is not None and answer.result is not None:
            self.taken(bytes(answer.result), (node.id,))
        elif failure is not None and failure.kind is FailureKind.ALREADY_KNOWN and self.machine.hash is not None:
            self.taken(self.machine.hash, (node.id,))


def _parts(reply: Answer | Failure, kind: FailureKind | None, node: Node) -> tuple[Answer | None, Failure | None]:
    if isinstance(reply, Failure):
        return None, reply
    return reply, None if kind is None else failure_of(reply, kind, node)


async def _look_up(
    node: Node, named: bytes, plan: Plan, pool: NodePool, deadline: float, origin: CallOrigin
) -> Settle | None:
    """Look a transaction up on a node that says it has it: success may be claimed only when the exact hash is found."""
    asked = Asked(1, node, min(node.timeout, deadline - pool.clock()))
    _, reply, kind = await attempt(plan, pool, asked, origin)
    if kind is not None or not isinstance(reply, Answer) or reply.result is None or bytes(reply.result) == NULL:
        return None
    return Settle(Answer(result=_own_name(bytes(reply.result)) or named), None, node)


def _own_name(found: bytes) -> bytes | None:
    """The hash under which the node knows the transaction: Harmony's own methods use another one than the hash of the
    signed bytes."""
    try:
        return hash_text(bytes(_decode_found(found).hash))
    except UNREADABLE:
        return None


def _word(end: Settle, machine: Broadcast) -> str:
    """The outcome of a broadcast, for the metrics."""
    if end.failure is None:
        return "accepted" if machine.told["accepted"] else "known"
    return "refused" if end.answer is not None else "failed"
