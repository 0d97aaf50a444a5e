"""What becomes of a node's answer: a hint of the node's head, a kept entry, and the outcome that callers get.

How calls end that no good answer of their own ends: what the client is told, and what is counted.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import msgspec

from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.cache.retention import Keep, judge, lifetime
from rpcaccel.core.dispatch.outcome import Forwarded, Outcome
from rpcaccel.core.heads.recent_writes import Sent
from rpcaccel.core.messages import Hint
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.replies.answer import error_parts
from rpcaccel.core.replies.failure import Failure, FailureKind, policy, uniform_code
from rpcaccel.core.stats.counters import AnswerSource, Step
from rpcaccel.core.stats.tally import Tally
from rpcaccel.core.wire import json_text, jsonrpc
from rpcaccel.core.wire.json_params import number_at
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.stores.base import Store

_ADDRESS = re.compile(r"https?://\S+?(?=:?(?:\s|$))")
"""Where a node is: for the operator, in log and page, and not for clients."""


def miss_reason(plan: Plan) -> str:
    """Why memory had nothing; a fixed set of words, since it is a metric label."""
    if plan.key is not None or plan.head_key is not None:
        return "not-kept-yet"
    if plan.rule.off:
        return "off"
    return "not-understood" if plan.note and plan.cache is CacheClass.NEVER else str(plan.cache)


def refused(why: str, head: int) -> Outcome:
    """The method is not for clients."""
    return Outcome(source=AnswerSource.REFUSED, error=jsonrpc.error_object(jsonrpc.METHOD_NOT_FOUND, why), block=head)


def with_uniform_code(error: bytes, failure: Failure | None) -> bytes:
    """A node's error object under one of the codes of `uniform_code`; unchanged, to the byte, if it has one already."""
    code, _ = error_parts(error)
    kind = failure.kind if failure is not None else FailureKind.UNKNOWN
    if (uniform := uniform_code(kind, code)) == code:
        return error
    try:
        members = json_text.members(error)
    except (json_text.NotJson, json_text.TooDeep):
        return jsonrpc.error_object(uniform, "the node's error cannot be read")
    return msgspec.json.encode({**members, "code": uniform})


def failed(forwarded: Forwarded, head: int, steps: tuple[tuple[str, float], ...]) -> Outcome:
    """Every attempt failed, or none could be made: the proxy's own error."""
    failure = forwarded.failure or Failure(FailureKind.UNKNOWN, "no answer")
    row = policy(failure.kind)
    return Outcome(
        source=AnswerSource.NODE,
        error=jsonrpc.error_object(row.code, _ADDRESS.sub("the node's URL", failure.text)),
        node=forwarded.node_id,
        block=head,
        attempts=forwarded.attempts,
        http=row.http,
        retry_after=failure.retry_after,
        kind=failure.kind,
        steps=steps,
        legs=forwarded.legs,
    )


def joined(outcome: Outcome, waited: float) -> Outcome:
    """What a caller is told of a flight that another began, after so many seconds."""
    return Outcome(
        source=AnswerSource.FLIGHT,
        result=outcome.result,
        error=outcome.error,
        node=outcome.node,
        block=outcome.block,
        http=outcome.http,
        retry_after=outcome.retry_after,
        steps=((Step.FLIGHT, waited),),
    )


def out_of_time(head: int) -> Outcome:
    """The time that the client itself has given is over."""
    row = policy(FailureKind.TIMEOUT)
    error = jsonrpc.error_object(row.code, "no answer within the time that the request gave")
    return Outcome(source=AnswerSource.NODE, error=error, block=head, http=row.http, kind=FailureKind.TIMEOUT)


_SKIP, _LASTING, _HEAD, _NODE = (
    Keep.SKIP,
    Keep.LASTING,
    CacheClass.HEAD,
    AnswerSource.NODE,
)  # looked up once (core.plan.planner)


class AnswerHandler:
    """Takes in what came back. One per worker."""

    __slots__ = ("_clock", "_memory", "_on_hint", "_rng", "_second_tier", "_store", "_tally")

    def __init__(
        self,
        memory: MemoryTier,
        store: Store,
        tally: Tally,
        clock: Callable[[], float],
        rng: random.Random,
        on_hint: Callable[[Hint | Sent], None],
    ) -> None:
        """`on_hint` is told when an answer shows how far a node is."""
        self._memory = memory
        self._store = store
        self._second_tier = store.name != "memory"
        self._tally = tally
        self._clock = clock
        self._rng = rng
        self._on_hint = on_hint

    def conclude(self, network: Network, plan: Plan, forwarded: Forwarded, timed: list[tuple[Step, float]]) -> Outcome:
        """How a call ended that was taken to the nodes; a good answer is kept where it may be. `timed`: its steps."""
        answer, steps = forwarded.answer, self.timed(timed)
        if answer is None:
            return failed(forwarded, plan.head, steps)
        if answer.result is None:
            error = answer.error or b"null"
            if network.settings.uniform_error_codes:
                error = with_uniform_code(error, forwarded.failure)
            return Outcome(
                source=_NODE,
                error=error,
                node=forwarded.node_id,
                block=plan.head,
                attempts=forwarded.attempts,
                kind=forwarded.failure.kind if forwarded.failure is not None else None,
                steps=steps,
                legs=forwarded.legs,
            )
        result = bytes(answer.result)
        if plan.rule.head_at:
            self._take_hint(network, plan, result, forwarded.node_id)
        if forwarded.failure is None:  # else it is what a node answers that cannot know better
            self.keep(network, plan, result, forwarded.node_head)
        return Outcome(
            source=_NODE,
            result=result,
            node=forwarded.node_id,
            block=plan.head,
            attempts=forwarded.attempts,
            node_head=forwarded.node_head,
            steps=steps,
            legs=forwarded.legs,
        )

    def keep(self, network: Network, plan: Plan, result: bytes, node_head: int) -> None:
        """Keep an answer of a node whose head was `node_head`, where and as long as it may be."""
        if plan.range is not None and not plan.kept:
            return  # a run of pieces, each of which is kept by itself
        verdict = judge(plan, result, node_head, network.view, self._memory.max_entry)
        if verdict.reason:
            network.cell(plan).skipped(verdict.reason)
        if verdict.keep is _SKIP:
            return
        lasting = verdict.keep is _LASTING
        key = plan.key if lasting else plan.head_key
        if key is None:
            return
        now = self._clock()
        life = lifetime(
            plan.cache if lasting else _HEAD,
            network.chain.block_time,
            max_age=plan.rule.max_age,
            stale=plan.rule.stale,
        ).spread(self._rng.random())
        entry = Entry(
            result=result,
            cache=plan.cache,
            block=plan.head if plan.block is None else plan.block,
            network=network.name,
            method=plan.method,
            stored_at=now,
            expires=now + life.memory,
        )
        self._memory.put(key, entry, now)
        if self._second_tier and key in plan.shared_keys:
            self._store.put(key, entry, life.store)

    def _take_hint(self, network: Network, plan: Plan, result: bytes, node_id: str) -> None:
        """Some answers name a block that the node has: the control plane is told of one that is news, and says how
        much of it is believed."""
        head = number_at(result, plan.rule.head_at)
        if head is None or head <= network.view.head:
            return
        for node in network.pool.nodes:
            if node.id == node_id and node.head < head:
                self._on_hint(Hint(network.name, node_id, head))

    def timed(self, steps: list[tuple[Step, float]]) -> tuple[tuple[str, float], ...]:
        """Count what took how long."""
        told: tuple[tuple[str, float], ...] = ()
        for step, seconds in steps:
            self._tally.step(step, seconds)
            told += ((str.__str__(step), seconds),)  # words that format quickly
        return told
