"""What clients ask in the world of `world.py`: calls of every class, their block references in every spelling."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from rpcaccel.simnode.chain.addresses import to_hex, to_one
from rpcaccel.simnode.chain.blocks import Generator
from rpcaccel.simnode.chain.sim_chain import SimChain

TAGS = {"harmony": ("latest",), "ethereum": ("latest", "finalized", "safe")}


class Asked(Struct, frozen=True):
    """One call as a client words it."""

    network: str
    method: str
    params: bytes
    by_hash: bool = False
    """Named by a block's hash: true of that block on whatever branch it stands."""

    @property
    def body(self) -> bytes:
        return b'{"jsonrpc":"2.0","id":7,"method":"%b","params":%b}' % (self.method.encode(), self.params)

    def at(self, tag: str, number: int) -> bytes:
        """The params with a number where the tag stands."""
        return self.params.replace(b'"%b"' % tag.encode(), b'"%b"' % hex(number).encode())


def _spelled(number: int, how: int, kind: str, *, text: bool) -> Any:
    """A block number as a client may write it; `text`: where decimal text and bare integers are no numbers."""
    if kind == "ethereum" or text:
        return hex(number)
    return (number, hex(number), str(number))[how % 3]


Template = Callable[["Draw"], tuple[str, list[Any]]]


class Draw:
    """The choices a template makes: which account, which block, which spelling."""

    def __init__(self, chain: SimChain, offset: int, how: int, who: int) -> None:
        self.chain, self.make, self.kind = chain, chain.generator, chain.spec.kind
        self.number = max(0, chain.head + offset)
        self.how, self.who = how, who
        self.offset = offset

    @property
    def one(self) -> str:
        return to_one(self._account)

    @property
    def address(self) -> str:
        return to_hex(self._account)

    @property
    def _account(self) -> bytes:
        """One that moves with the transactions here, or one that is there on every network."""
        return self.make.accounts[0] if self.who % 2 else bytes(19) + b"\1"

    @property
    def contract(self) -> dict[str, str]:
        return {"to": to_hex(self.make.contract), "data": f"0x{self.who % 3:08x}"}

    @property
    def ref(self) -> Any:
        """A number in any spelling, or a tag."""
        if self.how % 4 == 3:
            return self.tag
        return _spelled(self.number, self.how, self.kind, text=False)

    @property
    def state_ref(self) -> Any:
        """The same where decimal text is no number."""
        ref = self.ref
        return hex(self.number) if isinstance(ref, str) and ref.isdecimal() else ref

    @property
    def hex_ref(self) -> Any:
        return self.tag if self.how % 4 == 3 else hex(self.number)

    @property
    def first(self) -> str:
        """Where a range begins: some blocks before it ends, over segments and the last final block."""
        return hex(max(0, self.number - 4 * self.who - self.how))

    @property
    def tag(self) -> str:
        tags = TAGS[self.kind]
        return tags[self.who % len(tags)]

    @property
    def block_hash(self) -> str:
        return "0x" + self.chain.branch.hash_of(self.number).hex()

    @property
    def tx_hash(self) -> str:
        """A transaction that a client sent, or one of the block, or of the one after it."""
        sent = list(self.chain.sent.by_hash.values())
        if sent and self.how % 2:
            return "0x" + sent[-1 - self.who % len(sent)].eth_hash.hex()
        number = self.number if self.make.count_in(self.number) else self.number + 1
        make: Generator = self.make
        return "0x" + make.seal(b"e", number, self.chain.branch.fork_of(number), 0).hex()


BOTH: list[Template] = [
    lambda _: ("eth_blockNumber", []),
    lambda d: ("eth_getBalance", [d.address, d.state_ref]),
    lambda d: ("eth_getTransactionCount", [d.address, d.state_ref]),
    lambda d: ("eth_call", [d.contract, d.state_ref]),
    lambda d: ("eth_getBlockByNumber", [d.ref, d.who % 2 == 0]),
    lambda d: ("eth_getBlockByHash", [d.block_hash, False]),
    lambda d: ("eth_getLogs", [{"fromBlock": d.first, "toBlock": d.hex_ref}]),
    lambda d: ("eth_getTransactionReceipt", [d.tx_hash]),
    lambda d: ("eth_getTransactionByHash", [d.tx_hash]),
    lambda d: ("eth_getTransactionByBlockNumberAndIndex", [d.ref, "0x0"]),
    lambda _: ("eth_gasPrice", []),
]
HARMONY: list[Template] = [
    lambda _: ("hmyv2_blockNumber", []),
    lambda d: ("hmyv2_getBalance", [d.one]),
    lambda d: ("hmyv2_getBalanceByBlockNumber", [d.one, d.ref]),
    lambda d: ("hmyv2_getBlockByNumber", [d.ref, {"withSigners": d.who % 2 == 0}]),
    lambda d: ("hmyv2_getBlockSigners", [d.ref]),
    lambda d: ("hmyv2_isBlockSigner", [d.ref, to_one(d.make.validators[0])]),
    lambda d: ("hmyv2_getTransactionByHash", [d.tx_hash]),
    lambda d: ("hmyv2_getBlocks", [d.first, d.ref, {"withSigners": d.how % 2 == 0}]),
    lambda d: ("hmyv2_getAccountNonce", [d.one, d.ref]),
    lambda _: ("hmyv2_getEpoch", []),
    lambda _: ("hmyv2_latestHeader", []),
    lambda d: ("hmyv2_getValidatorInformation", [to_one(d.make.validators[0])]),
    lambda d: ("hmyv2_getValidatorInformationByBlockNumber", [to_one(d.make.validators[0]), d.ref]),
]
ETHEREUM: list[Template] = [
    lambda d: ("eth_getBalance", [d.address, {"blockHash": d.block_hash}]),
    lambda d: ("eth_getBalance", [d.address, {"blockHash": d.block_hash, "requireCanonical": True}]),
    lambda d: ("eth_getBlockReceipts", [d.hex_ref]),
    lambda d: ("eth_feeHistory", ["0x3", d.hex_ref, []]),
    lambda d: ("trace_filter", [{"fromBlock": d.first, "toBlock": d.hex_ref}]),
    lambda d: ("eth_getBlockByHash", [d.block_hash, True]),
    lambda d: ("eth_getTransactionByBlockHashAndIndex", [d.block_hash, "0x0"]),
    lambda d: ("eth_getTransactionByBlockNumberAndIndex", [d.hex_ref, "0x1"]),
]

_BY_BLOCK_HASH = ("eth_getBlockByHash", "eth_getTransactionByBlockHashAndIndex")


def draw(network: str, chain: SimChain, which: int, offset: int, how: int, who: int) -> Asked:
    """A call on `network`, by choices that shrink towards the simplest."""
    templates = [*BOTH, *(HARMONY if chain.spec.kind == "harmony" else ETHEREUM)]
    method, params = templates[which % len(templates)](Draw(chain, offset, how, who))
    by_hash = method in _BY_BLOCK_HASH or any(isinstance(p, dict) and p.keys() == {"blockHash"} for p in params)
    return Asked(network, method, json.dumps(params).encode(), by_hash)
