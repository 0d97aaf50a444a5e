"""The methods that a node fails while other nodes answer the same calls, whatever the words of its errors mean.

Only a contradicted error counts: another node had a result for the very same call. So a client whose calls fail on all
nodes teaches nothing. A good answer to the method ends what was learnt of it, so that a client whose calls fail on one
node alone takes nothing from others whose calls the node answers.
"""

from __future__ import annotations

from rpcaccel.core.nodes.parking import SEVERAL, Rest

ROW, LONG_ROW = 5, 20
"""Contradicted errors with no good answer between, after which the node is asked last: the first number once `SPAN` has
passed since the first error, the second one whenever the errors came."""
SPAN = 2.0
"""Seconds."""
SHOWN = 300.0
"""Seconds after a rest for which a method is named that nobody calls any more."""
_NEVER = float("-inf")


class _Row:
    """The contradicted errors of one method since its last good answer. Times are monotonic seconds."""

    __slots__ = ("count", "rest", "since")

    def __init__(self, now: float) -> None:
        self.since = now
        self.count = 0
        self.rest = Rest()

    @property
    def learnt(self) -> bool:
        """Were there errors enough?"""
        return self.rest.step > 0


class Contradictions:
    """What other nodes contradict one node in. Methods are the names of rules, so that a chain's table bounds them."""

    __slots__ = ("methods",)

    def __init__(self) -> None:
        self.methods: dict[str, _Row] = {}

    def __repr__(self) -> str:
        return f"<contradicted in {', '.join(self.methods) or 'nothing'}>"

    def noted(self, method: str, now: float) -> None:
        """Note an error of the node to a call that another node answered."""
        row = self.methods.get(method)
        if row is None:
            row = self.methods[method] = _Row(now)
        row.count += 1
        if row.learnt or row.count >= LONG_ROW or (row.count >= ROW and now - row.since >= SPAN):
            row.rest.begin(now, None)

    def asked(self, method: str, now: float) -> None:
        """Note that the node is asked. A call after a rest is a trial: the next rest, twice as long, begins with the
        call, and a good answer ends that rest."""
        row = self.methods.get(method)
        if row is not None and row.learnt:
            row.rest.begin(now, None)

    def answered(self, method: str) -> None:
        """Note a good answer."""
        self.methods.pop(method, None)

    def until(self, method: str, answered_at: float) -> float:
        """The time until which other nodes are asked for this method; minus infinity when the node is asked like them.

        Args:
            answered_at: the time of the node's last good answer to any call. Where there was none since several methods
                began to fail, the node is asked last for all methods.
        """
        row = self.methods.get(method)
        until = row.rest.until if row is not None else _NEVER
        failing = [row for row in self.methods.values() if row.learnt and row.since > answered_at]
        return max(until, min(row.rest.until for row in failing)) if len(failing) >= SEVERAL else until

    def learnt(self, now: float) -> list[str]:
        """The methods that the node is asked last for, between its trials, and was asked for within SHOWN."""
        return sorted(method for method, row in self.methods.items() if row.learnt and now < row.rest.until + SHOWN)
