"""Proves a node: asks it shadow calls, finds its bounds by search, and compares its answers with those of other nodes.

Which calls those are stands in the chain's table ([chain.proof]). A proof takes a bounded time and number of calls.
What was not found out by then stays unknown, which changes nothing for the node.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median

from msgspec import Struct, field

from rpcaccel.chains import Chain, Probe
from rpcaccel.controlplane.nodes.probes import Asker
from rpcaccel.controlplane.nodes.shadow_calls import Account, ShadowCalls, ShadowReply
from rpcaccel.core.agreement.equality import NOT_COMPARED, difference
from rpcaccel.core.heads.bound_search import BoundSearch, Reach
from rpcaccel.core.heads.proof import LONGEST_FAULT, PeerAgreement, Proof
from rpcaccel.core.replies.error_rules import ErrorTable
from rpcaccel.core.replies.failure import BARRING, LACKING, FailureKind

TIME_LIMIT = 30.0
"""Seconds after which no shadow call of a proof is begun."""
PATIENCE = 10.0
"""Seconds that one shadow call may take."""
UNSETTLED = 4
"""Blocks below the lower of two heads about which nodes are not compared: they may have only just come."""
BATCHES = (64, 16, 4, 2)
"""The lengths of batches that are tried, one after the other until one is answered: the proxy makes none longer."""
_REFERENCES = 2
"""Other nodes that are asked for the answer to compare with, until one gives it."""
_REFERENCE_CALLS = 60
"""Calls that a proof may cost all other nodes together."""
_PLACES = 3
"""Blocks about which nodes are compared: near the head, and at a half and a quarter of the chain."""
_RANGE_STRIDE = 8
_ABSENT = frozenset({FailureKind.PRUNED, FailureKind.BEYOND_WINDOW, FailureKind.NODE_BEHIND, FailureKind.ROLE_MISSING})
"""Kinds that say that a node has not what an old block's call is about."""
_REFUSED = frozenset({FailureKind.INVALID_PARAMS, FailureKind.CALL_REFUSED}) | LACKING | BARRING
"""Kinds that say it where the node has answered the same call about a new block: anvil calls a block whose state it has
dropped out of range, and providers keep old blocks for those who pay more."""
_EMPTY = (b"[]", b"null")


class Peer(Struct, frozen=True):
    """Another node of the network, whose answers those of the node are compared with."""

    id: str
    asker: Asker
    head: int
    """The last block that it may be asked about."""
    account: Account = field(default_factory=Account)


class ProvedNode(Struct, frozen=True):
    """The node that is to be proved."""

    id: str
    asker: Asker
    head: int
    version: str = ""
    account: Account = field(default_factory=Account)


class Prover:
    """Proves the nodes of one network."""

    def __init__(
        self,
        chain: Chain,
        errors: ErrorTable,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        *,
        wall: Callable[[], float] = time.time,
        patience: float = PATIENCE,
    ) -> None:
        """
        Args:
            errors: the chain's errors, with those that the settings put before them.
            wall: seconds since 1970.
            patience: seconds that one call may take.
        """
        self._chain = chain
        self._errors = errors
        self._clock = clock
        self._wall = wall
        self._sleep = sleep
        self._patience = patience

    def __repr__(self) -> str:
        return f"<Prover {self._chain.name}>"

    async def prove(
        self, node: ProvedNode, peers: Sequence[Peer] = (), *, spent: Callable[[str, float], None] = lambda *_: None
    ) -> Proof:
        """The proof of a node. `spent` is called with the id of each node that was asked, and the number of calls, as
        its quota counts them."""
        began = self._clock()
        calls = self._calls(node, began)
        others = [(peer, self._calls(peer, began)) for peer in peers[:_REFERENCES]]
        trial = _Trial(self._chain, node.head, calls, others)
        try:
            await asyncio.gather(trial.depths(), trial.logs_and_range(), trial.others())
        finally:
            spent(node.id, calls.cost)
            for peer, asked in others:
                spent(peer.id, asked.cost)
        return Proof(
            at=self._wall(),
            seconds=self._clock() - began,
            calls=calls.sent,
            version=node.version,
            head=node.head,
            roles=trial.roles,
            state_from=trial.state_from,
            logs_from=trial.logs_from,
            range_most=trial.range_most,
            range_tried=trial.range_tried,
            batch_most=trial.batch_most,
            batch_tried=trial.batch_tried,
            traces=trial.traces,
            agreement=PeerAgreement(trial.compared, trial.differing, trial.first_difference),
            latency={method: median(taken) for method, taken in calls.latencies.items()},
            faults=tuple(trial.faults),
        )

    def _calls(self, node: ProvedNode | Peer, began: float) -> ShadowCalls:
        return ShadowCalls(
            node.asker,
            self._errors,
            node.account,
            ends=began + TIME_LIMIT,
            patience=self._patience,
            clock=self._clock,
            sleep=self._sleep,
            heavy=lambda method: self._chain.rules.get(method).heavy,
        )


class _Trial:
    """What one proof has found so far."""

    def __init__(self, chain: Chain, head: int, calls: ShadowCalls, others: Sequence[tuple[Peer, ShadowCalls]]) -> None:
        self.roles: dict[str, bool] = {}
        self.state_from: int | None = None
        self.logs_from: int | None = None
        self.range_most: int | None = None
        self.range_tried: int | None = None
        self.batch_most: int | None = None
        self.batch_tried: int | None = None
        self.traces: bool | None = None
        self.compared = self.differing = 0
        self.first_difference = ""
        self.faults: list[str] = []
        self._said: dict[str, str] = {}
        """By method, the last error of the node that tells nothing about what it has."""
        self._chain = chain
        self._table = chain.proof
        self._head = head
        self._near = max(0, head - UNSETTLED)
        """The newest block that is asked about."""
        self._calls = calls
        self._others = others

    def __repr__(self) -> str:
        return f"<trial of a node at block {self._head}, {self._calls!r}>"

    # -- how far back ----------------------------------------------------------------------------------------------

    async def depths(self) -> None:
        """Find the oldest state, and the roles."""
        probe = self._table.state
        if probe is not None:
            self.state_from = await self._oldest("state", probe.method, lambda block: self._has_state(probe, block))
        for role, needs in self._table.roles.items():
            has = await self._has_method(needs)
            if has is not None:
                self.roles[role] = has
        if self._table.traces is not None:
            self.traces = await self._has_method(self._table.traces)

    async def logs_and_range(self) -> None:
        """Find the oldest logs, and the longest range of them."""
        probe = self._table.logs
        if probe is not None:
            self.logs_from = await self._oldest("logs", probe.method, lambda block: self._has_logs(probe, block))
        if self._table.range is not None:
            await self._find_range(self._table.range)

    async def _oldest(self, what: str, method: str, has: Callable[[int], Awaitable[bool | None]]) -> int | None:
        """The oldest block about which `has` says yes. Block 1 stands for block 0: nodes that prune keep the state of
        block 0.

        A node that denies even its newest blocks has just started, or another machine behind its address lags: what it
        has is not known then.
        """

        async def answers(below: int) -> bool | None:
            found = await has(self._near - below)
            return None if below == 0 and found is False else found

        reach = await self._search(BoundSearch(max(0, self._near - 1)), answers)
        if reach.greatest is None:
            self._unknown(f"from which block on it has {what}", reach, method)
            return None
        oldest = self._near - reach.greatest
        return 0 if oldest <= 1 else oldest

    async def _search(self, search: BoundSearch, ask: Callable[[int], Awaitable[bool | None]]) -> Reach:
        while (distance := search.next()) is not None:
            if self._ended:
                break
            search.tell(distance, await ask(distance))
        return search.found()

    async def _has_state(self, probe: Probe, block: int) -> bool | None:
        reply = await self._ask(probe, block=block)
        return None if reply is None else self._has(reply, block)

    async def _has_logs(self, probe: Probe, block: int) -> bool | None:
        """Has the node the logs of a block? Some nodes answer with no logs where they have none any more, which only
        the answer of another node shows."""
        reply = await self._ask(probe, first=block, last=block)
        if reply is None:
            return None
        if reply.result in _EMPTY:
            other = await self._reference(probe, block)
            return other is None or other.result in _EMPTY or other.result is None
        return self._has(reply, block)

    def _has(self, reply: ShadowReply, block: int) -> bool | None:
        """Has the node what a call about a block is about; None when the answer does not say."""
        if reply.result is not None:
            return reply.result != b"null"
        return False if reply.kind in _ABSENT or (block < self._near and reply.kind in _REFUSED) else None

    async def _find_range(self, probe: Probe) -> None:
        oldest = self.logs_from or 0
        most = min(self._table.range_most, self._near - oldest)
        if most < 1:
            return
        search = BoundSearch(most, stride=_RANGE_STRIDE)
        reach = await self._search(search, lambda span: self._takes_range(probe, span))
        if reach.greatest is None:
            self._unknown("for how many blocks at once it gives logs", reach, probe.method)
        elif reach.greatest >= 0:
            self.range_tried = most
            self.range_most = reach.greatest if reach.greatest < most else None

    async def _takes_range(self, probe: Probe, span: int) -> bool | None:
        """Does the node give logs for a range? Providers refuse a long one in many words, so that any error of the node
        itself is taken for a no."""
        reply = await self._ask(probe, first=self._near - span, last=self._near)
        if reply is None or reply.transient or reply.kind in BARRING | LACKING:
            return None
        return reply.result is not None

    # -- methods and batches ---------------------------------------------------------------------------------------

    async def _has_method(self, probe: Probe) -> bool | None:
        """Does the node have the method, or the role that the method needs? An error about the params says yes."""
        reply = await self._ask(probe)
        if reply is None or reply.transient:
            return None
        return reply.kind not in LACKING | BARRING

    async def others(self) -> None:
        """Compare the answers, and find the longest batch."""
        await self._compare()
        if self._table.batch is not None:
            await self._find_batch(self._table.batch)

    async def _find_batch(self, probe: Probe) -> None:
        lengths = [count for count in BATCHES if count <= self._calls.longest_batch]
        for count in lengths:
            replies = await self._calls.ask_together(probe.method, probe.params, count)
            if replies is None or any(reply.transient for reply in replies):
                if count != lengths[0]:
                    self.faults.append(f"whether it answers batches of {count} calls or less was not found out")
                return
            if all(reply.result is not None for reply in replies):
                self.batch_tried, self.batch_most = lengths[0], count if count != lengths[0] else None
                return
        if lengths:
            self.batch_tried, self.batch_most = lengths[0], 1

    # -- agreement -------------------------------------------------------------------------------------------------

    async def _compare(self) -> None:
        """Compare answers about blocks that both the node and others have had for a while."""
        if not self._others:
            return
        depth = max(UNSETTLED, self._chain.finality_depth)
        newest = max(0, min(self._head, max(peer.head for peer, _ in self._others)) - depth)
        for block in sorted({newest >> part for part in range(_PLACES)}, reverse=True):
            for probe in self._table.reads:
                await self._compare_at(probe, block)
        if self._table.state is not None:
            await self._compare_at(self._table.state, newest)

    async def _compare_at(self, probe: Probe, block: int) -> None:
        reply = await self._ask(probe, block=block)
        if reply is None or reply.result is None:
            return
        other = await self._reference(probe, block)
        if other is None or other.result is None:
            return
        said = difference(reply.result, other.result, probe.method, self._chain.differences)
        if said.startswith(NOT_COMPARED):
            return
        self.compared += 1
        if said:
            self.differing += 1
            self.first_difference = self.first_difference or f"{probe.method} at block {block}: {said}"[:LONGEST_FAULT]

    async def _reference(self, probe: Probe, block: int) -> ShadowReply | None:
        """The answer of another node that has the block; None without one."""
        for peer, calls in self._others:
            if peer.head - UNSETTLED >= block and sum(one.sent for _, one in self._others) < _REFERENCE_CALLS:
                reply = await calls.ask(probe.method, _filled(probe, first=block, last=block, block=block))
                if reply is not None and reply.result is not None:
                    return reply
        return None

    # -- asking ----------------------------------------------------------------------------------------------------

    @property
    def _ended(self) -> bool:
        """Is no time or no call left?"""
        return self._calls.over

    async def _ask(self, probe: Probe, **blocks: int) -> ShadowReply | None:
        reply = await self._calls.ask(probe.method, _filled(probe, **blocks))
        newest = min(blocks.values(), default=0) >= self._near
        if reply is not None and reply.kind is not None and (newest or reply.kind not in _ABSENT):
            self._said[probe.method] = reply.text
        return reply

    def _unknown(self, what: str, reach: Reach, method: str) -> None:
        """Note that a bound was not found, and the last error that the node gave instead of an answer."""
        said = f" ({method}: {self._said[method]})" if method in self._said else ""
        self.faults.append(f"{what} was not found out: {reach.why}{said}"[:LONGEST_FAULT])


def _filled(probe: Probe, **blocks: int) -> str:
    """The params of a call with these blocks in place of their names."""
    params = probe.params
    for name, number in blocks.items():
        params = params.replace(f"{{{name}}}", f'"{number:#x}"')
    return params
