"""Decides whether an answer is kept, under which of the plan's keys (rule of truth 5), and for how long.

The decision follows from the plan, the raw result, the head of the answering node, and the settled blocks. A result is
parsed only where a rule needs a member of it.

One URL may hide several machines, some of which lag: a probe meets one machine and a call another. So the node's head
alone makes no answer lasting. Either the head is `ChainSnapshot.doubt` blocks above the block in question, or the
answer itself shows that its machine had the block. A machine that lags answers null, "0x", 0, [] or false, or leaves
out the newest logs (docs/harmony.md section 6).

Lifetimes only save space: the keys already make stale answers unreachable.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from math import inf

import msgspec
from msgspec import Struct

from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.wire.json_text import UNREADABLE

NULL = b"null"
_EMPTY = re.compile(rb'null|false|[0x"\[\]{}]*').fullmatch
"""Matches the empty results: null, false, 0, "0x", "0x00", [], "" and {}."""
_STATIC, _FOREVER, _NODE = CacheClass.STATIC, CacheClass.FOREVER, CacheClass.NODE  # looked up once (core.plan.planner)
_HEAD, _EPOCH = CacheClass.HEAD, CacheClass.EPOCH


class Keep(StrEnum):
    """How an answer is kept."""

    LASTING = "lasting"
    """Kept under `plan.key`."""
    UNTIL_HEAD = "until-head"
    """Kept under `plan.head_key`, so that a new head makes it unreachable."""
    SKIP = "skip"


class KeepDecision(Struct, frozen=True):
    """How an answer is kept, and the reason if that is not LASTING. Reasons are metric labels: a fixed set of words."""

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
    """Decide how one successful answer is kept.

    Args:
        result: the raw JSON text of the result.
        node_head: the answering node's head when the call was sent, -1 when unknown.
        view: the chain snapshot at the time of the answer.
        max_bytes: length of the longest result that is kept.
    """
    if plan.key is None and plan.head_key is None:
        return KeepDecision(Keep.SKIP, "class")
    if len(result) > max_bytes:
        return KeepDecision(Keep.SKIP, "too-large")
    if plan.block is not None and plan.min_head >= 0 and plan.block + plan.depth > node_head:
        return KeepDecision(Keep.SKIP, "above-head")
    for name in plan.rule.skip:
        if TESTS[name](plan, result):
            # The contents of a node's pool change without a new head, and so does null: never kept (rule of truth 5).
            return KeepDecision(Keep.SKIP, "pending") if name == "not-mined" else _until_head(plan, name)
    if result == NULL and (plan.rule.null_may_fill or plan.cache is not _STATIC):
        return _until_head(plan, "null")
    if plan.rule.split == "blocks" and _is_short(plan, result):
        return KeepDecision(Keep.SKIP, "short-range")
    if plan.key is None:
        return _UNTIL_HEAD
    for member in plan.rule.fills_later:
        if member.start in result and member.null.search(result):
            return _until_head(plan, "fills-later")
    if plan.cache is _FOREVER and not plan.final and not _mined_by(result, view.settled):
        return _until_head(plan, "not-final")
    by_block = plan.cache is not _STATIC and plan.cache is not _NODE
    if (
        by_block
        and (plan.rule.split in LISTED or _EMPTY(result) is not None)
        and (plan.block is None or plan.block + plan.depth > min(view.settled, node_head - view.doubt))
    ):
        return _until_head(plan, "unproven")  # a machine that has not got the block may have answered
    return _LASTING


LISTED = ("logs", "traces")
"""The forms of answers to ranges that do not show whether they are whole."""


def _until_head(plan: Plan, reason: str) -> KeepDecision:
    """Keep an answer that may change at most until the next head."""
    return KeepDecision(Keep.UNTIL_HEAD if plan.head_key is not None else Keep.SKIP, reason)


def is_empty(result: bytes) -> bool:
    """Is this an empty result, which a machine without the block may give as well?"""
    return _EMPTY(result) is not None


def _is_short(plan: Plan, result: bytes) -> bool:
    """Has the answer to a range fewer items than blocks? A lagging node leaves out blocks without an error."""
    if plan.first_block is None or plan.block is None or plan.first_block > plan.block:
        return False
    try:
        return len(_decode_items(result)) != plan.block - plan.first_block + 1
    except UNREADABLE:
        return True


def _mined_by(result: bytes, settled: int) -> bool:
    """Does the result name a settled block as the one in which it was mined?"""
    try:
        number = _decode_mined(result).blockNumber
        return number is not None and int(str(number), 0) <= settled
    except (*UNREADABLE, ValueError):
        return False


def is_mined(result: bytes) -> bool:
    """Does the result name a block: is it not null, and `blockHash` neither absent, nor null, nor all zeros
    (docs/harmony.md section 6)?"""
    if result == NULL:
        return False
    try:
        block_hash = _decode_mined(result).blockHash
    except UNREADABLE:
        return False
    return block_hash is not None and bool(block_hash.strip("0x"))


TESTS: dict[str, Callable[[Plan, bytes], bool]] = {
    "null": lambda _plan, result: result == NULL,
    "empty-list": lambda _plan, result: result == b"[]",
    "empty-list-unless-genesis": lambda plan, result: result == b"[]" and plan.block != 0,
    "empty-string": lambda _plan, result: result == b'""',
    "0x": lambda _plan, result: result == b'"0x"',
    "not-mined": lambda _plan, result: not is_mined(result),
    "blobs": lambda _plan, result: result.startswith(
        b'"0x03'
    ),  # a pool returns a blob transaction with its blobs (EIP-4844)
}
"""The tests of results that rules may name, by name."""


DAY = 86_400.0
_HEADS = 15
"""Blocks for which an answer true at one head is kept: for late readers, and for hosts that are a little behind."""


SPREAD = 0.1
"""Share by which a lifetime is shortened at random at the most, so that answers kept together do not expire
together."""


class Lifetime(Struct, frozen=True):
    """Seconds that an answer is kept in each tier; bounded in the second one, so that Redis does not grow for ever."""

    memory: float
    store: float


@lru_cache(maxsize=256)
def lifetime(cache: CacheClass, block_time: float, max_age: float = 0.0, stale: float = 0.0) -> Lifetime:
    """The lifetime of an answer of this class; `block_time` is in seconds.

    The operator's `max_age` bounds the lifetime, and `stale` is added for answers that differ by node (both in seconds,
    0 when not set).
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
