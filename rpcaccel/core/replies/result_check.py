"""Detects results that are no answers: what a method never has, and null or nothing of what a node has dropped.

The first character or the length decides, so that a large result costs nothing. Only what a chain's table states for
certain is judged. Whether any other null may become a value later is known to core.cache.retention.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass, ResultForm, Rule
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.wire.json_text import UNREADABLE

_FIRST: dict[ResultForm, frozenset[int]] = {
    "object": frozenset(b"{n"),
    "list": frozenset(b"[n"),
    "object-or-bool": frozenset(b"{tfn"),
}
_SCALARS = ("scalar", "number")
_EMPTY = b"{}"
_NULL = b"null"
_NO_NUMBER = frozenset({_NULL, b'"0x"'})
"""What a node says for a number that it does not have."""
SHORTEST_VALUE = len(_NULL) + 1
"""Bytes from which a result is certainly neither null nor empty."""
_NOTHING = {"empty-list": b"[]", "empty-list-unless-genesis": b"[]", "empty-string": b'""'}
"""By test of results (`Rule.skip`): what a node answers beside null about a block that it does not have."""
_UNSURE = frozenset({_NULL, b"[]", b'""', b'"0x"'})
"""Results that say that there is nothing, where only the node's word says that it has looked everywhere."""


def judge_result(plan: Plan, result: bytes | memoryview, head: int) -> FailureKind | None:
    """What is wrong with the raw JSON text of a result; None when nothing certainly is. `head`: the node's head when
    the node was asked."""
    rule = plan.rule
    form = rule.form
    if form and (result[0] in b"[{" if form in _SCALARS else not _fits(form, result)):
        return FailureKind.IMPOSSIBLE
    if rule.lacks_when and any(result == text.encode() for text in rule.lacks_when):
        return FailureKind.ROLE_MISSING
    if rule.gave_up and any(fragment.encode() in bytes(result) for fragment in rule.gave_up):
        return FailureKind.NODE_TIMEOUT
    if rule.valued and len(result) < SHORTEST_VALUE and _is_dropped(plan, bytes(result), head):
        return FailureKind.PRUNED
    return None


def _fits(form: ResultForm, result: bytes | memoryview) -> bool:
    return result[0] in _FIRST[form] and not (len(result) == len(_EMPTY) and bytes(result) == _EMPTY)


def _is_dropped(plan: Plan, result: bytes, head: int) -> bool:
    """Does a node that has the call's block say that there is nothing of it, where each block has something?"""
    rule, block = plan.rule, plan.block
    if block is None:  # a method about no block, or a reference that nobody here can place: a hash, `pending`
        return result == _NULL and rule.block is None and rule.cache is not CacheClass.FOREVER
    if block + plan.depth > head:
        return False
    if rule.split == "blocks" and result == b"[]":
        return plan.first_block is not None and plan.first_block <= block
    said = _is_no_value(rule, result) or any(result == _NOTHING.get(test) for test in rule.skip)
    return said and not (block == 0 and "empty-list-unless-genesis" in rule.skip)


def _is_no_value(rule: Rule, result: bytes) -> bool:
    return result in _NO_NUMBER if rule.form == "number" else result == _NULL


def is_unsure(plan: Plan, result: bytes | memoryview) -> bool:
    """Is this a result about what can never change, or about what a hash names, by which a node says that there is
    nothing? A node that has dropped old blocks says the same. Code that the caller chooses may say whatever it
    likes."""
    rule, oldest = plan.rule, plan.oldest
    if len(result) > len(_NULL) or bytes(result) not in _UNSURE or rule.kind != "read":
        return False
    if plan.checked or (oldest is not None and oldest >= plan.head):
        return False
    if rule.old_state or rule.executes:
        return plan.cache is CacheClass.FOREVER and _is_no_value(rule, bytes(result))
    return plan.cache is CacheClass.FOREVER or (plan.cache is CacheClass.BY_NUMBER and plan.final)


class _Placed(Struct):
    number: str | int | None = None
    blockNumber: str | int | None = None


_decode = msgspec.json.Decoder(_Placed | list[_Placed] | None).decode


def block_of(result: bytes | memoryview) -> int | None:
    """The block that a result names as the one in which it stands: the highest one of a list; None if it names none."""
    try:
        read = _decode(result)
        found = read if isinstance(read, list) else [read] if read is not None else []
        named = [one.blockNumber if one.number is None else one.number for one in found]
        return max((int(str(number), 0) for number in named if number is not None), default=None)
    except (*UNREADABLE, ValueError):
        return None
