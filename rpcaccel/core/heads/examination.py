"""What shadow calls showed of a node: how far back it answers, its limits and roles, and its agreement with others.

The control plane makes an examination (controlplane.nodes.examine) and tells it to the workers with the heads. The
workers send a node no calls that by its examination it would not answer, as long as another node is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

STATE_WINDOW = 131_072
"""Blocks. A node whose oldest state is no further below its head than this is taken for a node that keeps the state of
its newest blocks alone, so that the bound moves with its head. Nodes that prune keep 64 to 100,000 blocks."""
STATE_KEPT = 128
"""Newest blocks whose state every node has: geth and Harmony hold it in memory (core/blockchain.go). After a restart it
fills up again, so that a node that was found to have less has as much soon."""
LONGEST_FAULT = 200
"""Characters of a sentence that quotes a node."""


class PeerAgreement(Struct, frozen=True):
    """The comparison of a node's answers with those of other nodes to the same calls."""

    compared: int = 0
    differing: int = 0
    first: Annotated[str, Meta(description="The first difference, in a sentence; empty without one.")] = ""


class ExaminationFindings(Struct, frozen=True, kw_only=True):
    """What one node answered to shadow calls. What could not be found out is None."""

    seconds: Annotated[float, Meta(description="Seconds that it took.")] = 0.0
    calls: Annotated[
        int, Meta(description="Calls that the node was sent, those of batches and repeated ones included.")
    ] = 0
    version: Annotated[str, Meta(description="Of its software, by its own word; empty where it does not tell.")] = ""
    head: Annotated[int, Meta(description="Of the node, when the examination began.")] = -1
    roles: Annotated[
        dict[str, bool], Meta(description="Whether it has a role, by its answers to calls that need it.")
    ] = {}
    state_from: Annotated[int | None, Meta(description="The oldest block whose state it has; 0: of every block.")] = (
        None
    )
    logs_from: Annotated[int | None, Meta(description="The oldest block whose logs it gives; 0: of every block.")] = (
        None
    )
    range_most: Annotated[
        int | None,
        Meta(description="The greatest difference of last and first block of a range of logs; null: no limit met."),
    ] = None
    range_tried: Annotated[int | None, Meta(description="The greatest difference that was tried.")] = None
    batch_most: Annotated[
        int | None, Meta(description="The most calls it answers in one batch, 1: it takes none; null: no limit met.")
    ] = None
    batch_tried: Annotated[int | None, Meta(description="The longest batch that was tried.")] = None
    traces: Annotated[bool | None, Meta(description="Does it trace transactions by debug methods?")] = None
    agreement: PeerAgreement = PeerAgreement()
    latency: Annotated[
        dict[str, float], Meta(description="Seconds that a call took, by method: the median of those answered.")
    ] = {}
    faults: Annotated[
        tuple[str, ...], Meta(description="Sentences: what is wrong, or could not be found out and why.")
    ] = ()


class Examination(ExaminationFindings, frozen=True, kw_only=True):
    """The findings, and what follows from them."""

    at: float
    """When the examination ended: seconds since 1970."""

    def state_below(self, head: int) -> int:
        """The block below which the node has no state now that `head` is its head; 0 when none is known."""
        if not self.state_from:
            return 0
        kept = max(self.head - self.state_from, STATE_KEPT)
        return max(self.state_from, head - kept) if kept <= STATE_WINDOW else self.state_from

    @property
    def archive(self) -> bool | None:
        """Has the node the state of every block? On a chain that is no longer than what nodes that prune keep, having
        all does not say that the node will keep it."""
        if self.state_from == 0 and self.head <= STATE_WINDOW:
            return None
        return None if self.state_from is None else self.state_from == 0

    @property
    def bounds(self) -> bool:
        """Does the examination keep calls from the node?"""
        limited = self.range_most is not None or self.batch_most is not None
        return (
            bool(self.state_from or self.logs_from) or limited or self.traces is False or False in self.roles.values()
        )

    @property
    def shown(self) -> dict[str, bool]:
        """Whether the node has a role, `archive` among them where that is known."""
        return self.roles if self.archive is None else {**self.roles, "archive": self.archive}

    def sentences(self) -> Iterator[str]:
        """The examination in sentences, what is wrong at the end."""
        yield _reach("state", self.state_from, self.head)
        yield _reach("logs", self.logs_from, self.head)
        if self.range_tried is not None:
            yield _range(self.range_most, self.range_tried)
        if self.batch_tried is not None:
            yield _batches(self.batch_most, self.batch_tried)
        if self.traces is not None:
            yield f"it traces {'transactions' if self.traces else 'no transactions'} by debug methods"
        yield from (
            f"it is {'an' if role[0] in 'aeiou' else 'a'} {role} node" for role, has in self.roles.items() if has
        )
        agreed = self.agreement
        if agreed.compared:
            same, first = agreed.compared - agreed.differing, f": {agreed.first}" if agreed.first else ""
            yield f"{same} of {_many(agreed.compared, 'answer')} agree with other nodes{first}"
        yield from self.faults


def outcome(examination: Examination) -> str:
    """The end of an examination in one sentence, for the log and the event list."""
    said = "; ".join(examination.sentences())
    return f"the node is examined ({_many(examination.calls, 'call')} in {examination.seconds:.1f} s): {said}"


def _reach(what: str, oldest: int | None, head: int) -> str:
    if oldest is None:
        return f"from which block on it has {what} is not known"
    if oldest == 0:
        return f"it has the {what} of every block"
    return f"it has the {what} of blocks from {oldest} on, {head - oldest} below its head"


def _range(most: int | None, tried: int) -> str:
    if most is None:
        return f"it gives logs for every range tried (up to {_many(tried + 1, 'block')} at once)"
    return f"it gives logs for at most {_many(most + 1, 'block')} at once"


def _batches(most: int | None, tried: int) -> str:
    if most is None:
        return f"it answers every batch tried (up to {_many(tried, 'call')})"
    return "it takes no batches" if most <= 1 else f"it answers batches of at most {_many(most, 'call')}"


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
