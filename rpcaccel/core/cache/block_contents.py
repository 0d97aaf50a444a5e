"""The blocks that kept answers hold whole, and the answers to other calls that are parts of these.

An indexer asks for a block and then for its transactions and receipts one by one. Each of those is a part of the answer
about the block, or about all of its receipts, to the byte: nodes write both with the same code (`Rule.of_block`).

What stands here only says where to look. A part is given when it names what the call asks for; whether the kept answer
that it is taken from may be given now is decided by the plan of the call that brought that answer.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.stepwise import Steps
from rpcaccel.core.wire.json_text import UNREADABLE

MAX_NAMES = 1 << 16
"""Numbers and hashes of blocks and hashes of transactions that are remembered, some 130 bytes each; the one stored
first is dropped first."""
MAX_OPENED, MAX_OPENED_BYTES = 64, 16_000_000
"""Answers whose parts are at hand, and bytes that these may keep from being freed when the cache has dropped them."""
APART_SECONDS = 60.0
"""Seconds for which receipts are asked for one by one after a call for all of a block that came to nothing."""
ALL_FROM = 3
"""The receipt of a block from which all of its receipts are worth one call: who reads two may want no more."""
_PLAIN_ARGUMENTS = 256
"""Bytes of the longest params that are looked at: a hash and a number."""
_ITEMS_A_STEP = 32
MAX_SPLIT_BYTES = 2_000_000
"""Bytes of the longest answer whose parts are taken: splitting it takes two milliseconds at once, and ten times as long
in steps."""
_HASH = re.compile("0x[0-9a-fA-F]{64}").fullmatch
_NUMBER = re.compile("0x(?:0|[1-9a-f][0-9a-f]{0,6})").fullmatch
_decode_arguments = msgspec.json.Decoder(list[Any]).decode


class HolderCall(NamedTuple):
    """A call whose answer holds a block: its method, and the raw JSON text of its params."""

    method: str
    params: bytes


class KnownBlock(Struct):
    """A block of which an answer was kept."""

    number: int
    transactions: int
    whole: HolderCall | None = None
    """The call by number that has the block with its transactions."""
    receipts: HolderCall | None = None
    """The call by number that has its receipts."""
    whole_of_hash: HolderCall | None = None
    """The call by the block's hash that has it with its transactions: also where the chain left the block since."""
    receipts_of_hash: HolderCall | None = None
    """The call by the block's hash that has its receipts, likewise."""
    missed: int = 0
    """Receipts of the block that nodes were asked for one by one."""


class _Opened(Struct):
    """A kept answer with its parts at hand."""

    result: bytes
    number: int
    hash: str
    items: list[Raw]
    """The transactions or the receipts; for a block without whole transactions, their hashes."""
    places: dict[str, int]
    """The index of each of them, by the hash of the transaction in lower case."""


class _Block(Struct):
    number: str
    hash: str
    transactions: list[Raw]


class _Transaction(Struct):
    hash: str  # the node's own spelling
    blockHash: str


class _Receipt(Struct):
    transactionHash: str  # the node's own spelling
    blockHash: str
    blockNumber: str


_block = msgspec.json.Decoder(_Block).decode
_transaction = msgspec.json.Decoder(_Transaction).decode
_receipt = msgspec.json.Decoder(_Receipt).decode
_text = msgspec.json.Decoder(str).decode
_items = msgspec.json.Decoder(list[Raw]).decode


class BlockContents:
    """The blocks of one network that kept answers hold."""

    __slots__ = ("_apart_until", "_known", "_opened")

    def __init__(self) -> None:
        self._known = OrderedDict[int, KnownBlock]()  # finds its first key at once, however many were deleted
        self._opened: dict[HolderCall, _Opened] = {}
        self._apart_until = float("-inf")

    def __repr__(self) -> str:
        return f"<contents of blocks by {len(self._known)} names, {len(self._opened)} at hand>"

    def __bool__(self) -> bool:
        return bool(self._known)

    def read(self, plan: Plan, result: bytes) -> Steps[None]:
        """Take in the answer to a call that shows a block or the receipts of one: have its parts at hand, and know what
        it holds by number and hashes. An answer that is not of the usual form is left out."""
        call, of_block, by_hash = HolderCall(plan.method, plan.params), plan.rule.shows == "block", plan.block is None
        opened = self._opened.get(call)
        if len(result) > MAX_SPLIT_BYTES or (opened is not None and opened.result is result):
            return
        try:
            opened = yield from (_open_block(result) if of_block else _open_receipts(result))
        except (*UNREADABLE, ValueError):
            return
        asked = _first(_arguments(plan)) if by_hash else plan.block
        if opened is None or (asked is not None and asked != (opened.hash if by_hash else opened.number)):
            return  # a node that tells of another block than it was asked for
        known = self._known.get(_name(opened.hash))
        if known is None or known.number != opened.number:
            known = KnownBlock(opened.number, len(opened.items))
        if not of_block or not opened.items or _is_object(opened.items[0]):
            holds = ("whole" if of_block else "receipts") + ("_of_hash" if by_hash else "")
            setattr(known, holds, call)
            self._have_at_hand(call, opened)
        names = map(_name, (opened.hash, *opened.places))
        for at, name in enumerate(names if by_hash else (opened.number, *names)):
            if by_hash:  # of a block that may not be the chain's any more
                self._known.setdefault(name, known)
            else:
                self._known[name] = known
            if not at % _ITEMS_A_STEP:
                yield
        while len(self._known) > MAX_NAMES:
            self._known.popitem(last=False)
            if not len(self._known) % _ITEMS_A_STEP:
                yield

    def _have_at_hand(self, call: HolderCall, opened: _Opened) -> None:
        self._opened.pop(call, None)
        self._opened[call] = opened
        size = sum(len(one.result) for one in self._opened.values())
        while len(self._opened) > MAX_OPENED or size > MAX_OPENED_BYTES:
            size -= len(self._opened.pop(next(iter(self._opened))).result)

    def block_of(self, plan: Plan) -> KnownBlock | None:
        """The block that a call is about, or in which the transaction is that it names."""
        if plan.block is not None:
            return self._known.get(plan.block)
        named = _first(_arguments(plan))
        return None if named is None else self._known.get(_name(named))

    def holder(self, plan: Plan) -> HolderCall | None:
        """The other call whose answer holds the answer to this one. What a block is that is named by its hash holds of
        it for ever; everything else holds of the block that the chain has with a number."""
        known, of_receipts = self.block_of(plan), plan.rule.shows in ("receipt", "receipts")
        if known is None:
            return None
        call = known.receipts if of_receipts else known.whole
        if call is None and plan.block is None and plan.rule.names_transaction is None:
            call = known.receipts_of_hash if of_receipts else known.whole_of_hash
        return None if call is None or call == (plan.method, plan.params) else call

    def part(self, plan: Plan, whole: Plan, result: bytes) -> bytes | None:
        """The answer to a call, out of the `result` of `whole`; None when that is not at hand, or when it does not
        certainly hold what is asked for."""
        opened = self._opened.get(HolderCall(whole.method, whole.params))
        if opened is None or opened.result is not result:
            return None
        arguments, shows = _arguments(plan), plan.rule.shows
        named = _first(arguments)
        if shows == "receipt" or plan.rule.names_transaction is not None:
            at = None if named is None or len(arguments) != 1 else opened.places.get(named)
            return None if at is None else bytes(opened.items[at])
        if (plan.block != opened.number) if plan.block is not None else (named != opened.hash):
            return None
        if shows == "receipts":
            return result if len(arguments) == 1 else None
        if len(arguments) != 2:
            return None
        if shows == "block":
            return result if arguments[1] is True else _with_hashes(opened) if arguments[1] is False else None
        index = arguments[1]
        if not isinstance(index, str) or not _NUMBER(index) or int(index, 16) >= len(opened.items):
            return None
        return bytes(opened.items[int(index, 16)])

    def wants_all(self, plan: Plan, final: int, now: float) -> KnownBlock | None:
        """Count a receipt that a node is to be asked for. The block whose receipts are worth one call together: a final
        one of which more than two were asked for, and which has more than these; None where there is none. `now` is in
        seconds on the clock of `failed`."""
        known = self.block_of(plan) if plan.rule.shows == "receipt" else None
        if known is None or known.number > final:
            return None
        known.missed += 1
        wanted = known.missed >= ALL_FROM and known.transactions > ALL_FROM and now >= self._apart_until
        return known if wanted else None

    def failed(self, now: float) -> None:
        """Note that a call for all receipts of a block brought none that can be kept: for a while none is made."""
        self._apart_until = now + APART_SECONDS


def _open_block(result: bytes) -> Steps[_Opened]:
    """The transactions of a block. Raises as msgspec does, or ValueError."""
    block = _block(result)
    places: dict[str, int] = {}
    for at, item in enumerate(block.transactions):
        if not at % _ITEMS_A_STEP:
            yield
        if _is_object(item):
            one = _transaction(item)
            places[_checked(one.hash, one.blockHash == block.hash)] = at
        else:
            places[_checked(_text(item))] = at
    return _Opened(result, int(block.number, 16), _checked(block.hash), block.transactions, places)


def _open_receipts(result: bytes) -> Steps[_Opened | None]:
    """The receipts of a block; None where there are none, which names no block. Raises as for a block."""
    items = _items(result)
    places: dict[str, int] = {}
    of = None
    for at, item in enumerate(items):
        if not at % _ITEMS_A_STEP:
            yield
        one = _receipt(item)
        places[_checked(one.transactionHash, of is None or one.blockHash == of.blockHash)] = at
        of = one
    return None if of is None else _Opened(result, int(of.blockNumber, 16), _checked(of.blockHash), items, places)


def _is_object(item: Raw) -> bool:
    return bytes(memoryview(item)[:1]) == b"{"


def _with_hashes(opened: _Opened) -> bytes:
    """The block with the hashes of its transactions in place of these, as nodes write it."""
    if not opened.items:
        return opened.result
    begin = opened.result.index(bytes(opened.items[0]))
    last = bytes(opened.items[-1])
    end = opened.result.rindex(last) + len(last)
    hashes = b",".join(b'"%b"' % _transaction(item).hash.encode() for item in opened.items)
    return opened.result[:begin] + hashes + opened.result[end:]


def _arguments(plan: Plan) -> list[Any]:
    if len(plan.params) > _PLAIN_ARGUMENTS:
        return []
    try:
        return _decode_arguments(plan.params)
    except UNREADABLE:
        return []


def _first(arguments: list[Any]) -> str | None:
    """The hash with which params begin, in lower case; None where they begin with none."""
    named = arguments[0] if arguments else None
    return named.lower() if isinstance(named, str) and _HASH(named) else None


def _checked(hash: str, within: bool = True) -> str:
    """A hash that a node gave, in lower case. Raises ValueError where it is none, or of something that does not say
    that it is `within` the block, as Erigon 2.40 showed its blocks."""
    if not within or not _HASH(hash):
        raise ValueError("not a hash")
    return hash.lower()


def _name(hash: str) -> int:
    """What a hash is remembered by: its beginning, apart from the numbers of blocks. Hashes that begin alike are told
    apart by what they name."""
    return 1 << 64 | int(hash[2:18], 16)
