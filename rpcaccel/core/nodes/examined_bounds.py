"""What a node's examination means for its calls: the bounds that it found, at the node's head of this moment."""

from __future__ import annotations

from collections.abc import Mapping

from rpcaccel.core.heads.examination import Examination
from rpcaccel.core.plan.plan import Plan


class ExaminedBounds:
    """The examination of one node in a worker. Heads and bounds are block numbers."""

    __slots__ = ("examination", "examining", "logs_from", "range_most", "roles", "state_from", "untraced")

    def __init__(self) -> None:
        self.examination: Examination | None = None
        self.examining = False
        """Is the node kept from calls of clients until it is examined?"""
        self.roles: Mapping[str, bool] = {}
        """Roles that the node has or has not."""
        self.state_from = self.logs_from = 0
        """The oldest block whose state, and the oldest whose logs the node has; 0 when none is known to be missing."""
        self.range_most: int | None = None
        """The greatest difference of last and first block of a range of logs; None where no limit is known."""
        self.untraced: frozenset[str] = frozenset()
        """Methods that the node did not have."""

    def __repr__(self) -> str:
        return f"<examined: state from {self.state_from}, logs from {self.logs_from}, range {self.range_most}>"

    def take(self, examination: Examination | None, untraced: frozenset[str], head: int) -> bool:
        """Take the examination as the control plane told it; to be called with each head, since the state that a node
        keeps moves with its head. True when it is another examination than before.

        `untraced`: the methods that a node without traces lacks.
        """
        before, self.examination = self.examination, examination
        self.state_from = 0 if examination is None else examination.state_below(head)
        if examination is before or (examination is not None and before is not None and examination.at == before.at):
            return False
        self.roles = {} if examination is None else examination.shown
        self.logs_from = (examination.logs_from or 0) if examination is not None else 0
        self.range_most = None if examination is None else examination.range_most
        self.untraced = untraced if examination is not None and examination.traces is False else frozenset()
        return True

    def too_old(self, block: int, plan: Plan) -> bool:
        """Has the node no logs of a block that a call for logs begins with?"""
        return block < self.logs_from and plan.rule.split == "logs"

    def too_long(self, first: int, plan: Plan) -> bool:
        """Is a call for logs about more blocks at once than the node answers about?"""
        longest = self.range_most
        return (
            longest is not None
            and plan.rule.split == "logs"
            and plan.block is not None
            and plan.block - first > longest
        )
