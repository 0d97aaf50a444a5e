"""May this answer be kept, and under which of the plan's keys? Rule of truth 5.

Decided from the plan, the raw result, the head of the node that answered, and what is settled. A result is parsed only
where a rule needs a member of it.

A node's URL may hide several machines, of which some lag: probes meet one machine and a call another. So a node's head
alone makes no answer lasting. It must lie `ChainSnapshot.doubt` blocks above the block in question, or the answer
itself must show that its machine had the block: one that lags says null, "0x", 0, [] or false, or leaves out the newest
logs (docs/harmony.md section 6).

How long a kept answer may stay, for the sake of space: keys already make a stale one unreachable.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from math import inf

import msgspec
from msgspec import Struct

from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.wire.json_text import UNREADABLE

NULL = b"null"
_EMPTY = frozenset({NULL, b"false"})
_ZEROS = b'0x"[]{}'
"""What every other empty result is made of: 0, "0x", "0x00", [], "" and {}."""
_STATIC, _FOREVER, _NODE = CacheClass.STATIC, CacheClass.FOREVER, CacheClass.NODE  # looked up once (core.plan.planner)
_HEAD, _EPOCH = CacheClass.HEAD, CacheClass.EPOCH


class Keep(StrEnum):
    """Where an answer goes."""

    LASTING = "lasting"
    """Under `plan.key`."""
    UNTIL_HEAD = "until-head"
    """Under `plan.head_key`: a new head makes it unreachable."""
    SKIP = "skip"


class KeepDecision(Struct, frozen=True):
    """The decision, and the reason when it is not the best one. Reasons are a fixed set: they are metric labels."""

    keep: Keep
    reason: str = ""


_LASTING = KeepDecision(Keep.LASTING)
_UNTIL_HEAD = KeepDecision(Keep.UNTIL_HEAD)


class _Mined(Struct):
    blockHash: str | None = None  # the node's own spelling
    blockNumber: str | int | None = None


_decode_mined = msgspec.json.Decoder(_Mined).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


def judge(plan: Plan, result: bytes, node_head: int, view: ChainSnapshot, max_bytes: int) -> KeepDecision:
    """Decide on one successful answer.

    Args:
        result: the raw JSON text.
        node_head: the answering node's head when the call was sent, -1 when unknown.
        view: what was known of the network when the answer came.
        max_bytes: longer results are passed through and not kept.
    """
    if not plan.kept:
        return KeepDecision(Keep.SKIP, "class")
    if len(result) > max_bytes:
        return KeepDecision(Keep.SKIP, "too-large")
    if plan.block is not None and plan.min_head >= 0 and plan.block + plan.depth > node_head:
        return KeepDecision(Keep.SKIP, "above-head")
    for name in plan.rule.skip:
        if TESTS[name](plan, result):
            # What is in a node's pool changes without a new head, null among it: never kept (rule of truth 5).
            return KeepDecision(Keep.SKIP, "pending") if name == "not-mined" else _until_head(plan, name)
    if result == NULL and (plan.rule.null_may_fill or plan.cache is not _STATIC):
        return _until_head(plan, "null")
    if plan.rule.split == "blocks" and _is_short(plan, result):
        return KeepDecision(Keep.SKIP, "short-range")
    if plan.key is None:
        return _UNTIL_HEAD
    if plan.cache is _FOREVER and not plan.final and not _mined_by(result, view.settled):
        return _until_head(plan, "not-final")
    if _may_be_behind(plan, result) and not _is_settled(plan, node_head, view):
        return _until_head(plan, "unproven")
    return _LASTING


def _until_head(plan: Plan, reason: str) -> KeepDecision:
    """An answer that may become another one is kept at most until the next head."""
    return KeepDecision(Keep.UNTIL_HEAD if plan.head_key is not None else Keep.SKIP, reason)


def _may_be_behind(plan: Plan, result: bytes) -> bool:
    """Could a machine that has not got the block have said this?"""
    if plan.cache is _STATIC or plan.cache is _NODE:
        return False
    return plan.rule.split == "logs" or is_empty(result)


def is_empty(result: bytes) -> bool:
    """Is it what a machine says, too, that has not got the block?"""
    return result in _EMPTY or not result.strip(_ZEROS)


def _is_settled(plan: Plan, node_head: int, view: ChainSnapshot) -> bool:
    """Does the block lie so deep that no hidden machine is without it?"""
    if plan.block is None:
        return False
    block = plan.block + plan.depth
    return block <= view.settled and block + view.doubt <= node_head


def _is_short(plan: Plan, result: bytes) -> bool:
    """Has a range fewer items than blocks asked for? A lagging node cuts it short without a word."""
    if plan.first_block is None or plan.block is None or plan.first_block > plan.block:
        return False
    try:
        return len(_decode_items(result)) != plan.block - plan.first_block + 1
    except UNREADABLE:
        return True


def _mined_by(result: bytes, settled: int) -> bool:
    """Does the result say that it was mined in a settled block?"""
    try:
        number = _decode_mined(result).blockNumber
        return number is not None and int(str(number), 0) <= settled
    except (*UNREADABLE, ValueError):
        return False


def _not_mined(_plan: Plan, result: bytes) -> bool:
    """Null, or without a block yet: absent, null or all-zero `blockHash` (docs/harmony.md section 6, pending)."""
    if result == NULL:
        return True
    try:
        block_hash = _decode_mined(result).blockHash
    except UNREADABLE:
        return True
    return block_hash is None or not block_hash.strip("0x")


TESTS: dict[str, Callable[[Plan, bytes], bool]] = {
    "null": lambda _plan, result: result == NULL,
    "empty-list": lambda _plan, result: result == b"[]",
    "empty-list-unless-genesis": lambda plan, result: result == b"[]" and plan.block != 0,
    "empty-string": lambda _plan, result: result == b'""',
    "0x": lambda _plan, result: result == b'"0x"',
    "not-mined": _not_mined,
    "blobs": lambda _plan, result: result.startswith(b'"0x03'),  # a pool hands a transaction out with them (EIP-4844)
}
"""The result tests that rules may name."""


DAY = 86_400.0
_HEADS = 15
"""Blocks for which an answer true at one head is worth its place: late readers, other hosts a little behind."""


_SPREAD = 0.1
"""Share of a life by which it may be shorter, so that what was kept together does not go together."""


class Lifetime(Struct, frozen=True):
    """Seconds in each tier. The second is bounded, so that a stock Redis does not grow for ever."""

    memory: float
    store: float

    def spread(self, chance: float) -> Lifetime:
        """A life up to a tenth shorter; `chance` is drawn from [0, 1)."""
        share = 1.0 - _SPREAD * chance
        return Lifetime(self.memory * share, self.store * share)


def lifetime(cache: CacheClass, block_time: float, *, max_age: float = 0.0, stale: float = 0.0) -> Lifetime:
    """The lifetime of an answer of a class on a chain with that many seconds between blocks.

    Where the operator set one, `max_age` bounds it, and `stale` is added for answers that differ by node (seconds).
    """
    life = _of_class(cache, block_time)
    if not max_age:
        return life
    longest = max_age + stale
    return Lifetime(min(life.memory, longest), min(life.store, longest))


def _of_class(cache: CacheClass, block_time: float) -> Lifetime:
    if cache is _HEAD or cache is _EPOCH:
        seconds = max(30.0, _HEADS * block_time)
        return Lifetime(seconds, seconds)
    return Lifetime(inf, 7 * DAY if cache is _STATIC else DAY)
