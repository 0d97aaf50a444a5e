"""Since when the nodes that have the served head have answered no call about it, method by method."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct


class Outage(Struct):
    """Monotonic seconds."""

    since: float = float("-inf")
    noticed_at: float = float("-inf")
    """When it was noticed last."""
    gone: frozenset[str] = frozenset()
    """Ids of the nodes that had the head and did not answer."""


class Absence:
    """The time of an outage and not of each call: who calls when others have waited long need not wait again.

    Nodes may refuse single methods, so a method's outage ends with an answer to that method alone, and with one of a
    node that was gone: others that reach the head now and then do not end it. As long as no method is answered by such
    a node, an outage that one method noticed first is that of all. Methods are named by their rules: there are no more
    than the chain's table has. Monotonic seconds.
    """

    __slots__ = ("_any", "methods")

    def __init__(self) -> None:
        self.methods: dict[str, Outage] = {}
        """Those that were noticed to go unanswered."""
        self._any = Outage()
        """The outage of whichever method noticed it first, while none was answered since."""

    def noticed(self, method: str, now: float, forget_after: float, gone: Collection[str]) -> float:
        """A call about the head was answered by none of the nodes that have it, `gone`: since when that is so. What
        nobody has noticed for `forget_after` seconds was another outage."""
        known = [self.methods.get(method, Outage()), self._any]
        lasting = next((outage for outage in known if now - outage.noticed_at <= forget_after), Outage(now))
        self.methods[method] = Outage(lasting.since, now, lasting.gone.union(gone))
        if now - self._any.noticed_at > forget_after:
            self._any = Outage(lasting.since)
        self._any = Outage(self._any.since, now, self._any.gone.union(gone))
        return lasting.since

    def ended(self, method: str, node: str) -> None:
        """A node that has the head answered a call of this method."""
        outage = self.methods.get(method)
        if outage is not None and node in outage.gone:
            del self.methods[method]
        if node in self._any.gone:
            self._any = Outage()

    def __repr__(self) -> str:
        return f"<absent for {len(self.methods)} methods>" if self.methods else "<no absence>"
