"""Since when the nodes that have the served head have answered no call about it, method by method."""

from __future__ import annotations

_NEVER = float("-inf")


class Absence:
    """The time of an outage and not of each call: who calls when others have waited long need not wait again.

    Nodes may refuse single methods, so a method's outage ends with an answer to that method alone. As long as no method
    is answered, an outage that one method noticed first is that of all. Methods are named by their rules: there are no
    more than the chain's table has. Monotonic seconds.
    """

    __slots__ = ("_any", "methods")

    def __init__(self) -> None:
        self.methods: dict[str, tuple[float, float]] = {}
        """Of methods that were noticed to go unanswered: since when, and when that was noticed last."""
        self._any: tuple[float, float] = _NEVER, _NEVER
        """The same of whichever method was noticed first, while none was answered since."""

    def noticed(self, method: str, now: float, forget_after: float) -> float:
        """A call about the head was answered by no node that has it: since when that is so. What nobody has noticed for
        `forget_after` seconds was another outage."""
        since = next(
            (
                since
                for since, noticed_at in (self.methods.get(method, (_NEVER, _NEVER)), self._any)
                if now - noticed_at <= forget_after
            ),
            now,
        )
        self.methods[method] = since, now
        self._any = min(since, self._any[0]) if now - self._any[1] <= forget_after else since, now
        return since

    def ended(self, method: str) -> None:
        """A node that has the head answered a call of this method."""
        self.methods.pop(method, None)
        self._any = _NEVER, _NEVER

    def __repr__(self) -> str:
        return f"<absent for {len(self.methods)} methods>" if self.methods else "<no absence>"
