"""A simulated node without its sockets: its view of the chain, its answer to each call, its limiters and its counts."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any

from rpcaccel import chains
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.planner import Planner
from rpcaccel.core.replies.result_check import block_of
from rpcaccel.simnode.chain.knobs import Knobs
from rpcaccel.simnode.chain.sim_chain import Branch, Clock, SimChain
from rpcaccel.simnode.methods import (  # noqa: F401 - each file fills its kind's method table
    block_methods,
    log_methods,
    node_methods,
    staking_methods,
    state_methods,
    transaction_methods,
)
from rpcaccel.simnode.methods.client_spelling import spelled
from rpcaccel.simnode.methods.registry import CRASHED, ETHEREUM, HARMONY, Local, Method, MethodCall, RpcError, text
from rpcaccel.simnode.server.envelope import INVALID, RequestItem, failure, success

LIMITER_WAIT = 5.0
"""Seconds that a call may wait for a limiter; one that would wait longer is refused at once."""
LIMITER_REFUSAL = "rate: Wait(n=1) would exceed context deadline"
SMALL_LIMITERS: dict[str, tuple[float, float]] = {
    "staking_network_info": (5.0, 10.0),
    "super_committees": (5.0, 10.0),
    "utility_metrics": (5.0, 10.0),
    "all_validators": (1.0, 3.0),
    "all_delegations": (1.0, 3.0),
    "delegations": (5.0, 20.0),
}
"""Tokens a second and burst of the six limiters that a Harmony node always has (docs/harmony.md section 3)."""
_STUMBLES = (TypeError, ValueError, AttributeError, LookupError, OverflowError)
"""Errors of a method that gets arguments it does not expect: the handler of a real node panics, and the panic is
caught."""


class Counts:
    """Plain counters of what a node was asked, so that a test can assert it; `reset` starts them anew."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[Counts], bool], asyncio.Future[None]]] = []
        self.reset()

    def __repr__(self) -> str:
        return f"<Counts {self.calls} calls, {self.requests} requests, {self.connections} connections>"

    def reset(self) -> None:
        self.methods: Counter[str] = Counter()
        """Calls by method, including those in batches and those that met a fault."""
        self.requests = 0
        """HTTP requests with a JSON-RPC body, and messages of WebSockets."""
        self.batches = self.batch_items = self.notifications = 0
        self.connections = self.sockets = self.refused = self.subscriptions = self.pushed = self.errors = 0
        """TCP connections accepted, WebSockets opened, upgrades that opened none, subscriptions made, notifications
        sent, and error replies."""
        self.faults: Counter[str] = Counter()
        self.log: deque[tuple[str, bytes]] = deque(maxlen=1000)
        """The newest calls: method and raw params."""

    @property
    def calls(self) -> int:
        return self.methods.total()

    def asked(self, method: str) -> int:
        return self.methods[method]

    async def until(self, reached: Callable[[Counts], bool]) -> None:
        """Wait until `reached(counts)` holds: `await node.counts.until(lambda c: c.asked("eth_call") == 2)`."""
        if not reached(self):
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((reached, done))
            await done

    def settle(self) -> None:
        """Wake the callers of `until` whose condition holds now."""
        for waiting in [waiting for waiting in self._waiting if waiting[0](self)]:
            self._waiting.remove(waiting)
            if not waiting[1].done():
                waiting[1].set_result(None)

    def view(self) -> dict[str, Any]:
        """Everything as plain JSON values, without the log."""
        plain = {name: value for name, value in vars(self).items() if isinstance(value, int)}
        return {
            "calls": self.calls,
            "methods": dict(sorted(self.methods.items())),
            **plain,
            "faults": dict(self.faults),
        }


class GoTokenBucket:
    """A token bucket as in Go's x/time/rate. Each call asks `Allow()` and then `Wait()`, so that a call on an idle node
    takes two tokens."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = self._tokens = burst
        self._at = 0.0

    def take(self, now: float) -> float:
        """Seconds that the call has to wait. Raises RpcError when that is more than LIMITER_WAIT."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
        wait = max(0.0, (1 - self._tokens) / self._rate)
        if wait > LIMITER_WAIT:
            raise RpcError(LIMITER_REFUSAL)
        self._tokens -= 1
        return wait


class Responder:
    """Answers calls as one node of the chain would."""

    def __init__(self, chain: SimChain, name: str, knobs: Knobs, clock: Clock) -> None:
        self.chain = chain
        self.knobs = knobs
        self.clock = clock
        self.rng = Random(f"{chain.spec.seed}/{name}")
        self.local = Local(name, knobs, clock, self.rng)
        self.counts = Counts()
        self._limiters: dict[tuple[str, str, float], GoTokenBucket] = {}
        table = chains.load(chain.spec.kind)
        self._planner = Planner("simnode", table.rules, table.tags, final_at_once=True)
        self._methods = HARMONY if chain.spec.kind == "harmony" else ETHEREUM
        self._stalled_at = self._moving_head() if knobs.stall else 0
        knobs.on_change = self._before_change

    def __repr__(self) -> str:
        return f"<Responder {self.local.name} head {self.head}>"

    def _before_change(self, name: str) -> None:
        if name == "stall" and not self.knobs.stall:
            self._stalled_at = self._moving_head()
        self.chain.stir()

    @property
    def head(self) -> int:
        """The newest block that this node has."""
        return self._stalled_at if self.knobs.stall else self._moving_head()

    def _moving_head(self) -> int:
        knobs = self.knobs
        head = self.chain.heads.head(knobs.skew) - knobs.lag
        # The height decides, not the call: the head of the node must not jump to and fro within one block.
        if knobs.wander and self.chain.generator.draw(b"wander", self.local.name.encode(), head) < knobs.wander:
            head -= 1
        return max(0, head)

    @property
    def branch(self) -> Branch:
        return self.chain.branches[self.knobs.branch]

    def view(self, branch: Branch | None = None) -> MethodCall:
        """The chain as subscribers of this node see it, on its own branch or another."""
        version = "geth" if self.chain.spec.kind == "ethereum" else "eth"
        call = MethodCall(self.chain, branch or self.branch, self.head, self.local, version)
        self.chain.catch_up()
        return call

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
            answer = success(call.id or b"null", await self._run(call))
        except RpcError as error:
            self.counts.errors += 1
            answer = failure(call.id or b"null", error.encode())
        if call.id is None:
            self.counts.notifications += 1
            return None
        return answer

    async def ask(self, method: str, *params: Any) -> Any:
        """The decoded result of a call made in-process, counted nowhere. Raises RpcError."""
        return json.loads(await self._run(RequestItem(method, text(params), None)))

    async def _run(self, call: RequestItem) -> bytes:
        method = self._methods.get(call.method)
        if method is None or call.method in self.knobs.missing:
            raise RpcError(f"the method {call.method} does not exist/is not available", -32601)
        work = self.knobs.method_work.get(call.method, self.knobs.work).draw(self.rng)
        if work:
            await self.clock.sleep(work)
        said = call.method.encode() + call.params
        # A subscribe is refused whatever its arguments are.
        subscribe = call.method.endswith("_subscribe")
        arguments = [] if subscribe else method.arguments(call.params)
        if method.beacon and self.chain.spec.shard:
            raise RpcError("cannot call this rpc on non beaconchain node")
        if wait := self._limited(method):
            await self.clock.sleep(wait)
        try:
            seen = MethodCall(self.chain, self.branch, self.head, self.local, method.version, said)
            self.chain.catch_up()  # after the head is read: all that its block holds was written before it began
            result = method.run(seen, *arguments)
            if method.version == "geth":
                result = spelled(self.knobs.client, call.method, result)
            written = result if isinstance(result, bytes) else text(result)
        except _STUMBLES:
            raise RpcError(CRASHED) from None
        return self._kept(call, written) if self.knobs.oldest else written

    def _kept(self, call: RequestItem, result: bytes) -> bytes:
        """The result of a node that dropped its old blocks."""
        view = ChainSnapshot(head=self.head, best=self.head, final=self.head, eth_chain_id=1, network_id=1)
        plan = self._planner.plan(call.method, call.params or b"[]", view)
        block = block_of(result) if plan.oldest is None else plan.oldest
        if block is None or not 0 < block < self.knobs.oldest:
            return result
        return b"[]" if plan.rule.split else b"null"

    def _limited(self, method: Method) -> float:
        """Seconds that a call waits for the method's limiter, one for each namespace. Raises RpcError when refused."""
        small = SMALL_LIMITERS.get(method.limiter)
        rate, burst = small or (self.knobs.rate_limit, self.knobs.rate_limit)
        if not method.limiter or rate <= 0 or (small and not self.knobs.limiters):
            return 0.0
        limiter = self._limiters.setdefault((method.limiter, method.version, rate), GoTokenBucket(rate, burst))
        return limiter.take(self.clock.now())
