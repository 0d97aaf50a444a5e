"""Log lines about nodes, heads and tiers: one line for each change, and none while nothing changes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from rpcaccel.controlplane.stats.snapshot import Frame
from rpcaccel.core.heads.examination import outcome
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead
from rpcaccel.core.stats.counters import SHARED_TIER, Tier

LEVELS = {"info": logging.INFO, "warning": logging.WARNING}


DISK = "disk"
"""The name of the tier on disk, which is not reached over a connection as Redis is."""


class LogNotice(Struct, frozen=True):
    """One line for the log."""

    level: Literal["info", "warning"]
    text: str
    node: str = ""
    """The id of the node; empty when the line is about the network."""
    examination: bool = False
    """Is the line about an examination of the node that begins or has ended?"""


def changes(before: NetworkHeads | None, now: NetworkHeads) -> Iterator[LogNotice]:
    """The lines about a change of heads from `before` to `now`. Lag is left to the page, since it comes and goes."""
    known = {} if before is None else {node.id: node for node in before.nodes}
    for node in now.nodes:
        yield from _examination_changes(known.get(node.id), node)
        was, is_now = _standing(known.get(node.id)), _standing(node)
        if is_now == was:
            continue
        if is_now == "right":
            if was:  # that a node is well from the start is no news
                yield LogNotice("info", "the node answers, and serves the right chain", node.id)
        elif is_now:
            yield LogNotice("warning", node.note, node.id)
    note = "" if before is None else _kind_of(before.served.note)
    if now.served.note and _kind_of(now.served.note) != note:
        yield LogNotice("warning", now.served.note)
    elif note and not now.served.note:
        yield LogNotice("info", f"the head is followed again, at block {now.served.head}")


def _examination_changes(before: NodeHead | None, now: NodeHead) -> Iterator[LogNotice]:
    """The lines about a node that waits for its examination, and about one that has ended."""
    if now.examining and not (before is not None and before.examining):
        yield LogNotice("info", "the node is examined by shadow calls before it gets calls", now.id, examination=True)
    examination, last = now.examination, None if before is None else before.examination
    if examination is not None and (last is None or last.at != examination.at):
        wrong = examination.agreement.differing or examination.faults
        yield LogNotice("warning" if wrong else "info", outcome(examination), now.id, examination=True)


def tier_changes(before: Frame | None, now: Frame) -> Iterator[LogNotice]:
    """The lines about tiers: a tier that is lost, a tier that is back, and a server with wrong settings."""
    were = {} if before is None else {tier.name: tier for tier in before.snapshot.tiers}
    for tier in now.snapshot.tiers:
        sentence, was = trouble(tier), trouble(were[tier.name]) if tier.name in were else ""
        if sentence and sentence != was:
            yield LogNotice("warning", sentence)
        elif was and not sentence:
            back = "the disk tier is in use again" if tier.name == DISK else f"{tier.name} is reached again"
            yield LogNotice("info", back)
    known = set() if before is None else {notice.text for notice in before.notices}
    for notice in now.notices:
        if notice.subject in {DISK, SHARED_TIER} and notice.text not in known:
            yield LogNotice("warning", notice.text)


def trouble(tier: Tier) -> str:
    """The sentence about a tier that is lost or has a fault, or of which a server is lost; empty when all is well."""
    why = f" ({tier.fault})" if tier.fault else ""
    if not tier.up:
        lost = "the disk tier is set aside" if tier.name == DISK else f"{tier.name} is not reached"
        return f"{lost}{why}; its calls count as misses until it is back"
    if tier.name == DISK:
        return f"the disk tier: {tier.fault}" if tier.fault else ""
    return f"a part of {tier.name} is not reached{why}" if tier.fault else ""


def _standing(node: NodeHead | None) -> str:
    """A word for the state of a node; empty while nothing is known or nothing is to be said."""
    if node is None:
        return ""
    if node.chain_ok is False:
        return "wrong"
    if node.answering:
        return "right" if node.chain_ok else "unsure" if node.note else ""
    return "silent" if node.note else ""


def _kind_of(note: str) -> str:
    """A note without the numbers that change from one moment to the next."""
    return "".join(char for char in note if not char.isdigit())
