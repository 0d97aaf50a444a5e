"""A chain as a tree of blocks with logs, and nodes that each stand somewhere in it."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from rpcaccel.core.replies.answer import Answer

ADDRESSES = tuple(f"0x{letter * 40}" for letter in "ab")
TOPICS = tuple(f"0x{digit * 64}" for digit in "12")
FALSE_HASH = "0x" + "f" * 64


@dataclass(frozen=True)
class TreeBlock:
    number: int
    hash: str
    parent: str
    logs: tuple[tuple[str, str], ...]
    """Address and topic of each."""


class Tree:
    """All blocks that ever were, by hash."""

    def __init__(self, head: int) -> None:
        self.blocks: dict[str, TreeBlock] = {}
        self._paths: dict[str, tuple[TreeBlock, ...]] = {"": ()}
        """All blocks up to a block, by its hash."""
        self.trunk = self.grow("0x" + "0" * 64, head + 1)

    def grow(self, on: str, count: int = 1, gaps: Sequence[int] = ()) -> str:
        """Put blocks on one another, the first on the block `on`; the hash of the last one. `gaps`: heights without a
        block below each of the first ones."""
        for place in range(count):
            gap = gaps[place] if place < len(gaps) else 0
            below = self.blocks.get(on)
            serial = len(self.blocks)
            logs = tuple(
                (ADDRESSES[(serial + i) % 2], TOPICS[(serial // 2 + i) % 2]) for i in range((serial * 7 // 3) % 4)
            )
            block = TreeBlock(0 if below is None else below.number + 1 + gap, f"0x{serial + 1:064x}", on, logs)
            self.blocks[block.hash] = block
            self._paths[block.hash] = (*self._paths[on if below else ""], block)
            on = block.hash
        return on

    def at(self, tip: str, number: int) -> TreeBlock | None:
        """The block with this number on the branch of `tip`."""
        path = self.path(tip)
        place = bisect_left(path, number, key=attrgetter("number"))
        return path[place] if place < len(path) and path[place].number == number else None

    def below(self, tip: str, number: int) -> TreeBlock:
        """The highest block of a branch at this height or below."""
        return self.path(tip)[max(0, bisect_right(self.path(tip), number, key=attrgetter("number")) - 1)]

    def path(self, tip: str) -> tuple[TreeBlock, ...]:
        """All blocks up to a tip, lowest first."""
        return self._paths.get(tip, ())

    def has(self, tip: str, block_hash: str) -> bool:
        """Is this block on the branch of `tip`?"""
        block = self.blocks.get(block_hash)
        return block is not None and self.at(tip, block.number) == block

    def fork(self, one: str, other: str) -> TreeBlock:
        """The last block that two branches share."""
        return next(block for block in reversed(self.path(one)) if self.has(other, block.hash))

    def between(self, low: str, tip: str) -> list[TreeBlock]:
        """The blocks above `low` up to `tip`, lowest first."""
        path = self.path(tip)
        return list(path[bisect_right(path, self.blocks[low].number, key=attrgetter("number")) :])


@dataclass
class TreeNode:
    """A node. It answers by the branch that it stands on; like geth it knows abandoned blocks by their hash, unless it
    `forgets` them."""

    name: str
    tree: Tree
    tip: str
    harmony: bool = False
    forgets: bool = False
    lies: str = ""
    """A tip of another branch, of which the node gives blocks by number."""
    refuses: bytes = b""
    """What the node says of a height that has no block; empty: null."""
    lacks: str = ""
    """A method that the node does not have."""
    calls: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def head(self) -> int:
        return self.tree.blocks[self.tip].number

    def answer(self, method: str, params: bytes) -> Answer:
        asked = json.loads(params)
        self.calls.append((method, asked))
        if method == self.lacks:
            return Answer(error=b'{"code":-32601,"message":"the method %b does not exist"}' % method.encode())
        if method == "eth_getBlockByHash":
            return self._block(self._by_hash(asked[0]))
        if method == "eth_getBlockByNumber":
            number = int(asked[0], 16)
            found = None if number > self.head else self.tree.at(self.lies or self.tip, number)
            if found is None and number <= self.head and self.refuses:
                return Answer(error=self.refuses)
            return self._block(found)
        if method == "hmyv2_getFullHeader":
            return Answer(result=b'{"viewID":%d,"epoch":1}' % (asked[0] + 3))
        assert method in ("eth_getLogs", "hmy_getLogs"), method
        return self._logs(asked[0])

    def _by_hash(self, block_hash: str) -> TreeBlock | None:
        known = block_hash in self.tree.blocks if not self.forgets else self.tree.has(self.tip, block_hash)
        return self.tree.blocks[block_hash] if known else None

    def _block(self, block: TreeBlock | None) -> Answer:
        if block is None:
            return Answer(result=b"null")
        said = {"number": hex(block.number), "hash": block.hash, "parentHash": block.parent, "uncles": []}
        return Answer(result=json.dumps(said).encode())

    def _logs(self, criteria: dict[str, Any]) -> Answer:
        if "blockHash" in criteria:
            block = self._by_hash(criteria["blockHash"])
            if block is None:
                return Answer(error=b'{"code":-32000,"message":"unknown block"}')
            blocks = [block]
        else:
            first, last = int(criteria["fromBlock"], 16), min(self.head, int(criteria["toBlock"], 16))
            found = (self.tree.at(self.tip, number) for number in range(first, last + 1))
            blocks = [block for block in found if block is not None]
        logs = [
            log_of(block, place, FALSE_HASH if self.harmony and block.number % 3 == 0 else block.hash)
            for block in blocks
            for place in range(len(block.logs))
            if matches(criteria, block.logs[place])
        ]
        return Answer(result=json.dumps(logs).encode())


def log_of(block: TreeBlock, place: int, block_hash: str, *, removed: bool = False) -> dict[str, Any]:
    """A log as nodes tell it."""
    address, topic = block.logs[place]
    return {
        "address": address,
        "topics": [topic],
        "blockNumber": hex(block.number),
        "blockHash": block_hash,
        "logIndex": hex(place),
        "removed": removed,
    }


def matches(criteria: dict[str, Any], log: tuple[str, str]) -> bool:
    """Does a log match the address and the topics of a filter?"""
    address, topics = criteria.get("address"), criteria.get("topics")
    if address and log[0] not in ([address] if isinstance(address, str) else address):
        return False
    wanted = topics[0] if topics else None
    return not wanted or log[1] in ([wanted] if isinstance(wanted, str) else wanted)
