"""Decides between the answers of several nodes: those that are equal stand together, and the larger group is believed.

The same decision serves the comparison of a share of the answers after the client has its own, and the reads for which
the operator wants agreement before the client is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from rpcaccel.core.cache.retention import TESTS, is_empty
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.wire.json_params import number_at

T = TypeVar("T")


def join(groups: list[list[T]], answer: T, same: Callable[[T, T], bool]) -> None:
    """Put an answer into the group of its equals, or into one of its own. It is compared once with each group."""
    group = next((group for group in groups if same(group[0], answer)), None)
    if group is None:
        groups.append([answer])
    else:
        group.append(answer)


def believed(groups: Sequence[list[T]], wanted: int) -> list[T] | None:
    """The largest group, when it has at least `wanted` members and no other is as large; else None."""
    ordered = sorted(groups, key=len, reverse=True)
    if not ordered or len(ordered[0]) < wanted or (len(ordered) > 1 and len(ordered[1]) == len(ordered[0])):
        return None
    return ordered[0]


def is_fixed(plan: Plan, results: Iterable[bytes], view: ChainSnapshot) -> bool:
    """Can nothing change the answer to a call any more? A reorganisation may move what a call names by its hash, as a
    transaction, until a result names a settled block."""
    if plan.final:
        return True
    return any((block := _block_of(result)) is not None and block <= view.settled for result in results)


def is_proven(
    plan: Plan, results: Sequence[bytes], heads: Sequence[int], view: ChainSnapshot, *, may_reorganise: bool
) -> bool:
    """Would every machine that has the block of a final call answer alike, so that a difference is somebody's fault?

    A result that is empty, and ranges, which are cut short without a word, may come from a machine behind a node's URL
    that has not got the block yet. They count only when the block is settled for each of the nodes (architecture
    section 5). Where branches are abandoned, an empty answer to a call that names a block by its hash proves nothing:
    only nodes that saw the branch have the block. A result that the rule distrusts, such as a transaction in the pool
    that is mined while another node is asked, proves nothing either.

    Args:
        results: the raw JSON texts of the results.
        heads: the heads of the nodes that gave them, when they were asked.
    """
    if any(_is_distrusted(plan, result) for result in results if not is_empty(result)):
        return False
    hollow = any(map(is_empty, results))
    if not hollow and not plan.rule.split:
        return True
    block = plan.block
    if block is None:
        if may_reorganise and plan.final and plan.cache is CacheClass.FOREVER:
            return False
        block = next((number for result in results if (number := _block_of(result)) is not None), None)
    if block is None:
        return False
    needed = block + plan.depth
    return needed <= view.settled and all(needed + view.doubt <= head for head in heads)


def _is_distrusted(plan: Plan, result: bytes) -> bool:
    return any(TESTS[name](plan, result) for name in plan.rule.skip)


def _block_of(result: bytes) -> int | None:
    """The number of the block that a result is, or says that it is in; None when it names none."""
    for path in ("blockNumber", "number"):
        if (number := number_at(result, path)) is not None:
            return number
    return None
