"""The state that several simulated nodes share: the head, the forks, and the transactions that clients sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.simnode.chain.blocks import ChainSpec, Generator, Tx
from rpcaccel.simnode.chain.clock import ByClock, ByHand, HeadSchedule
from rpcaccel.simnode.chain.raw_tx import RawTransaction, intrinsic_gas

NO_HASH = bytes(32)
RECENT = 256
"""Blocks that a node may lag and still show a mined transaction as pending."""
Turns = tuple[tuple[int, int], ...]
"""(first height, fork) of each reorganisation that still counts, oldest first."""
Mined = dict[tuple[int, int], list[Tx]]
"""Transactions that clients sent, by (fork, height)."""


class Block(Struct, frozen=True):
    """The facts of a block that are the same at every node."""

    number: int
    fork: int
    hash: bytes
    parent: bytes
    epoch: int
    timestamp: int
    txs: tuple[Tx, ...]
    staking: tuple[Tx, ...]

    @property
    def gas_used(self) -> int:
        """Gas of everything in the block."""
        return sum(tx.gas_used for tx in (*self.txs, *self.staking))


class Branch:
    """One history: the fork that each height belongs to. Only blocks that are still to be mined on it change."""

    def __init__(
        self, generator: Generator, turns: tuple[tuple[int, int], ...], mined: dict[tuple[int, int], list[Tx]]
    ):
        self.generator = generator
        self.spec = generator.spec
        self.turns = turns
        self._mined = mined
        self._blocks: dict[int, Block] = {}
        self.texts: dict[tuple[Any, ...], bytes] = {}
        """Encoded blocks, bounded by `remember`."""

    def __repr__(self) -> str:
        return f"<Branch {self.turns}>"

    def fork_of(self, number: int) -> int:
        """The fork that the block at this height belongs to."""
        fork = 0
        for start, turn in self.turns:
            if number >= start:
                fork = turn
        return fork

    def hash_of(self, number: int) -> bytes:
        """The hash of the block at this height."""
        return self.generator.seal(b"b", number, self.fork_of(number))

    def block(self, number: int) -> Block:
        """The block at this height; it exists whether or not any head has reached it."""
        block = self._blocks.get(number)
        if block is None:
            block = self._make(number)
            if len(self._blocks) >= 4096:
                del self._blocks[next(iter(self._blocks))]
            self._blocks[number] = block
        return block

    def _make(self, number: int) -> Block:
        make, fork = self.generator, self.fork_of(number)
        staking = make.staking_transaction(fork, number)
        generated = (make.transaction(fork, number, index) for index in range(make.count_in(number)))
        return Block(
            number=number,
            fork=fork,
            hash=self.hash_of(number),
            parent=self.hash_of(number - 1) if number else NO_HASH,
            epoch=self.spec.epoch_of(number),
            timestamp=self.spec.timestamp(number),
            txs=(*generated, *self._mined.get((fork, number), ())),
            staking=(staking,) if staking else (),
        )

    def remember(self, key: tuple[Any, ...], make: Callable[[], bytes]) -> bytes:
        """The text kept under `key`, made once; the oldest of 2048 gives way."""
        text = self.texts.get(key)
        if text is None:
            text = make()
            if len(self.texts) >= 2048:
                del self.texts[next(iter(self.texts))]
            self.texts[key] = text
        return text

    def forget(self, number: int) -> None:
        """Make the block at this height anew: a transaction joined it before any head reached it."""
        self._blocks.pop(number, None)

    def by_hash(self, sealed: bytes, head: int) -> Block | None:
        """The block of that hash, if it is on this branch and not above `head`."""
        found = self.generator.open(b"b", sealed)
        if found is None or found[0] > head or self.fork_of(found[0]) != found[1]:
            return None
        return self.block(found[0])

    def generated_tx(self, sealed: bytes, head: int) -> Tx | None:
        """The generated transaction of either of its two hashes, if it is on this branch up to `head`."""
        for tag in (b"t", b"e", b"s", b"S"):
            found = self.generator.open(tag, sealed)
            if found is None or found[0] > head or self.fork_of(found[0]) != found[1]:
                continue
            block = self.block(found[0])
            return block.staking[0] if tag in (b"s", b"S") else block.txs[found[2]]
        return None


class SimChain:
    """A simulated chain that any number of nodes share.

    `heads=None` moves the head by the date, one block each `spec.block_time` seconds; `ByHand(200)` moves it only by
    `advance`. The nodes see this head through their own lag and skew.
    """

    def __init__(self, spec: ChainSpec | None = None, *, heads: HeadSchedule | None = None) -> None:
        self.spec = spec or ChainSpec()
        self.generator = Generator(self.spec)
        self.heads: HeadSchedule = heads or ByClock(genesis=self.spec.genesis, block_time=self.spec.block_time)
        self._mined: Mined = {}
        self.branches = [Branch(self.generator, (), self._mined)]
        self.sent: dict[bytes, Tx] = {}
        """Every transaction a client sent and that some block holds or will hold, by both of its hashes."""
        self.recent: dict[bytes, Tx] = {}
        """Sent transactions that some node may still hold in its pool, by their own hash."""
        self.touched: dict[bytes, list[Tx]] = {}
        """Sent transactions by each account that they touch, oldest first."""
        self.watchers: set[Callable[[], None]] = set()
        """Called when something other than the time may have changed what a node sees."""

    def __repr__(self) -> str:
        return f"<SimChain {self.spec.kind} s{self.spec.shard} seed {self.spec.seed} head {self.head}>"

    @property
    def head(self) -> int:
        """The newest block of the chain; a node may have fewer blocks."""
        return self.heads.head()

    @property
    def branch(self) -> Branch:
        """The newest branch, which new blocks belong to."""
        return self.branches[-1]

    def advance(self, blocks: int = 1) -> int:
        """Add blocks by hand and return the new head. Raises TypeError on a chain whose head moves by itself."""
        if not isinstance(self.heads, ByHand):
            raise TypeError("this chain's head moves by the clock")
        self.heads.number += blocks
        self.stir()
        return self.heads.number

    def stir(self) -> None:
        """Call the watchers: a block, a branch, a transaction or a knob of a node is about to change or has changed."""
        for watcher in list(self.watchers):
            watcher()

    def reorg(self, depth: int) -> Branch:
        """Replace the newest `depth` blocks by others of another fork; what clients sent there is mined again."""
        start = self.head - depth + 1
        old = self.branch
        turns = (*(turn for turn in old.turns if turn[0] < start), (start, len(self.branches)))
        branch = Branch(self.generator, turns, self._mined)
        self.branches.append(branch)
        for tx in list(dict.fromkeys(tx.hash for tx in self.sent.values() if tx.number >= start)):
            self._mine(replace(self.sent[tx], number=self.head + 1))
        self.stir()
        return branch

    def add(self, raw: RawTransaction) -> Tx:
        """Take a valid transaction in: it is in the block after the head, and pending until a head reaches that."""
        number = self.head + 1
        calls = raw.to is not None and raw.to == self.generator.contract and bool(raw.data)
        said = {name: getattr(raw, name) for name in raw.__struct_fields__ if name in Tx.__struct_fields__}
        said["hash"] = raw.harmony_hash(self.spec.shard) if self.spec.kind == "harmony" else raw.hash
        tx = Tx(
            **said,
            number=number,
            index=0,
            eth_hash=raw.hash,
            gas_used=min(raw.gas, intrinsic_gas(raw) + (30_000 if calls else 0)),
            log_data=number.to_bytes(32, "big") if calls else None,
            created=None if raw.to else raw.created,
        )
        mined = self._mine(tx)
        self.stir()
        return mined

    def _mine(self, tx: Tx) -> Tx:
        branch, number = self.branch, tx.number
        waiting = self._mined.setdefault((branch.fork_of(number), number), [])
        tx = replace(tx, index=self.generator.count_in(number) + len(waiting))
        waiting.append(tx)
        branch.forget(number)
        self.sent[tx.hash] = self.sent[tx.eth_hash] = self.recent[tx.hash] = tx
        while self.recent[next(iter(self.recent))].number < number - RECENT:
            del self.recent[next(iter(self.recent))]
        for account in {tx.sender, tx.to or tx.created or b""}:
            known = self.touched.setdefault(account, [])
            known[:] = [*(other for other in known if other.hash != tx.hash), tx]
        return tx
