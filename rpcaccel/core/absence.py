"""Since when the nodes that have the served head have answered no call about it."""

from __future__ import annotations


class Absence:
    """The time of an outage and not of each call: who calls when others have waited long need not wait again."""

    __slots__ = ("_noticed_at", "since")

    def __init__(self) -> None:
        self.since: float | None = None
        """Monotonic seconds; None: they answer, as far as is known."""
        self._noticed_at = float("-inf")

    def noticed(self, now: float, forget_after: float) -> float:
        """A call about the head was answered by none of them: since when that is so. What nobody has noticed for
        `forget_after` seconds was another outage."""
        if self.since is None or now - self._noticed_at > forget_after:
            self.since = now
        self._noticed_at = now
        return self.since

    def ended(self) -> None:
        """One of them answered."""
        self.since = None

    def __repr__(self) -> str:
        return "<no absence>" if self.since is None else f"<absent since {self.since:.1f}>"
