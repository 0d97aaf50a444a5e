"""Decides between the answers of several nodes: those that are equal stand together, and the larger group is believed.

The same decision serves the comparison of a share of the answers after the client has its own, and the reads for which
the operator wants agreement before the client is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from rpcaccel.core.cache.retention import is_empty
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.wire.json_params import number_at

T = TypeVar("T")


def groups(answers: Sequence[T], same: Callable[[T, T], bool]) -> list[list[T]]:
    """The answers in groups of equal ones, the largest group first; of groups of one size, the one that began first."""
    found: list[list[T]] = []
    for answer in answers:
        group = next((group for group in found if same(group[0], answer)), None)
        if group is None:
            found.append([answer])
        else:
            group.append(answer)
    return sorted(found, key=len, reverse=True)


def agreed(answers: Sequence[T], same: Callable[[T, T], bool], wanted: int) -> list[T] | None:
    """The group of equal answers that has at least `wanted` members; None while there is none, or two are as large."""
    found = groups(answers, same)
    if not found or len(found[0]) < wanted or (len(found) > 1 and len(found[1]) == len(found[0])):
        return None
    return found[0]


def is_fixed(plan: Plan, results: Iterable[bytes], view: ChainSnapshot) -> bool:
    """Can nothing change the answer to a call any more? A reorganisation may move what a call names by its hash, as a
    transaction, until a result names a settled block."""
    if plan.final:
        return True
    return any((block := _block_of(result)) is not None and block <= view.settled for result in results)


def is_proven(plan: Plan, results: Sequence[bytes], heads: Sequence[int], view: ChainSnapshot) -> bool:
    """Would every machine that has the block of a final call answer alike, so that a difference is somebody's fault?

    An empty result, and logs, which are cut short without a word, may come from a machine behind a node's URL that has
    not got the block yet. They count only when the block is settled for each of the nodes (architecture section 5).

    Args:
        results: the raw JSON texts of the results.
        heads: the heads of the nodes that gave them, when they were asked.
    """
    if plan.rule.split != "logs" and not any(map(is_empty, results)):
        return True
    block = plan.block
    if block is None:
        block = next((number for result in results if (number := _block_of(result)) is not None), None)
    if block is None:
        return False
    needed = block + plan.depth
    return needed <= view.settled and all(needed + view.doubt <= head for head in heads)


def _block_of(result: bytes) -> int | None:
    """The number of the block that a result is, or says that it is in; None when it names none."""
    for path in ("blockNumber", "number"):
        if (number := number_at(result, path)) is not None:
            return number
    return None
