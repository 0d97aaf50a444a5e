"""What needs attention: the one list that the page shows and that alerts are made of.

What a client can make all nodes say is no sign of one of them. So an error counts against a node when another node
answered the same call, and other failures count when the node fails more often than the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from rpcaccel.config.sections import ErrorsSettings
from rpcaccel.controlplane.stats.history import Window
from rpcaccel.controlplane.stats.notices import trouble
from rpcaccel.controlplane.stats.snapshot import Frame, NodeView, Notice
from rpcaccel.core.client_limits import ANONYMOUS
from rpcaccel.core.replies.failure import CONTRADICTABLE, FailureKind, is_node_fault
from rpcaccel.core.replies.unknown_errors import UnclassedError
from rpcaccel.core.stats.counters import OTHER, NodeCell
from rpcaccel.core.stats.error_log import ErrorLog

UNKNOWN_BLOCK_TIME = 12.0
"""Seconds that a block is taken to need at the most while the block time is not known."""
WELL = frozenset({"serving", "examining", "cordoned", "drained"})
"""States of a node about which nothing is said."""
CALLS_SECONDS = 60.0
"""Seconds that are looked back for calls that fail."""
MIN_FAILED_CALLS = 10
"""Failed calls in CALLS_SECONDS below which nobody is called, whatever their share."""
NODES_SECONDS = 300.0
"""Seconds that are looked back for nodes that fail."""
MIN_CONTRADICTED = 3
"""Contradicted errors of a method below which nothing is said: a node that is left alone gets a trial a minute."""
MIN_FAILED_ATTEMPTS = 20
"""Failed attempts below which nothing is said of a node's share of failures."""
MAX_FAILED_SHARE = 0.1
"""Share (0..1) of its attempts that a node may fail at."""
MIN_FACTOR = 3.0
"""How many times the share of the other nodes a node's share must be."""
NEW_SECONDS = 3600.0
"""Seconds for which a kind of error is new."""
_KINDS = {
    FailureKind.UNKNOWN.value: "errors no rule knows",
    FailureKind.CONNECT.value: "no connection",
    FailureKind.TLS.value: "TLS failed",
    FailureKind.DNS.value: "the host of the URL is not found",
    FailureKind.RESET_BEFORE_REPLY.value: "connections closed before the reply",
    FailureKind.BROKEN_REPLY.value: "answers that broke off",
    FailureKind.TIMEOUT.value: "no answer in time",
    FailureKind.HTTP_STATUS.value: "HTTP errors of nodes",
    FailureKind.NOT_JSON_RPC.value: "answers that are no JSON-RPC",
    FailureKind.WRONG_ID.value: "answers to other calls",
    FailureKind.IMPOSSIBLE.value: "results that cannot be",
    FailureKind.DISPROVED.value: "answers that are false",
    FailureKind.DISAGREED.value: "nodes that had to agree differ",
    FailureKind.RATE_LIMITED.value: "nodes limit the rate",
    FailureKind.UNAUTHORIZED.value: "nodes refuse the key",
    FailureKind.MISCONFIGURED.value: "no JSON-RPC at the URL",
    FailureKind.NODE_BEHIND.value: "nodes have not reached the block",
    FailureKind.NODE_TIMEOUT.value: "nodes gave up themselves",
    FailureKind.NO_NODE.value: "no node can be asked",
    FailureKind.BUSY.value: "no node has room for them",
    FailureKind.CANCELLED.value: "calls were cancelled",
}
"""The words for every kind of failure that may be the service's doing."""
_OTHERWISE_SAID = frozenset({"rate-limited", "unauthorized", "misconfigured", *CONTRADICTABLE})
"""Kinds of failures that the state of a node tells, or that the calls may be at fault for."""


def attention(frame: Frame, failing: Sequence[Notice] = ()) -> list[Notice]:
    """Sentences about everything that should be looked at, first about calls that fail.

    Args:
        failing: what is to be said about networks of which too many calls fail.
    """
    found = list(failing)
    for head in frame.heads:
        mine = [node for node in frame.nodes if node.network == head.network]
        if not any(node.eligible for node in mine):
            text = f"{head.network} has no node that can take calls"
            found.append(Notice("bad", head.network, text, "no node"))
        if head.age is not None and head.age > max(10 * (head.block_time or UNKNOWN_BLOCK_TIME), 15.0):
            usual = f" (a block takes {head.block_time:g} s)" if head.block_time else ""
            text = f"{head.network} has seen no new block for {head.age:.0f} s{usual}"
            found.append(Notice("warn", head.network, text, "no block"))
        if head.note:
            found.append(Notice("warn", head.network, f"{head.network}: {head.note}", "head"))
    for node in frame.nodes:
        if node.state not in WELL and node.why:
            level: Literal["bad", "warn"] = "bad" if node.state in {"failing", "wrong-chain"} else "warn"
            found.append(Notice(level, f"{node.network}/{node.id}", _about(node), "node"))
    found += [Notice("warn", tier.name, text, "tier") for tier in frame.snapshot.tiers if (text := trouble(tier))]
    return [*found, *frame.notices]


def _about(node: NodeView) -> str:
    """The sentence about a node, which names it once, as NETWORK/NODE: several networks may have one of that id."""
    named, begins = f"node {node.network}/{node.id}", f"node {node.id} "
    return f"{named} {node.why.removeprefix(begins)}" if node.why.startswith(begins) else f"{named}: {node.why}"


def failing_networks(minute: Window | None, log: ErrorLog, settings: ErrorsSettings, now: float) -> list[Notice]:
    """A sentence about each network of which too many calls fail, and what most of them have in common."""
    if minute is None:
        return []
    found = []
    for network in sorted({cell.network for cell in minute.passed.cells}):
        cells = [cell for cell in minute.passed.cells if cell.network == network]
        failed = sum(cell.errors for cell in cells)
        accepted = sum(cell.calls - cell.refused for cell in cells)
        share = failed / accepted if accepted else 0.0
        if failed < MIN_FAILED_CALLS or share < settings.warn:
            continue
        over = "minute" if minute.seconds > CALLS_SECONDS * 0.9 else f"{minute.seconds:.0f} s"
        text = f"{network}: {share * 100:.3g} % of the calls failed in the last {over} ({failed} of {accepted})"
        unpaid = sum(cell.unpaid for cell in minute.passed.networks if cell.network == network)
        if unpaid:
            text += f", {unpaid} retries were not made because their budget was used up"
        level: Literal["bad", "warn"] = "bad" if share >= settings.bad else "warn"
        found.append(Notice(level, network, text + _mostly(log, network, now), "failing"))
    return found


def _mostly(log: ErrorLog, network: str, now: float) -> str:
    """ ": most from node b (no answer in time), method m, client c": what more than half of the failures have in
    common."""
    by: dict[str, Counter[str]] = {what: Counter() for what in ("node", "kind", "method", "client")}
    for group in log.groups():
        number = group.over_time.last(CALLS_SECONDS, now)
        if group.key.network != network or group.key.fault != "service" or not number:
            continue
        by["kind"].update({_KINDS.get(group.kind, group.kind): number})
        by["method"].update({group.key.method: number})
        by["node"].update(group.lately_nodes.counts(now))
        by["client"].update(group.lately_clients.counts(now))
    node, kind, method, client = (most(by[what]) for what in ("node", "kind", "method", "client"))
    parts = [
        f"from node {node}{f' ({kind})' if kind else ''}" if node else kind,
        f"method {method}" if method else "",
        f"client {client}" if client and client != ANONYMOUS else "",
    ]
    said = ", ".join(part for part in parts if part)
    if not said:
        return ""
    return f": most {said}" if node else f": most: {said}"


def most(counts: Mapping[str, int]) -> str:
    """The name that has more than half of all; empty when none has."""
    if not counts:
        return ""
    name = max(counts, key=lambda one: counts[one])
    return name if name != OTHER and counts[name] * 2 > sum(counts.values()) else ""


def failing_nodes(window: Window | None, unclassed: Sequence[UnclassedError], at: float) -> list[Notice]:
    """Sentences about nodes that fail where others do not, and one about new kinds of errors that they gave.

    Args:
        window: the last NODES_SECONDS seconds.
        unclassed: the errors that no rule knows.
        at: seconds since 1970.
    """
    if window is None:
        return []
    cells = window.passed.nodes
    over = "5 minutes" if window.seconds > NODES_SECONDS * 0.9 else f"{window.seconds:.0f} s"
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
        if failed >= MIN_CONTRADICTED and failed >= MAX_FAILED_SHARE * tried[method]
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
    if failed < MIN_FAILED_ATTEMPTS or share < MAX_FAILED_SHARE or not others:
        return ""
    theirs = sum(map(_failed, others)) / max(sum(other.calls for other in others), 1)
    if share < MIN_FACTOR * theirs:
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
        if at - one.first_seen < NEW_SECONDS
        and any(_is_of(one, cell) and one.method in cell.contradicted for cell in cells)
    ]
    if new:
        latest, many = max(new, key=lambda one: one.first_seen), f"{len(new)} kinds of" if len(new) > 1 else "a kind of"
        yield Notice(
            "warn",
            latest.network,
            f"nodes give {many} error that no rule knows, where others answer; the newest is"
            f' "{latest.message}" (code {latest.code}), {latest.count} times, most often from node'
            f" {latest.network}/{max(latest.nodes, key=latest.nodes.__getitem__)}:"
            " say in error_rules what it means",
            "unknown error",
        )


def _is_of(error: UnclassedError, cell: NodeCell) -> bool:
    return error.network == cell.network and cell.node in error.nodes


def _good(cell: NodeCell, method: str) -> int:
    return cell.by_method[method].count if method in cell.by_method else 0


def _failed(cell: NodeCell) -> int:
    return sum(count for kind, count in cell.failures.items() if _counts(kind))


def _counts(kind: str) -> bool:
    return is_node_fault(kind) and kind not in _OTHERWISE_SAID
