"""When the failures of single nodes call for attention: what others do better, and errors that no rule knows.

What a client can make all nodes say is no sign of one of them. So an error counts against a node when another node
answered the same call, and other failures count when the node fails more often than the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rpcaccel.controlplane.stats.history import Window
from rpcaccel.controlplane.stats.snapshot import Notice
from rpcaccel.core.replies.failure import CONTRADICTABLE, is_node_fault
from rpcaccel.core.replies.unknown_errors import UnclassedError
from rpcaccel.core.stats.counters import NodeCell

WHILE = 300.0
"""Seconds that are looked back."""
LEAST_CONTRADICTED = 3
"""Contradicted errors of a method below which nothing is said: a node that is left alone gets a trial a minute."""
LEAST_FAILED = 20
"""Failed attempts below which nothing is said of a node's share of failures."""
SHARE = 0.1
"""Share (0..1) of its attempts that a node may fail at."""
FACTOR = 3.0
"""How many times the share of the other nodes a node's share must be."""
NEW = 3600.0
"""Seconds for which a kind of error is new."""
_OTHERWISE_SAID = frozenset({"rate-limited", "unauthorized", "misconfigured", *CONTRADICTABLE})
"""Kinds of failures that the state of a node tells, or that the calls may be at fault for."""


def failing_nodes(window: Window | None, unclassed: Sequence[UnclassedError], at: float) -> list[Notice]:
    """Sentences about nodes that fail where others do not, and one about new kinds of errors that they gave.

    Args:
        window: the last WHILE seconds.
        unclassed: the errors that no rule knows.
        at: seconds since 1970.
    """
    if window is None:
        return []
    cells = window.passed.nodes
    over = "5 minutes" if window.seconds > WHILE * 0.9 else f"{window.seconds:.0f} s"
    found = []
    for cell in cells:
        name = f"{cell.network}/{cell.node}"
        others = [other for other in cells if other.network == cell.network and other is not cell]
        if text := _contradicted(cell, unclassed, over) or _often(cell, others, over):
            found.append(Notice("warn", name, f"node {name} {text}", "failing"))
    return [*found, *_new_errors(cells, unclassed, at)]


def _contradicted(cell: NodeCell, unclassed: Sequence[UnclassedError], over: str) -> str:
    """ "fails eth_call with "no more units" where others answer it: 196 of 200 in the last 5 minutes"."""
    tried = {method: failed + _good(cell, method) for method, failed in cell.contradicted.items()}
    wrong = [
        (failed, method)
        for method, failed in cell.contradicted.items()
        if failed >= LEAST_CONTRADICTED and failed >= SHARE * tried[method]
    ]
    if not wrong:
        return ""
    failed, method = max(wrong)
    said = next((f' with "{one.message}"' for one in unclassed if _is_of(one, cell) and one.method == method), "")
    more = f", and {len(wrong) - 1} more methods" if len(wrong) > 1 else ""
    return f"fails {method}{said} where others answer it: {failed} of {tried[method]} in the last {over}{more}"


def _often(cell: NodeCell, others: Sequence[NodeCell], over: str) -> str:
    """ "fails 26 % of its calls, others 0.1 %: 50 of 190 in the last 5 minutes, most: timeout"."""
    failed, share = _failed(cell), _failed(cell) / max(cell.calls, 1)
    if failed < LEAST_FAILED or share < SHARE or not others:
        return ""
    theirs = sum(map(_failed, others)) / max(sum(other.calls for other in others), 1)
    if share < FACTOR * theirs:
        return ""
    kind = max((kind for kind in cell.failures if _counts(kind)), key=lambda kind: cell.failures[kind])
    return (
        f"fails {share * 100:.3g} % of its calls, others {theirs * 100:.3g} %: {failed} of {cell.calls} in the last"
        f" {over}, most: {kind}"
    )


def _new_errors(cells: Sequence[NodeCell], unclassed: Sequence[UnclassedError], at: float) -> Iterator[Notice]:
    """One sentence about all errors that no rule knows, are new, and that other nodes contradicted."""
    new = [
        one
        for one in unclassed
        if at - one.first_seen < NEW and any(_is_of(one, cell) and one.method in cell.contradicted for cell in cells)
    ]
    if new:
        latest, many = max(new, key=lambda one: one.first_seen), f"{len(new)} kinds of" if len(new) > 1 else "a kind of"
        yield Notice(
            "warn",
            latest.network,
            f"nodes give {many} error that no rule knows, where others answer; the newest is"
            f' "{latest.message}" (code {latest.code}) from node {latest.network}/{latest.node}, {latest.count} times:'
            " say in error_rules what it means",
            "unknown error",
        )


def _is_of(error: UnclassedError, cell: NodeCell) -> bool:
    return (error.network, error.node) == (cell.network, cell.node)


def _good(cell: NodeCell, method: str) -> int:
    return cell.by_method[method].count if method in cell.by_method else 0


def _failed(cell: NodeCell) -> int:
    return sum(count for kind, count in cell.failures.items() if _counts(kind))


def _counts(kind: str) -> bool:
    return is_node_fault(kind) and kind not in _OTHERWISE_SAID
