"""The method tables of a Harmony and of a geth-like node, and what a method knows about the node and the call.

The other files of this package register their methods here, each with its name, its arguments and the function to run.
Argument errors are worded as in go-ethereum's rpc package, which Harmony forked (docs/harmony.md sections 4 and 5).
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import msgspec
from msgspec import Raw, Struct

from rpcaccel.simnode.chain.blocks import ChainSpec, Generator, Tx
from rpcaccel.simnode.chain.knobs import OLD_STATE, Knobs
from rpcaccel.simnode.chain.sim_chain import Block, Branch, Clock, SimChain
from rpcaccel.simnode.methods.arguments import UnreadableArgument

Reader = Callable[[Raw, bool], Any]
"""Reads an argument: (its text, whether as geth does). Raises UnreadableArgument."""
Run = Callable[..., Any]
"""Runs a method: (call, *arguments). What it returns is JSON text (bytes), or a value to be written as JSON."""
Decorator = Callable[[Run], Run]
CRASHED = "method handler crashed"
RECEIPTS_KEPT = 32
"""Blocks whose receipts a node keeps in its cache."""
_PARAMS = msgspec.json.Decoder(list[Raw])


def text(value: Any) -> bytes:
    """Compact JSON; the standard library writes integers of any size."""
    return json.dumps(value, separators=(",", ":")).encode()


class RpcError(Exception):
    """An error object to be answered. The code -32000 is what nodes use for nearly everything."""

    def __init__(self, message: str, code: int = -32000, data: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def encode(self) -> bytes:
        return text({"code": self.code, "message": self.message} | ({} if self.data is None else {"data": self.data}))


class Filter(Struct):
    """A filter that a client installed on this node."""

    kind: str
    """blocks, logs or pending."""
    criteria: dict[str, Any]
    next_block: int
    """The first block whose changes were not yet polled."""
    polled_at: float
    seen: set[bytes]


class Local:
    """One node's own facts; two nodes of one chain share none of them."""

    def __init__(self, name: str, knobs: Knobs, clock: Clock, rng: Random) -> None:
        self.name = name
        self.knobs = knobs
        self.clock = clock
        self.rng = rng
        self.filters: dict[str, Filter] = {}
        self.sink: deque[dict[str, Any]] = deque(maxlen=1024)
        """Rejected transactions, newest last."""
        self.arrived: dict[bytes, float] = {}
        """The time at which this node took a transaction from a client, by the eth hash of the transaction."""
        self.heard: dict[bytes, float] = {}
        """The time at which this node was first asked about a transaction of another node, by its eth hash. Gossip
        counts from then."""
        self._receipts: OrderedDict[int, bool] = OrderedDict()
        """Blocks whose receipts were read lately, the newest last, and whether an eth_getLogs spoiled them."""
        self.peer_id = "Qm" + "".join(rng.choices("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", k=44))
        self.peers = rng.randint(3, 30)

    def read_receipts(self, number: int, *, spoil: bool = False) -> bool:
        """Note that the receipts of a block are read, and say whether an eth_getLogs spoiled them before."""
        spoiled = self._receipts.pop(number, False)
        self._receipts[number] = spoiled or spoil
        if len(self._receipts) > RECEIPTS_KEPT:
            self._receipts.popitem(last=False)
        return spoiled

    def token(self) -> str:
        """A new filter id, never the same on two nodes."""
        return hex(self.rng.getrandbits(127) | 1 << 126)


class MethodCall(Struct):
    """Everything a method needs to know about one call."""

    chain: SimChain
    branch: Branch
    head: int
    local: Local
    version: str
    """The dialect of the namespace: v1 (hmy), v2 (hmyv2), eth (Harmony's eth) or geth."""
    said: bytes = b""
    """Method and params, which decide whether the node lies; empty for what the node does by itself."""

    @property
    def spec(self) -> ChainSpec:
        return self.branch.spec

    @property
    def make(self) -> Generator:
        """The pure functions of the chain."""
        return self.branch.generator

    @property
    def knobs(self) -> Knobs:
        return self.local.knobs

    @property
    def geth(self) -> bool:
        """Whether the node is one of an EVM chain."""
        return self.version == "geth"

    @property
    def is_eth(self) -> bool:
        """Whether the call follows Ethereum's conventions: hashes of signed bytes, null above the head."""
        return self.version in ("eth", "geth")

    def number(self, value: int) -> int | str:
        """A number as this namespace writes it."""
        return value if self.version == "v2" else hex(value)

    def block_at(self, number: int) -> Block:
        return self.branch.block(number)

    def mined(self, sealed: bytes) -> tuple[Tx, Block] | None:
        """The transaction of either hash and its block, if a block this node has holds it."""
        tx = self.branch.generated_tx(sealed, self.head) or self.branch.sent_tx(sealed, self.head)
        return None if tx is None else (tx, self.block_at(tx.number))

    def pending(self) -> list[Tx]:
        """Transactions that wait in this node's pool: those sent here, and others once gossip has brought them."""
        waiting = [tx for tx in self.chain.sent.recent.values() if tx.number > self.head]
        local, gossip = self.local, self.knobs.gossip
        if not gossip:
            return waiting
        now = local.clock.now()
        since = {tx.eth_hash: local.heard.setdefault(tx.eth_hash, now) for tx in waiting}
        return [tx for tx in waiting if tx.eth_hash in local.arrived or now - since[tx.eth_hash] >= gossip]

    def lies(self, kind: str) -> bool:
        """Whether the node tells this lie (knobs.LIES) in its answer."""
        share, name = self.knobs.lies.get(kind, 0.0), self.local.name.encode()
        return bool(share and self.said) and self.make.draw(b"lie", kind.encode(), name, self.said) < share

    def proposed(self, number: int) -> bool:
        """Whether this node proposed the block and keeps false block hashes in its logs."""
        if not self.knobs.false_hashes:
            return False
        drawn = self.make.digest(b"proposer", self.local.name.encode(), number, size=4)
        return int.from_bytes(drawn, "big") % self.knobs.proposes == 0

    def shown_height(self, height: int) -> int:
        """The block whose state the node shows for that of `height`: an older one if it lies. Raises RpcError for state
        that the node has thrown away."""
        if not self.knobs.archive and height < self.head - self.knobs.prune_depth:
            root = self.make.digest(b"state", self.branch.fork_of(height), height).hex()
            why = f"state 0x{root} is not available, not found" if self.geth else "<nil>"
            raise RpcError(f"missing trie node {root} (path ) {why}")
        return max(0, height - OLD_STATE) if self.lies("old_state") else height


class Method(Struct, frozen=True):
    """One method as a node serves it."""

    run: Run
    version: str
    """The dialect that the method speaks, as MethodCall.version."""
    readers: tuple[Reader, ...]
    required: int
    limiter: str = ""
    """The node's rate limiter that calls wait for; empty: none."""
    beacon: bool = False
    """Whether only shard 0 answers the method."""

    def arguments(self, params: bytes) -> list[Any]:
        """The arguments of a call, read. Raises RpcError -32602 in the node's words."""
        stripped = params.strip()
        if stripped[:1] not in (b"[", b"") and stripped != b"null":
            raise RpcError("non-array args", -32602)
        raws = _PARAMS.decode(stripped) if stripped[:1] == b"[" else []
        values = []
        for position, raw in enumerate(raws):
            if position >= len(self.readers):
                raise RpcError(f"too many arguments, want at most {len(self.readers)}", -32602)
            try:
                values.append(self.readers[position](raw, self.version == "geth"))
            except UnreadableArgument as unreadable:
                raise RpcError(f"invalid argument {position}: {unreadable}", -32602) from None
        if len(values) < self.required:
            raise RpcError(f"missing value for required argument {len(values)}", -32602)
        return values


HARMONY: dict[str, Method] = {}
"""The methods of a Harmony node, by full name."""
ETHEREUM: dict[str, Method] = {}
"""The methods of a geth-like node, by full name."""
CHAIN = {"hmy": "v1", "hmyv2": "v2", "eth": "eth"}
"""Most services are registered in all three namespaces (docs/harmony.md section 2)."""
STAKING = {"hmy": "v1", "hmyv2": "v2"}
FILTERS = {"hmy": "v1", "eth": "eth"}


def register(
    table: dict[str, Method],
    names: str,
    *readers: Reader,
    spaces: dict[str, str],
    optional: int = 0,
    limiter: str = "",
    beacon: bool = False,
) -> Decorator:
    """Register a function under names (separated by spaces) in each namespace, with the version it speaks there."""

    def keep(run: Run) -> Run:
        for space, version in spaces.items():
            method = Method(run, version, readers, len(readers) - optional, limiter, beacon)
            table.update(dict.fromkeys((f"{space}_{name}" for name in names.split()), method))
        return run

    return keep


harmony = partial(register, HARMONY)
chain = partial(harmony, spaces=CHAIN)
staking = partial(harmony, spaces=STAKING)
ethereum = partial(register, ETHEREUM)
geth = partial(ethereum, spaces={"eth": "geth"})


def both(
    names: str, *readers: Reader, spaces: dict[str, str] = CHAIN, optional: int = 0, limiter: str = ""
) -> Decorator:
    """Register a function with both kinds of nodes. A geth-like one can do without the last `optional` arguments."""

    def register(run: Run) -> Run:
        harmony(names, *readers, spaces=spaces, limiter=limiter)(run)
        return geth(names, *readers, optional=optional)(run)

    return register


def answers(text_of_all: str) -> Run:
    """A method that gives the same JSON text to every call."""
    return lambda *_: text_of_all.encode()


def not_v2_or_v1(call: MethodCall) -> None:
    """Refuse calls in the eth namespace, where some methods are registered by accident."""
    if call.version == "eth":
        raise RpcError("API service has an unknown version")
