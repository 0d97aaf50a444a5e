"""Tracks, by method, since when no node that has the served head answers calls about it."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct


class Outage(Struct):
    """An outage of the nodes at the head. Times are monotonic seconds."""

    since: float = float("-inf")
    noticed_at: float = float("-inf")
    """The last time at which the outage was noticed."""
    gone: frozenset[str] = frozenset()
    """Ids of the nodes that had the head and did not answer."""


class Absence:
    """The outages of a network, timed once for all calls: a call that comes later need not wait again.

    Nodes may refuse single methods, so a method's outage ends only with an answer to that method, and only from a node
    that was gone; other nodes that reach the head now and then do not end it. As long as no such node answers any
    method, the outage that one method noticed first applies to all. Methods are the names of rules, so their number is
    bounded by the chain's table. Times are monotonic seconds.
    """

    __slots__ = ("_any", "methods")

    def __init__(self) -> None:
        self.methods: dict[str, Outage] = {}
        """The outages by method."""
        self._any = Outage()
        """The outage that some method noticed first, as long as no method was answered since."""

    def noticed(self, method: str, now: float, forget_after: float, gone: Collection[str]) -> float:
        """Note that none of the nodes at the head (`gone`) answered a call about it; return since when that is so.

        An outage that was not noticed for `forget_after` seconds is over, and another one begins.
        """
        known = [self.methods.get(method, Outage()), self._any]
        lasting = next((outage for outage in known if now - outage.noticed_at <= forget_after), Outage(now))
        self.methods[method] = Outage(lasting.since, now, lasting.gone.union(gone))
        if now - self._any.noticed_at > forget_after:
            self._any = Outage(lasting.since)
        self._any = Outage(self._any.since, now, self._any.gone.union(gone))
        return lasting.since

    def ended(self, method: str, node: str) -> None:
        """Note that a node that has the head answered a call of this method."""
        outage = self.methods.get(method)
        if outage is not None and node in outage.gone:
            del self.methods[method]
        if node in self._any.gone:
            self._any = Outage()

    def __repr__(self) -> str:
        return f"<absent for {len(self.methods)} methods>" if self.methods else "<no absence>"
