"""Answers with logs are checked before the client gets them: a log must name the hash of its block.

Only chains whose nodes may give false hashes in logs have something to compare (core.replies.log_hashes). What a result
does not prove by itself is compared with the blocks that memory has. A node that proposes blocks must be proven right:
for its answers, blocks that memory does not have are asked for. A node that proposes none keeps no false hashes. A node
that does not say which it is counts as such a one while memory does not contradict it, until it was found wrong once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import islice

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.core.dispatch.outcome import Forwarded
from rpcaccel.core.nodes.eligibility import others_may_be_asked
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.replies.log_hashes import named_hashes
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.dataplane.engine.fetch_context import FetchContext
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.upstream.chooser import CallOrigin

MAX_PROVED_BLOCKS = 128
"""Blocks whose hashes are asked for to prove one answer: a segment of a range. An answer about more is not proven."""
PROOF_SECONDS = 1.5
"""Seconds that an answer waits for the blocks that prove it: they are small, and the client has waited already."""


class LogVerdict(Enum):
    """What is known of the hashes in an answer."""

    RIGHT = "every hash is that of its block"
    FALSE = "a log names a hash that its block does not have"
    UNPROVEN = "the hash of a block could not be had"


Conclude = Callable[[Plan, Forwarded], object]
Again = Callable[[Plan, Sequence[str]], object]
"""Takes the call to the nodes again, except those with these ids."""


class LogCheck:
    """The checks of the answers that one call gets. After each `take`, one of `conclude` and `again` is called, at once
    or later, unless the checks are cancelled."""

    __slots__ = ("_again", "_conclude", "_ends", "_network", "_origin", "_shared", "_task", "false")

    def __init__(
        self,
        shared: FetchContext,
        network: Network,
        origin: CallOrigin,
        conclude: Conclude,
        again: Again,
        *,
        ends: float,
    ) -> None:
        """`origin`: where the call comes from; `ends`: when it must be over (monotonic seconds)."""
        self._origin = origin
        self._shared = shared
        self._network = network
        self._conclude = conclude
        self._again = again
        self._ends = ends
        self._task: asyncio.Task[None] | None = None
        self.false: list[Forwarded] = []
        """The answers with false hashes, as they are concluded with when no node does better: each with a failure, so
        that it is not kept."""

    def __repr__(self) -> str:
        return f"<check of logs, {len(self.false)} false answers>"

    def take(self, plan: Plan, said: Forwarded) -> None:
        """Check the result of a call that a node answered well."""
        result = b"null" if said.answer is None or said.answer.result is None else bytes(said.answer.result)
        found = named_hashes(plan, result)
        if found.false:
            self._decide(plan, said, LogVerdict.FALSE)
            return
        proposes = self._proposes(said.node_id) if found.unproven else False
        if proposes is False:
            self._decide(plan, said, LogVerdict.RIGHT)
            return
        left = {}
        for number, named in islice(found.unproven.items(), MAX_PROVED_BLOCKS):
            true = _hash(self._shared.known(self._network, self._plan(number)))
            if true and true != named:
                self._decide(plan, said, LogVerdict.FALSE)
                return
            if not true:
                left[number] = named
        if not left or not proposes:
            self._decide(plan, said, LogVerdict.RIGHT)
        elif len(found.unproven) > MAX_PROVED_BLOCKS:
            self._decide(plan, said, LogVerdict.UNPROVEN)
        else:
            self._task = asyncio.get_running_loop().create_task(self._prove(plan, said, left))

    def cancel(self) -> None:
        """End the check under way, without a decision."""
        if self._task is not None:
            self._task.cancel()

    def _decide(self, plan: Plan, said: Forwarded, verdict: LogVerdict) -> None:
        """Take the answer, or ask another node. An answer with false hashes is taken when no other node has a better
        one; neither that nor one that could not be proven is kept."""
        if verdict is LogVerdict.RIGHT:
            self._take(plan, said)
            return
        network, now = self._network, self._shared.clock()
        doubted = replace(said, failure=Failure(FailureKind.FALSE_HASHES, verdict.value, node=said.node_id))
        if verdict is LogVerdict.FALSE:
            self.false.append(doubted)
            self._shared.tally.node(network.name, said.node_id).false_hashes += 1
            told, pool = [one.node_id for one in self.false], network.pool
            others = len(told) < pool.settings.attempts and others_may_be_asked(pool.nodes, plan, now, told)
            if others and now < self._ends and doubted.failure and pool.budget.retry(doubted.failure, now):
                self._again(plan, told)
                return
        self._take(plan, doubted)

    def _take(self, plan: Plan, said: Forwarded) -> None:
        """Conclude the call. The attempts at nodes that gave false hashes were made for it, too."""
        before = sum(one.attempts for one in self.false if one is not said)
        self._conclude(plan, replace(said, attempts=said.attempts + before) if before else said)

    def _proposes(self, node_id: str) -> bool | None:
        """Does the node propose blocks? None when it does not say so and was never found wrong."""
        if self._shared.tally.node(self._network.name, node_id).false_hashes:
            return True
        observes = next((node.has("observer") for node in self._network.pool.nodes if node.id == node_id), None)
        return None if observes is None else not observes

    async def _prove(self, plan: Plan, said: Forwarded, named: dict[int, str]) -> None:
        """Ask for the hashes that memory does not have."""
        told: list[str] = [""]
        try:
            async with asyncio.timeout(min(PROOF_SECONDS, self._ends - self._shared.clock())):
                told = await asyncio.gather(*(self._ask(number) for number in named))
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # A flight that was joined has been given up.
        except Exception as error:  # the caller of the fetch is to be told, whatever is wrong here
            about = {"message": "the hashes of blocks were not asked for", "exception": error}
            asyncio.get_running_loop().call_exception_handler(about)
        self._task = None
        if any(true and true != hash for true, hash in zip(told, named.values(), strict=False)):
            self._decide(plan, said, LogVerdict.FALSE)
        else:
            self._decide(plan, said, LogVerdict.RIGHT if all(told) else LogVerdict.UNPROVEN)

    async def _ask(self, number: int) -> str:
        outcome = await self._shared.outcome(self._network, self._plan(number), self._origin)
        return _hash(outcome.result)

    def _plan(self, number: int) -> Plan:
        """The plan of the call for a block, which subscriptions and many clients make as well."""
        network = self._network
        return network.plan(network.chain.live.block, b'["0x%x",false]' % number)


class _Block(Struct):
    hash: str | None = None


_block = msgspec.json.Decoder(_Block | None).decode


def _hash(block: bytes | None) -> str:
    """The hash of a block in lower case; empty when it is not known."""
    try:
        read = _block(block or b"null")
    except UNREADABLE:
        return ""
    return "" if read is None or read.hash is None else read.hash.lower()
