"""A token bucket: so many tokens a second, and a store of them for those who come in bursts."""

from __future__ import annotations


class Bucket:
    """Starts full. Times are seconds on the caller's clock."""

    __slots__ = ("_at", "burst", "level", "rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        """`rate`: tokens a second, above 0; `burst`: tokens it holds at the most."""
        self.rate = rate
        self.burst = burst
        self.level = burst
        self._at = now

    def __repr__(self) -> str:
        return f"<bucket {self.level:g} of {self.burst:g}, {self.rate:g}/s>"

    def take(self, cost: float, now: float) -> float:
        """Take `cost` tokens: 0.0 when they were taken, else the seconds after which they may be, and nothing taken.

        What costs more than the bucket holds is let through when it is full, and paid off afterwards.
        """
        level = self._fill(now)
        wanted = min(cost, self.burst)
        if level >= wanted:
            self.level = level - cost
            return 0.0
        return (wanted - level) / self.rate

    def charge(self, cost: float, now: float) -> None:
        """Take what was spent elsewhere. It may leave a debt of one full bucket, and never more."""
        self.level = max(self._fill(now) - cost, -self.burst)

    def adopt(self, rate: float, burst: float, now: float) -> None:
        """New settings; what is left stays, within the new size."""
        self._fill(now)
        self.rate = rate
        self.burst = burst
        self.level = min(self.level, burst)

    def _fill(self, now: float) -> float:
        if now > self._at:
            self.level = min(self.burst, self.level + (now - self._at) * self.rate)
            self._at = now
        return self.level
