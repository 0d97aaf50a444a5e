"""What needs attention: the one list that the page shows and that alerts are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rpcaccel.controlplane.stats.notices import trouble
from rpcaccel.controlplane.stats.snapshot import Frame, NodeView, Notice

UNKNOWN_BLOCK_TIME = 12.0
"""Seconds that a block is taken to need at the most while the block time is not known."""
WELL = frozenset({"serving", "proving", "cordoned", "drained"})
"""States of a node about which nothing is said."""


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
