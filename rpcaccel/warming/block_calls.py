"""The calls about one block: the methods that can be fetched ahead, with the params that clients send.

The params are JSON texts with placeholders. The proxy keys an answer by the meaning of its params, so 26 and "0x1a" are
one key where nodes read them as one; but an object with another set of members is another key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from rpcaccel.core.wire.json_text import UNREADABLE

NUMBER, HEX, HASH, TRANSACTION, STAKING = "{block}", "{hex}", "{hash}", "{tx}", "{staking}"
"""Placeholders: the block's number, the number as 0x…, the block's hash, and the hash of each transaction and of each
staking transaction in the block."""
_OF_THE_BLOCK = (NUMBER, HEX, HASH, TRANSACTION, STAKING)
_NEED_THE_BLOCK = (HASH, TRANSACTION, STAKING)

_Hash = Annotated[str, Meta(pattern="^0x[0-9a-fA-F]{64}$")]


class _Entry(Struct, gc=False):
    hash: _Hash


class BlockParts(Struct, gc=False):
    """What the params of calls take out of a block."""

    hash: _Hash = ""
    transactions: list[_Hash | _Entry] = []
    staking: list[_Hash | _Entry] = field(name="stakingTransactions", default=[])


_decode = msgspec.json.Decoder(BlockParts).decode
_SOME = "0x" + "0" * 64
SAMPLE = BlockParts(_SOME, [_SOME], [_SOME])
"""Stands for any block where only the form of the params matters."""


def read_block(result: bytes) -> BlockParts | None:
    """The parts of a block as a node answered it; None when the answer is no block with hashes."""
    try:
        found = _decode(result)
    except UNREADABLE:
        return None
    return found if found.hash else None


class BlockCall(Struct, frozen=True):
    """A method, and its params with placeholders."""

    method: str
    params: str

    def __str__(self) -> str:
        return f"{self.method} {self.params}"

    @property
    def needs_block(self) -> bool:
        """Do the params hold hashes that stand in the block?"""
        return any(placeholder in self.params for placeholder in _NEED_THE_BLOCK)

    @property
    def may_be_empty(self) -> bool:
        """May the answer be empty, such as [] or 0x0, and be right? The proxy keeps such an answer for good only once
        the block is old."""
        return self.method.partition("_")[2] not in _NEVER_EMPTY

    def texts(self, number: int, parts: BlockParts = BlockParts()) -> Iterator[str]:  # noqa: B008 -- read only
        """The params of each call about the block: one, or one for each transaction."""
        text = self.params.replace(NUMBER, str(number)).replace(HEX, hex(number)).replace(HASH, parts.hash)
        for placeholder, entries in ((TRANSACTION, parts.transactions), (STAKING, parts.staking)):
            if placeholder in text:
                yield from (text.replace(placeholder, _hash(entry)) for entry in entries)
                return
        yield text


def _hash(entry: str | _Entry) -> str:
    return entry.hash if isinstance(entry, _Entry) else entry


# What pyhmy sends when nothing is said; and what Harmony's API documentation shows and clients have copied from there.
# One member begins with a capital in it: nodes read either case, but the proxy keys what was written.
_SWITCHES = (
    '{"inclTx":false,"fullTx":false,"inclStaking":false,"withSigners":false}',
    '{"fullTx":true,"inclTx":true,"InclStaking":true}',
)
_BY_HEX, _BY_NUMBER, _BY_TX = ('["{hex}"]',), ("[{block}]",), ('["{tx}"]',)
_WITH_TX = ('["{hex}",false]', '["{hex}",true]')
_LOGS = ('[{"fromBlock":"{hex}","toBlock":"{hex}"}]',)
_V2_BLOCK = tuple(f"[{{block}},{switches}]" for switches in _SWITCHES)
_TRACES: dict[str, tuple[str, ...]] = {
    "debug_traceBlockByNumber": ('["{hex}",{"tracer":"callTracer"}]',),
    "debug_traceTransaction": ('["{tx}",{"tracer":"callTracer"}]',),
    "trace_block": _BY_HEX,
    "trace_transaction": _BY_TX,
}
_EVERYWHERE: dict[str, tuple[str, ...]] = {
    "eth_getBlockByNumber": _WITH_TX,
    "eth_getBlockByHash": ('["{hash}",false]', '["{hash}",true]'),
    "eth_getHeaderByNumber": _BY_HEX,
    "eth_getBlockTransactionCountByNumber": _BY_HEX,
    "eth_getTransactionByHash": _BY_TX,
    "eth_getTransactionReceipt": _BY_TX,
    "eth_getLogs": _LOGS,
}
_ETHEREUM: dict[str, tuple[str, ...]] = {
    **_EVERYWHERE,
    "eth_getBlockReceipts": _BY_HEX,
    "eth_getUncleCountByBlockNumber": _BY_HEX,
    "eth_getRawTransactionByHash": _BY_TX,
    **_TRACES,
    "trace_replayBlockTransactions": ('["{hex}",["trace"]]',),
}
_HARMONY: dict[str, tuple[str, ...]] = {
    **_EVERYWHERE,
    "eth_getBlockReceipts": ('["{hash}"]',),
    "hmy_getBlockByNumber": _WITH_TX,
    "hmy_getBlockReceipts": ('["{hash}"]',),
    "hmy_getBlockSigners": _BY_HEX,
    "hmy_getLogs": _LOGS,
    "hmy_getTransactionByHash": _BY_TX,
    "hmy_getTransactionReceipt": _BY_TX,
    "hmyv2_getBlockByNumber": _V2_BLOCK,
    "hmyv2_getBlocks": tuple(f"[{{block}},{{block}},{switches}]" for switches in _SWITCHES),
    "hmyv2_getBlockReceipts": ('["{hash}"]',),
    "hmyv2_getBlockSigners": _BY_NUMBER,
    "hmyv2_getBlockSignerKeys": _BY_NUMBER,
    "hmyv2_getBlockTransactionCountByNumber": _BY_NUMBER,
    "hmyv2_getBlockStakingTransactionCountByNumber": _BY_NUMBER,
    "hmyv2_getHeaderByNumber": _BY_NUMBER,
    "hmyv2_getStakingTransactionByHash": ('["{staking}"]',),
    "hmyv2_getTransactionByHash": _BY_TX,
    "hmyv2_getTransactionReceipt": ('["{tx}"]', '["{staking}"]'),
    **_TRACES,
}
_NEVER_EMPTY = frozenset(
    {"getBlockByNumber", "getBlockByHash", "getBlocks", "getHeaderByNumber", "getTransactionByHash",
     "getStakingTransactionByHash", "getTransactionReceipt", "getRawTransactionByHash"}
)  # fmt: skip
HARMONY = "harmony"
USUAL = {HARMONY: ("eth_getBlockByNumber", "hmyv2_getBlockByNumber")}
"""The methods that are fetched on a chain when none is named; on other chains the first of Harmony's alone."""


def known(chain: str) -> dict[str, tuple[str, ...]]:
    """The methods that can be fetched ahead on a chain, each with its params."""
    return _HARMONY if chain == HARMONY else _ETHEREUM


def usual(chain: str) -> tuple[str, ...]:
    """The methods that are fetched when none is named."""
    return USUAL.get(chain, USUAL[HARMONY][:1])


def of_methods(methods: Sequence[str], chain: str) -> tuple[BlockCall, ...]:
    """The calls of these methods on a chain. Raises ValueError for a method whose params are not known."""
    table = known(chain)
    for method in methods:
        if method not in table:
            raise ValueError(f"{method} is not known for the chain {chain}; known are {', '.join(sorted(table))}")
    return tuple(BlockCall(method, params) for method in dict.fromkeys(methods) for params in table[method])


def written(text: str) -> BlockCall:
    """The call in a text such as `eth_getCode ["0x…","{hex}"]`. Raises ValueError."""
    method, _, params = text.strip().partition(" ")
    call = BlockCall(method, params.strip())
    if not any(placeholder in params for placeholder in _OF_THE_BLOCK):
        raise ValueError(f"expected one of {', '.join(_OF_THE_BLOCK)} in the params, found {text!r}")
    if TRANSACTION in params and STAKING in params:
        raise ValueError(f"expected {TRANSACTION} or {STAKING} in the params, found both in {text!r}")
    try:
        tree = json.loads(next(call.texts(1, SAMPLE)))
    except (ValueError, RecursionError):
        tree = None
    if not method or not isinstance(tree, list):
        raise ValueError(f"expected METHOD [PARAMS], found {text!r}")
    return call


def with_sources(calls: Sequence[BlockCall], chain: str) -> dict[BlockCall, BlockCall | None]:
    """Each call with the one that fetches the block out of which it takes hashes; None where it takes none."""
    return {call: _source(call, chain) if call.needs_block else None for call in calls}


def _source(call: BlockCall, chain: str) -> BlockCall:
    """Harmony's nodes name one transaction by different hashes in the eth namespace and in their own."""
    if chain == HARMONY and call.method.startswith(("hmy_", "hmyv2_")):
        return BlockCall("hmyv2_getBlockByNumber", _V2_BLOCK[1])
    return BlockCall("eth_getBlockByNumber", _WITH_TX[0])
