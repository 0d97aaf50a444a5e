"""Fetches blocks and logs for subscriptions, as a client's calls are answered: from memory, or by a shared fetch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from rpcaccel.core.live.block import LiveBlock, Log, NotLogs, read_logs
from rpcaccel.core.live.header import NotABlock, read_block, read_pushed
from rpcaccel.core.live.log_filter import LogFilter, may_match
from rpcaccel.core.plan.plan import Terms
from rpcaccel.core.plan.range_segments import join
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.dataplane.engine.engine import Engine
from rpcaccel.dataplane.networks.network import Network

MAX_BLOCKS_AT_ONCE = 16
"""Blocks that are asked for at once."""
ANSWERS, ANSWERS_TO_A_GUESS = 4, 2
"""Times that nodes must say that there are no logs where the block's bloom says that there are, or that there may be:
a node, or a machine behind it, may be a block behind what is known of it."""
_MAX_DOUBTED = 4096
"""Blocks and filters for which answers without logs are remembered."""
EXTRA_TRIES = 2
"""Times that a block is fetched until its header is made without what only the call for further members tells; and
headers in a row that were made without, after which the next ones wait for it no more."""
_MAX_MEMBERS, _MAX_NAME_CHARACTERS = 128, 64
"""Members of pushed headers whose names are remembered, and characters of such a name."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 5.0
"""Seconds until what could not be had is asked for again; the pause doubles each time."""


def pause(tries: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(10, tries - 1))


_LACKED = frozenset({FailureKind.UNKNOWN, FailureKind.INVALID_PARAMS, FailureKind.NODE_BEHIND})
"""What a node's error about a block comes to that the node does not have, or that nobody has: some chains say so of
heights without a block, each in words of its own."""


class NotFetched(Exception):
    """A block or its logs could not be had. `lacked`: a node answered, and does not have what was asked for."""

    def __init__(self, why: str, *, lacked: bool) -> None:
        super().__init__(why)
        self.lacked = lacked


class _Place(Struct, gc=False):
    """The block that a log names."""

    blockNumber: str | int
    blockHash: str | None = None


_items = msgspec.json.Decoder(list[Raw]).decode
_place = msgspec.json.Decoder(_Place).decode


class BlockSource:
    """The blocks and logs of one network. `network` is replaced when the settings change.

    What was fetched before and did not fit is asked for anew, past what is kept: `tries` is the number of times before.
    """

    def __init__(self, network: Network, engine: Engine) -> None:
        self.network = network
        self._engine = engine
        self._pushed: frozenset[str] = frozenset()
        """The names of the members that pushed headers had so far."""
        self._lacking = 0
        """Headers in a row that were made without their further members."""
        self._doubted: dict[tuple[str, int], tuple[str, ...]] = {}
        """The nodes that said of a block that it has no logs for a filter, though its bloom says that it may. The key
        holds the hash of the filter, because the filter itself may be large."""

    @property
    def final_at_once(self) -> bool:
        """Is no block of this chain ever replaced?"""
        return self.network.final_at_once

    @property
    def _by_number(self) -> bool:
        """Are logs asked for by the number of their block? Nodes of chains like Harmony, whose blocks are final at once
        unless the operator does not trust that, give false hashes in logs."""
        return self.network.chain.finality == "instant"

    @property
    def longest(self) -> int:
        """Blocks of the longest range of logs that nodes accept."""
        limit = self.network.chain.ranges.get("logs")
        return 1024 if limit is None else limit.most + 1

    async def block(self, number: int, block_hash: str = "", tries: int = 0) -> LiveBlock:
        """The block of this number; with a hash, this very block, whose number is not above. Raises NotFetched."""
        live, at_least = self.network.chain.live, number
        if block_hash:
            # Where the served head is lower now, nodes below this block may have it as one of another branch.
            at_least = max(0, min(number, self.network.view.head))
            method, params = live.block_by_hash, b'["%b",false]' % block_hash.encode()
        else:
            method, params = live.block, b'["0x%x",false]' % number
        (text, _), extra = await asyncio.gather(self._call(method, params, at_least, tries), self._extra(number, tries))
        try:
            block = read_block(text, self.network.chain.header, extra=extra, pushed=self._pushed)
        except NotABlock as error:
            raise NotFetched(str(error), lacked=True) from error
        fits = block.hash == block_hash and block.number <= number if block_hash else block.number == number
        if not fits:
            raise NotFetched(f"block {number}: a node gave block {block.number}, {block.hash}", lacked=True)
        return block

    async def _extra(self, number: int, tries: int) -> bytes:
        """What tells the further members of a header. A node that does not have the method stops no subscription."""
        extra = self.network.chain.live.extra
        if extra is None:
            return b""
        params = extra.params.replace("{block}", str(number)).encode()
        try:
            text, _ = await self._call(extra.method, params, number, tries)
        except NotFetched:
            if tries < EXTRA_TRIES and self._lacking < EXTRA_TRIES:
                raise
            self._lacking += 1
            return b""
        self._lacking = 0
        return text

    def forget(self) -> None:
        """Forget what was learned: it is another chain from now on."""
        self._pushed, self._doubted, self._lacking = frozenset(), {}, 0

    def pushed(self, text: bytes) -> LiveBlock:
        """A header that a node pushed. Blocks that are fetched from now on have no members that no node pushes. Raises
        NotABlock."""
        block, names = read_pushed(text, self.network.chain.header)
        names = frozenset(name for name in names if len(name) <= _MAX_NAME_CHARACTERS)
        if len(self._pushed | names) <= _MAX_MEMBERS:
            self._pushed |= names
        return block

    async def blocks(self, numbers: Sequence[int], tries: int = 0) -> list[LiveBlock]:
        """The blocks of these numbers, at most MAX_BLOCKS_AT_ONCE at once. Raises NotFetched."""
        found: list[LiveBlock] = []
        for at in range(0, len(numbers), MAX_BLOCKS_AT_ONCE):
            found += await asyncio.gather(
                *(self.block(number, tries=tries) for number in numbers[at : at + MAX_BLOCKS_AT_ONCE])
            )
        return found

    async def present(self, numbers: Sequence[int], tries: int = 0) -> list[LiveBlock]:
        """Those of the blocks with these numbers that a node has: some heights may have none, or the node is behind.
        Raises NotFetched."""
        found = await asyncio.gather(*(self.block(number, tries=tries) for number in numbers), return_exceptions=True)
        for one in found:
            if isinstance(one, BaseException) and not (isinstance(one, NotFetched) and one.lacked):
                raise one
        return [one for one in found if isinstance(one, LiveBlock)]

    async def logs(self, block: LiveBlock, wanted: LogFilter, tries: int = 0) -> tuple[Log, ...]:
        """The logs of one block that match a filter. Raises NotFetched, also when they are those of another block."""
        at = hex(block.number)
        where = {"fromBlock": at, "toBlock": at} if self._by_number else {"blockHash": block.hash}
        told = self._doubted.get((block.hash, hash(wanted)), ())
        believed = len(told) >= self._answers(wanted)
        text, node = await self._logs(wanted, where, block.number, tries, () if believed else told)
        placed = _placed(text)
        if not (placed or believed):
            self._doubt(block, wanted, node, told)
        for place, _ in placed:
            if self._by_number and place != (block.number, place[1]):
                raise NotFetched(f"logs of block {block.number}: a node gave those of {place[0]}", lacked=True)
            if not self._by_number and place[1] != block.hash:
                raise NotFetched(f"logs of block {block.number}: a node gave those of {place[1]}", lacked=True)
        return _read(text, block.hash)

    def _doubt(self, block: LiveBlock, wanted: LogFilter, node: str, told: Sequence[str]) -> None:
        """Raise NotFetched when a node's word that a block has no logs is not to be taken yet.

        Args:
            told: the nodes that had said so when this one was asked. Where another answer was counted since, this one
                is not: calls for the same logs share an answer, so that both may be the same.
        """
        if not may_match(block.header, wanted):
            return
        asked = (block.hash, hash(wanted))
        nodes = self._doubted.pop(asked, ())
        if len(nodes) == len(told):
            nodes = (*nodes, node)
        self._doubted[asked] = nodes  # also once they are believed: others may ask for the same logs
        if len(self._doubted) > _MAX_DOUBTED:
            del self._doubted[next(iter(self._doubted))]
        if len(nodes) < self._answers(wanted):
            raise NotFetched(f"logs of block {block.number}: a node gave none, and its bloom has some", lacked=True)

    def _answers(self, wanted: LogFilter) -> int:
        """How many nodes must say that a block has no logs, although its bloom may match a filter.

        A bloom is wrong the more often, the more words a filter has. A node that is asked for a block by its hash says
        that it does not have it.
        """
        words = (wanted.addresses, *wanted.topics)
        if any(words) and (not self._by_number or max(map(len, words)) > 1):
            return ANSWERS_TO_A_GUESS
        return ANSWERS

    async def logs_between(self, first: int, last: int, wanted: LogFilter, tries: int = 0) -> list[Log]:
        """The logs of final blocks that match a filter, in order. Raises NotFetched."""
        where = {"fromBlock": hex(first), "toBlock": hex(last)}
        text, _ = await self._logs(wanted, where, last, tries)
        blocks: dict[int, list[Raw]] = {}
        for (number, _), log in _placed(text):
            if not first <= number <= last:
                raise NotFetched(f"logs of blocks {first} to {last}: a node gave those of {number}", lacked=True)
            blocks.setdefault(number, []).append(log)
        if self._by_number:  # nodes of Harmony give false hashes in logs: each block is fetched for its hash
            named = await self.blocks(list(blocks), tries)
            return [log for block in named for log in _read(join(blocks[block.number]), block.hash)]
        return list(_read(text))

    async def _logs(
        self, wanted: LogFilter, where: dict[str, str], last: int, tries: int, told: Sequence[str] = ()
    ) -> tuple[bytes, str]:
        criteria: dict[str, Any] = {**wanted.params(), **where}
        return await self._call(self.network.chain.live.logs, msgspec.json.encode([criteria]), last, tries, told)

    async def _call(
        self, method: str, params: bytes, number: int, tries: int, told: Sequence[str] = ()
    ) -> tuple[bytes, str]:
        """The result of a call about a block, which only nodes that have the block are asked for, and the node that
        gave it. Raises NotFetched.

        Args:
            told: the nodes that answered before: others are preferred.
        """
        network = self.network
        plan = replace(network.plan(method, params), checked=True)
        alone = tries > 0 or bool(told) or number > min(plan.min_head, network.view.head)
        outcome = None
        if alone:
            route = b"|%d" % max(tries, len(told)) if tries or told else b""
            plan = plan.on(Terms(min_head=number, route=route, told=frozenset(told)))
        else:
            outcome = self._engine.answer_now(network, plan)
        if outcome is None:
            try:
                outcome = await self._engine.outcome(network, plan)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                raise NotFetched("the call was given up", lacked=False) from None
        if outcome.result is None:
            why = (outcome.error or b"no answer").decode(errors="replace")
            raise NotFetched(why, lacked=outcome.kind in _LACKED)
        # A shared call follows a node that does not have the block when all that have it are gone. A node that was
        # asked twice may have lost blocks meanwhile.
        if (not alone and outcome.block < number) or 0 <= outcome.node_head < number:
            raise NotFetched(f"block {number}: the nodes that have it are gone", lacked=False)
        return outcome.result, outcome.node


def _placed(text: bytes) -> list[tuple[tuple[int, str], Raw]]:
    """Each log with the number and the hash of its block. Raises NotFetched."""
    try:
        placed = []
        for log in _items(text):
            place = _place(log)
            number = place.blockNumber if isinstance(place.blockNumber, int) else int(place.blockNumber, 0)
            placed.append(((number, (place.blockHash or "").lower()), log))
    except (*UNREADABLE, ValueError) as error:
        raise NotFetched("the logs cannot be read", lacked=True) from error
    return placed


def _read(text: bytes, block_hash: str = "") -> tuple[Log, ...]:
    try:
        return read_logs(text, block_hash)
    except NotLogs as error:
        raise NotFetched(str(error), lacked=True) from error
