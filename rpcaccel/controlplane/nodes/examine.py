"""Examines a node: asks it shadow calls, finds its bounds by search, and compares its answers with other nodes'.

Which calls those are stands in the chain's table ([chain.examination]). An examination takes a bounded time and number
of calls. What was not found out by then stays unknown, which changes nothing for the node.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import Any

from rpcaccel.chains import Chain, Probe
from rpcaccel.controlplane.nodes.shadow_calls import CallTerms, Examined, ShadowCalls, ShadowReply
from rpcaccel.core.agreement.equality import NOT_COMPARED, difference
from rpcaccel.core.heads.bound_search import BoundSearch, Reach
from rpcaccel.core.heads.examination import LONGEST_FAULT, Examination, PeerAgreement
from rpcaccel.core.replies.error_rules import ErrorTable
from rpcaccel.core.replies.failure import BARRING, LACKING, FailureKind

TIME_LIMIT = 30.0
"""Seconds after which no shadow call is begun."""
CALL_TIMEOUT = 10.0
"""Seconds that one shadow call may take."""
UNSETTLED = 4
"""Blocks below the lower of two heads about which nodes are not compared: they may have only just come."""
BATCHES = (64, 16, 4, 2)
"""The lengths of batches that are tried, one after the other until one is answered: the proxy makes none longer."""
_REFERENCE_CALLS = 60
"""Calls that an examination may cost all other nodes together."""
_PLACES = 3
"""Blocks about which nodes are compared: near the head, and at a half and a quarter of the chain."""
_RANGE_STRIDE = 8
_ABSENT = frozenset({FailureKind.PRUNED, FailureKind.BEYOND_WINDOW, FailureKind.NODE_BEHIND, FailureKind.ROLE_MISSING})
"""Kinds that say that a node has not what an old block's call is about."""
_REFUSED = frozenset({FailureKind.INVALID_PARAMS, FailureKind.CALL_REFUSED}) | LACKING | BARRING
"""Kinds that say it where the node has answered the same call about a new block: anvil calls a block whose state it has
dropped out of range, and providers keep old blocks for those who pay more."""
_EMPTY = (b"[]", b"null")


async def examine(
    node: Examined,
    peers: Sequence[Examined],
    chain: Chain,
    errors: ErrorTable,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    wall: Callable[[], float] = time.time,
    timeout: float = CALL_TIMEOUT,
) -> Examination:
    """What a node answers to shadow calls. What they cost is noted in the budgets of the node and its peers.

    Args:
        peers: other nodes to compare with, the best first: each is asked until one gives the answer.
        errors: the chain's errors, with those that the settings put before them.
        wall: seconds since 1970.
        timeout: seconds that one call may take.
    """
    began = clock()
    terms = CallTerms(chain, errors, clock, sleep, began + TIME_LIMIT, timeout)
    calls, others = ShadowCalls(node, terms), [ShadowCalls(peer, terms) for peer in peers]
    one = _Examiner(chain, calls, others)
    await asyncio.gather(one.find_depths(), one.find_logs(), one.try_answers())
    return Examination(
        at=wall(),
        seconds=clock() - began,
        calls=calls.sent,
        version=node.version,
        head=node.head,
        latency={method: median(taken) for method, taken in calls.latencies.items()},
        faults=tuple(one.faults),
        **one.found,
    )


class _Examiner:
    """What one examination has found so far."""

    def __init__(self, chain: Chain, calls: ShadowCalls, others: Sequence[ShadowCalls]) -> None:
        self.found: dict[str, Any] = {}
        """Members of the examination."""
        self.faults: list[str] = []
        self._said: dict[str, str] = {}
        """By method, the last error of the node that tells nothing about what it has."""
        self._chain = chain
        self._table = chain.examination
        self._near = max(0, calls.head - UNSETTLED)
        """The newest block that is asked about."""
        self._calls = calls
        self._others = others

    def __repr__(self) -> str:
        return f"<examination at block {self._near}, {self._calls!r}>"

    async def find_depths(self) -> None:
        """Find the oldest state, the roles, and whether the node traces."""
        table = self._table
        if (state := table.state) is not None:

            async def has(block: int) -> bool | None:
                return self._says(await self._ask(state, block=block), block)

            self.found["state_from"] = await self._oldest("state", state.method, has)
        roles = {role: await self._has_method(probe) for role, probe in table.roles.items()}
        self.found["roles"] = {role: has for role, has in roles.items() if has is not None}
        if table.traces is not None:
            self.found["traces"] = await self._has_method(table.traces)

    async def find_logs(self) -> None:
        """Find the oldest logs, and the longest range of them."""
        oldest = None
        if (logs := self._table.logs) is not None:
            oldest = await self._oldest("logs", logs.method, lambda block: self._has_logs(logs, block))
            self.found["logs_from"] = oldest
        if self._table.range is not None:
            await self._find_range(self._table.range, oldest or 0)

    async def try_answers(self) -> None:
        """Compare the answers, and find the longest batch."""
        if self._others:
            self.found["agreement"] = await self._agreement()
        if self._table.batch is not None:
            await self._find_batch(self._table.batch)

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
        while not self._calls.over and (distance := search.next()) is not None:
            search.tell(distance, await ask(distance))
        return search.found()

    async def _has_logs(self, probe: Probe, block: int) -> bool | None:
        """Has the node the logs of a block? Some nodes answer with no logs where they have none any more, which only
        the answer of another node shows."""
        reply = await self._ask(probe, first=block, last=block)
        if reply is not None and reply.result in _EMPTY:
            other = await self._reference(probe, block)
            return other is None or other in _EMPTY
        return self._says(reply, block)

    def _says(self, reply: ShadowReply | None, block: int) -> bool | None:
        """Has the node what a call about a block is about? None when the answer does not say."""
        if reply is None or reply.result is not None:
            return None if reply is None else reply.result != b"null"
        return False if reply.kind in _ABSENT or (block < self._near and reply.kind in _REFUSED) else None

    async def _find_range(self, probe: Probe, oldest: int) -> None:
        """Find the longest range of logs. Providers refuse a long one in many words, so that any error of the node
        itself is taken for a no."""
        most = min(self._table.range_most, self._near - oldest)
        if most < 1:
            return

        async def takes(span: int) -> bool | None:
            reply = await self._ask(probe, first=self._near - span, last=self._near)
            if reply is None or reply.transient or reply.kind in BARRING | LACKING:
                return None
            return reply.result is not None

        reach = await self._search(BoundSearch(most, stride=_RANGE_STRIDE), takes)
        if reach.greatest is None:
            self._unknown("for how many blocks at once it gives logs", reach, probe.method)
        elif reach.greatest >= 0:
            self.found |= {"range_tried": most, "range_most": reach.greatest if reach.greatest < most else None}

    async def _has_method(self, probe: Probe) -> bool | None:
        """Does the node have the method, or the role that the method needs? An error about the params says yes."""
        reply = await self._ask(probe)
        return None if reply is None or reply.transient else reply.kind not in LACKING | BARRING

    async def _find_batch(self, probe: Probe) -> None:
        lengths = [count for count in BATCHES if count <= self._calls.longest_batch(probe.method)]
        for count in lengths:
            replies = await self._calls.ask_together(probe.method, probe.params, count)
            if replies is None or any(reply.transient for reply in replies):
                if count != lengths[0]:
                    self.faults.append(f"whether it answers batches of {count} calls or less was not found out")
                return
            if all(reply.result is not None for reply in replies):
                self.found |= {"batch_tried": lengths[0], "batch_most": count if count != lengths[0] else None}
                return
        if lengths:
            self.found |= {"batch_tried": lengths[0], "batch_most": 1}

    async def _agreement(self) -> PeerAgreement:
        """Compare answers about blocks that both the node and others have had for a while."""
        depth = max(UNSETTLED, self._chain.finality_depth)
        newest = max(0, min(self._calls.head, max(peer.head for peer in self._others)) - depth)
        places = sorted({newest >> part for part in range(_PLACES)}, reverse=True)
        about = [(probe, block) for block in places for probe in self._table.reads]
        if self._table.state is not None:
            about.append((self._table.state, newest))
        said = [one for probe, block in about if (one := await self._difference(probe, block)) is not None]
        differing = list(filter(None, said))
        return PeerAgreement(len(said), len(differing), differing[0] if differing else "")

    async def _difference(self, probe: Probe, block: int) -> str | None:
        """The difference from another node's answer to one call, in words; empty without one, None where the two were
        not compared."""
        reply = await self._ask(probe, block=block)
        if reply is None or reply.result is None or (other := await self._reference(probe, block)) is None:
            return None
        said = difference(reply.result, other, probe.method, self._chain.differences)
        if said.startswith(NOT_COMPARED):
            return None
        return f"{probe.method} at block {block}: {said}"[:LONGEST_FAULT] if said else ""

    async def _reference(self, probe: Probe, block: int) -> bytes | None:
        """The result of another node that has the block; None without one."""
        for peer in self._others:
            if peer.head - UNSETTLED >= block and sum(one.sent for one in self._others) < _REFERENCE_CALLS:
                reply = await peer.ask(probe.method, _filled(probe, first=block, last=block, block=block))
                if reply is not None and reply.result is not None:
                    return reply.result
        return None

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
