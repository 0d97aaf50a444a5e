"""The state that simulated nodes share: the time, the head, the forks, and the transactions that clients sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import asdict, replace

from rpcaccel.simnode.chain.blocks import ChainSpec, Generator, Tx
from rpcaccel.simnode.chain.raw_tx import RawTransaction, intrinsic_gas, read
from rpcaccel.simnode.chain.shared_sends import SECONDS_TO_HEAR, SharedSends

NO_HASH = bytes(32)
RECENT_BLOCKS = 256
"""Blocks that a node may lag and still show a mined transaction as pending."""
_MAX_KEPT_BLOCKS = 4096
"""Blocks and encoded blocks that a branch keeps."""


class Clock(Protocol):
    """Monotonic seconds, and a way to wait for them."""

    def now(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class WallClock:
    """The machine's own monotonic clock."""

    now = staticmethod(time.monotonic)
    sleep = staticmethod(asyncio.sleep)


class ByHand:
    """A head that a test moves by hand; skew does not matter."""

    def __init__(self, start: int = 200) -> None:
        self.number = start

    def head(self, skew: float = 0.0) -> int:  # noqa: ARG002 - as ByClock's
        """The block to which a test moved the head."""
        return self.number

    def due(self, skew: float = 0.0) -> float | None:  # noqa: ARG002 - as ByClock's
        """No time: a test moves the head."""
        return None


class ByClock:
    """One block every `block_time` seconds since `genesis` (unix seconds).

    The head is a function of the date alone, so that simulated nodes in different processes agree without a word.
    """

    def __init__(self, *, genesis: float, block_time: float, seconds: Callable[[], float] | None = None) -> None:
        self._genesis = genesis
        self._block_time = block_time
        # The date is read once: a clock that is set back while we run must not take blocks away.
        self._seconds = seconds or time.monotonic
        self._offset = 0.0 if seconds else time.time() - time.monotonic()

    def head(self, skew: float = 0.0) -> int:
        """The newest block that a node `skew` seconds behind has seen."""
        return max(0, int(self._age(skew) // self._block_time))

    def due(self, skew: float = 0.0) -> float:
        """Seconds until the block above `head(skew)`."""
        return (self.head(skew) + 1) * self._block_time - self._age(skew)

    def _age(self, skew: float) -> float:
        """Seconds since `genesis` for a node `skew` seconds behind."""
        return self._seconds() + self._offset - self._genesis - skew


class SentTransactions:
    """The transactions that clients sent to any node of a chain."""

    def __init__(self) -> None:
        self.mined: dict[tuple[int, int], list[Tx]] = {}
        """By (fork, height) of the block that holds or will hold them."""
        self.by_hash: dict[bytes, Tx] = {}
        """By both of their hashes, as the newest branch has them."""
        self.places: dict[bytes, list[tuple[int, Tx]]] = {}
        """Each of them by both of its hashes on every branch that has mined it, with the fork of its block."""
        self.recent: dict[bytes, Tx] = {}
        """Those that some node may still hold in its pool, by their own hash."""
        self.touching: dict[bytes, list[Tx]] = {}
        """By each account that they touch, oldest first."""

    def mine(self, tx: Tx, fork: int, before: int) -> None:
        """Put a transaction into its block, behind `before` generated ones and those that were sent before."""
        waiting = self.mined.setdefault((fork, tx.number), [])
        tx = replace(tx, index=before + len(waiting))
        waiting.append(tx)
        self.by_hash[tx.hash] = self.by_hash[tx.eth_hash] = self.recent[tx.hash] = tx
        for name in {tx.hash, tx.eth_hash}:
            self.places.setdefault(name, []).append((fork, tx))
        while self.recent[next(iter(self.recent))].number < tx.number - RECENT_BLOCKS:
            del self.recent[next(iter(self.recent))]
        for account in {tx.sender, tx.to or tx.created or b""}:
            known = self.touching.setdefault(account, [])
            known[:] = [*(other for other in known if other.hash != tx.hash), tx]


class Block(Struct, frozen=True):
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
        return sum(tx.gas_used for tx in (*self.txs, *self.staking))


class Branch:
    """One history: the fork that each height belongs to. Only blocks that are still to be mined on it change."""

    def __init__(self, generator: Generator, turns: tuple[tuple[int, int], ...], sent: SentTransactions) -> None:
        self.generator = generator
        self.spec = generator.spec
        self.turns = turns
        """(first height, fork) of each reorganisation that still counts, oldest first."""
        self.sent = sent
        self._kept: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"<Branch {self.turns}>"

    def fork_of(self, number: int) -> int:
        fork = 0
        for start, turn in self.turns:
            if number >= start:
                fork = turn
        return fork

    def hash_of(self, number: int) -> bytes:
        return self.generator.seal(b"b", number, self.fork_of(number))

    def block(self, number: int) -> Block:
        """The block at this height; it exists whether or not any head has reached it."""
        block: Block = self.remember(number, self._make, number)
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
            txs=(*generated, *self.sent.mined.get((fork, number), ())),
            staking=(staking,) if staking else (),
        )

    def remember(self, key: object, make: Callable[..., Any], *args: object) -> Any:
        """What `make(*args)` returned for `key` the first time; the oldest of 4096 gives way."""
        kept = self._kept.get(key)
        if kept is None:
            kept = make(*args)
            if len(self._kept) >= _MAX_KEPT_BLOCKS:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = kept
        return kept

    def mine(self, tx: Tx) -> None:
        """Take a transaction into the block at its height, which no head has reached."""
        self.sent.mine(tx, self.fork_of(tx.number), self.generator.count_in(tx.number))
        self._kept.pop(tx.number, None)

    def _opened(self, tag: bytes, sealed: bytes, head: int) -> tuple[int, int] | None:
        """(height, index) of what a hash names, if it is on this branch and not above `head`."""
        found = self.generator.open(tag, sealed)
        if found is None or found[0] > head or self.fork_of(found[0]) != found[1]:
            return None
        return found[0], found[2]

    def by_hash(self, sealed: bytes, head: int) -> Block | None:
        """The block of that hash, if it is on this branch and not above `head`."""
        found = self._opened(b"b", sealed, head)
        return None if found is None else self.block(found[0])

    def generated_tx(self, sealed: bytes, head: int) -> Tx | None:
        """The generated transaction of either of its two hashes, if it is on this branch up to `head`."""
        for tag in (b"t", b"e", b"s", b"S"):
            if (found := self._opened(tag, sealed, head)) is not None:
                block = self.block(found[0])
                return block.staking[0] if tag in (b"s", b"S") else block.txs[found[1]]
        return None

    def sent_tx(self, sealed: bytes, head: int) -> Tx | None:
        """The transaction of either hash that a client sent, if a block of this branch up to `head` holds it."""
        places = self.sent.places.get(sealed, ())
        return next((tx for fork, tx in places if tx.number <= head and self.fork_of(tx.number) == fork), None)


class SimChain:
    """A simulated chain that any number of nodes share.

    `heads=None` moves the head by the date, one block each `spec.block_time` seconds; `ByHand(200)` moves it only by
    `advance`. The nodes see this head through their own lag and skew.

    With `shared`, chains of the same spec in other processes have the transactions too that are sent to this one. They
    are not told of a `reorg`.
    """

    def __init__(
        self,
        spec: ChainSpec | None = None,
        *,
        heads: ByClock | ByHand | None = None,
        shared: SharedSends | None = None,
    ) -> None:
        self.spec = spec or ChainSpec()
        self.generator = Generator(self.spec)
        self.heads = heads or ByClock(genesis=self.spec.genesis, block_time=self.spec.block_time)
        self.sent = SentTransactions()
        self.branches = [Branch(self.generator, (), self.sent)]
        self.watchers: set[Callable[[], None]] = set()
        """Called when something other than the time may have changed what a node sees."""
        self.shared = shared
        self.catch_up()  # here, where no event loop waits for a long file to be read

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
        turns = (*(turn for turn in self.branch.turns if turn[0] < start), (start, len(self.branches)))
        branch = Branch(self.generator, turns, self.sent)
        self.branches.append(branch)
        for tx in dict.fromkeys(tx.hash for tx in self.sent.by_hash.values() if tx.number >= start):
            branch.mine(replace(self.sent.by_hash[tx], number=self.head + 1))
        self.stir()
        return branch

    @property
    def next_block(self) -> int:
        """The block of a transaction that is sent now: the one after the head, or a later one where other processes are
        to hear of the transaction before that block begins."""
        return self.heads.head(0.0 if self.shared is None else -SECONDS_TO_HEAR) + 1

    def catch_up(self) -> None:
        """Take in the transactions that other processes of the chain were sent, before one of its blocks is shown."""
        told = [] if self.shared is None else self.shared.fresh()
        for number, raw in told:
            self._mine(read(raw), number)
        if told:
            self.stir()

    def close(self) -> None:
        """Share no further transactions."""
        shared, self.shared = self.shared, None
        if shared is not None:
            shared.close()

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Let no other process take a transaction in, while one is checked and added. Raises NotShared."""
        if self.shared is None:
            yield
            return
        with self.shared.locked():
            self.catch_up()
            yield

    def add(self, raw: RawTransaction) -> Tx:
        """Take a valid transaction in, within `sending`. It is pending until a head reaches the block `next_block`.

        Raises NotShared."""
        number = self.next_block
        if self.shared is not None:
            self.shared.append(number, raw.encoded)
        self._mine(raw, number)
        self.stir()
        return self.sent.by_hash[raw.hash]

    def _mine(self, raw: RawTransaction, number: int) -> None:
        """Put a transaction into the block `number` of the newest branch."""
        calls = raw.to is not None and raw.to == self.generator.contract and bool(raw.data)
        said = {name: value for name, value in asdict(raw).items() if name in Tx.__struct_fields__}
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
        self.branch.mine(tx)
