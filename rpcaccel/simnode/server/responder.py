"""A simulated node without its sockets: its view of the chain, and its answer to each call."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from rpcaccel import chains
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.planner import Planner
from rpcaccel.core.replies.result_check import block_of
from rpcaccel.simnode.chain.clock import Clock
from rpcaccel.simnode.chain.knobs import Knobs
from rpcaccel.simnode.chain.sim_chain import Branch, SimChain
from rpcaccel.simnode.methods import (  # noqa: F401 - each file fills its kind's method table
    block_methods,
    ethereum_methods,
    filter_methods,
    node_methods,
    staking_methods,
    state_methods,
    transaction_methods,
)
from rpcaccel.simnode.methods.client_spelling import spelled
from rpcaccel.simnode.methods.node_identity import Local
from rpcaccel.simnode.methods.registry import (
    ETHEREUM,
    HARMONY,
    NOT_BEACON,
    MethodCall,
    RpcError,
    beacon_only,
    failed,
    no_notifications,
    read_params,
    text,
)
from rpcaccel.simnode.server.counts import Counts
from rpcaccel.simnode.server.envelope import INVALID, RequestItem, failure, success
from rpcaccel.simnode.server.rate_limits import Limiters

_STUMBLES = (TypeError, ValueError, AttributeError, LookupError, OverflowError)
"""Errors of a method that gets arguments it does not expect: the handler of a real node panics, and the panic is
caught."""


class Responder:
    """Answers calls as one node of the chain would."""

    def __init__(self, chain: SimChain, name: str, knobs: Knobs, clock: Clock) -> None:
        self.chain = chain
        self.knobs = knobs
        self.clock = clock
        self.rng = Random(f"{chain.spec.seed}/{name}")
        self.local = Local(name, knobs, clock, self.rng)
        self.counts = Counts()
        self._limiters = Limiters()
        table = chains.load(chain.spec.kind)
        self._planner = Planner("simnode", table.rules, table.tags, final_at_once=True)
        self._registry = HARMONY if chain.spec.kind == "harmony" else ETHEREUM
        self._stalled_at: int | None = None
        knobs.on_change = self._before_change
        if knobs.stall:
            self._stalled_at = self._moving_head()

    def __repr__(self) -> str:
        return f"<Responder {self.local.name} head {self.head}>"

    def _before_change(self, name: str) -> None:
        if name == "stall" and not self.knobs.stall:
            self._stalled_at = self._moving_head()
        self.chain.stir()

    @property
    def head(self) -> int:
        """The newest block that this node has."""
        if self.knobs.stall and self._stalled_at is not None:
            return self._stalled_at
        return self._moving_head()

    def _moving_head(self) -> int:
        knobs = self.knobs
        head = self.chain.heads.head(knobs.skew) - knobs.lag
        if knobs.wander and self._wanders(head):
            head -= 1
        return max(0, head)

    def _wanders(self, head: int) -> bool:
        # The height decides, not the call: the head of the node must not jump to and fro within one block.
        draw = self.chain.generator.digest(b"wander", self.local.name.encode(), head, size=4)
        return int.from_bytes(draw, "big") < self.knobs.wander * 2**32

    @property
    def branch(self) -> Branch:
        """The branch that this node follows."""
        return self.chain.branches[self.knobs.branch]

    def view(self, branch: Branch | None = None) -> MethodCall:
        """The chain as subscribers of this node see it, on its own branch or another."""
        version = "geth" if self.chain.spec.kind == "ethereum" else "eth"
        return MethodCall(self.chain, branch or self.branch, self.head, self.local, version)

    def note(self, call: RequestItem) -> None:
        """Count a call that something else answers."""
        self.counts.methods[call.method] += 1
        self.counts.log.append((call.method, call.params))
        self.counts.settle()

    async def reply(self, call: RequestItem) -> bytes | None:
        """The reply to one call, None for a notification. Waits for the node's work and for its limiters."""
        if not call.method:
            self.counts.errors += 1
            return failure(call.id or b"null", INVALID)
        self.note(call)
        try:
            result = await self._run(call)
        except RpcError as error:
            self.counts.errors += 1
            answer = failure(call.id or b"null", error.encode())
        else:
            answer = success(call.id or b"null", result)
        if call.id is None:
            self.counts.notifications += 1
            return None
        return answer

    async def ask(self, method: str, *params: Any) -> Any:
        """The decoded result of a call made in-process, counted nowhere. Raises RpcError."""
        return json.loads(await self._run(RequestItem(method, text(params), None)))

    async def _run(self, call: RequestItem) -> bytes:
        found = self._registry.methods.get(call.method)
        if found is None or call.method in self.knobs.missing:
            raise RpcError(-32601, f"the method {call.method} does not exist/is not available")
        method, version = found
        work = self.knobs.method_work.get(call.method, self.knobs.work).draw(self.rng)
        if work:
            await self.clock.sleep(work)
        try:
            arguments = read_params(method, call.params)
        except RpcError:
            if call.method.endswith("_subscribe"):
                raise no_notifications(version) from None
            raise
        if method.beacon and not beacon_only(self.chain.spec):
            raise failed(NOT_BEACON)
        if method.limiter:
            await self._pass_limiter(method.limiter, version)
        said = call.method.encode() + call.params
        asked = MethodCall(self.chain, self.branch, self.head, self.local, version, said)
        try:
            result = method.run(asked, *arguments)
        except _STUMBLES:
            raise failed("method handler crashed") from None
        if self.knobs.oldest:
            result = self._kept(call, result)
        return spelled(self.knobs.client, call.method, result) if version == "geth" else result

    def _kept(self, call: RequestItem, result: bytes) -> bytes:
        """The result of a node that dropped its old blocks."""
        view = ChainSnapshot(head=self.head, best=self.head, final=self.head, eth_chain_id=1, network_id=1)
        plan = self._planner.plan(call.method, call.params or b"[]", view)
        block = block_of(result) if plan.oldest is None else plan.oldest
        if block is None or not 0 < block < self.knobs.oldest:
            return result
        return b"[]" if plan.rule.split else b"null"

    async def _pass_limiter(self, name: str, version: str) -> None:
        knobs = self.knobs
        wait = self._limiters.wait(name, version, self.clock.now(), small=knobs.limiters, rate=knobs.rate_limit)
        if wait:
            await self.clock.sleep(wait)
