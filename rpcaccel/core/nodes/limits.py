"""The quotas of a node: calls per second, day and month, how much is used, and when a quota will run out.

Days and months are calendar periods in UTC, as providers count them. Times are monotonic unless said otherwise; `epoch`
is the Unix time at monotonic zero.

The adaptive limit of calls in flight on a node: additive increase, multiplicative decrease, between two bounds. A node
shows that it is overloaded by not answering in time, or by leaving no connection free. The limit then falls below the
number of calls in flight; it grows by one for each round of calls that are answered while the limit is in use (Chiu and
Jain, 1989). Latency alone does not lower the limit, because methods differ in latency by a hundred times.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

Window = Literal["day", "month"]
_DAY = 86_400.0


class QuotaLimits(Struct, frozen=True, kw_only=True):
    """The calls that a node may be sent in each period; 0: no limit."""

    second: float = 0.0
    day: float = 0.0
    month: float = 0.0
    heavy: float = 1.0
    """The number of calls that a call of a heavy method counts as."""

    @property
    def limits(self) -> bool:
        """Is there any limit?"""
        return bool(self.second or self.day or self.month)

    def shared_by(self, workers: int) -> QuotaLimits:
        """The limits of each of `workers` workers: a second is divided among them. Days and months are not, since each
        worker is told what the others used of them (`Brought`)."""
        return QuotaLimits(second=self.second / workers, day=self.day, month=self.month, heavy=self.heavy)


class QuotaUse(Struct, frozen=True, kw_only=True):
    """How much of a quota is used. Times are Unix seconds."""

    window: Window
    used: float
    limit: float
    since: float
    """When counting began: with the period, or with the program if that was later."""
    renews: float
    runs_out: float | None = None
    """When it will be used up if things go on as since; None when it will last."""
    brought: float = 0.0
    """The part of `used` that earlier runs and other workers used (`Brought`)."""

    @property
    def own(self) -> float:
        """The part that the reporting worker used itself."""
        return self.used - self.brought


class Brought(Struct, frozen=True, kw_only=True):
    """The usage of a quota in one window by all others than the worker that gets this. Times are Unix seconds."""

    network: str
    node: str
    window: Window
    used: Annotated[float, Meta(ge=0)]
    since: float
    renews: float
    """When the window ends, which tells it from other windows."""


def runs_out(used: float, limit: float, *, since: float, now: float, renews: float) -> float | None:
    """When `limit` will be reached at the rate of `used` from `since` to `now`; None when the period ends before."""
    if used >= limit:
        return now
    if used <= 0 or now <= since:
        return None
    at = now + (limit - used) * (now - since) / used
    return at if at < renews else None


class _Count:
    """The usage in one calendar period. Times are Unix seconds."""

    __slots__ = ("brought", "ends", "since", "used", "window")

    def __init__(self, window: Window, unix: float) -> None:
        self.window = window
        self.used = self.brought = 0.0
        self.since = unix
        self.ends = window_end(window, unix)

    def roll(self, unix: float) -> None:
        """Start a new period when the current one is over."""
        if unix >= self.ends:
            self.used, self.brought, self.since = 0.0, 0.0, self.ends
            self.ends = window_end(self.window, unix)


class Quota:
    """The quota of one node, counted by one worker."""

    __slots__ = ("_at", "_day", "_month", "_tokens", "epoch", "settings")

    def __init__(self, settings: QuotaLimits, *, now: float, epoch: float) -> None:
        self.settings = settings
        self.epoch = epoch
        """The Unix time at monotonic zero. It changes when the clock of the machine is set."""
        self._day = _Count("day", now + epoch)
        self._month = _Count("month", now + epoch)
        self._tokens = max(settings.second, 1.0)
        self._at = now

    def spend(self, heavy: bool, now: float) -> None:
        """Count one call that was sent."""
        cost = self.settings.heavy if heavy else 1.0
        for count in (self._day, self._month):
            count.roll(now + self.epoch)
            count.used += cost
        if self.settings.second:
            self._tokens = self._refilled(now) - cost
            self._at = now

    def bring(self, brought: Brought, now: float) -> None:
        """Count what others used, in the place of what was brought before; ignored when it was in another window."""
        for count in (self._day, self._month):
            count.roll(now + self.epoch)
            if count.window == brought.window and count.ends == brought.renews:
                count.used += brought.used - count.brought
                count.brought = brought.used
                count.since = min(count.since, brought.since)

    def has_room(self, now: float) -> bool:
        """Does the limit per second allow a call now?"""
        return not self.settings.second or self._refilled(now) >= 1.0

    def parked_until(self, now: float) -> float | None:
        """When a used-up day or month renews (monotonic seconds); None when neither is used up."""
        unix = now + self.epoch
        until = None
        for count, limit in ((self._day, self.settings.day), (self._month, self.settings.month)):
            if limit and count.used >= limit:
                count.roll(unix)
                if count.used >= limit:
                    until = count.ends - self.epoch
        return until

    def uses(self, now: float) -> tuple[QuotaUse, ...]:
        """The usage of each limit that is set."""
        unix = now + self.epoch
        found = []
        for count, limit in ((self._day, self.settings.day), (self._month, self.settings.month)):
            if limit:
                count.roll(unix)
                out = runs_out(count.used, limit, since=count.since, now=unix, renews=count.ends)
                found.append(
                    QuotaUse(
                        window=count.window,
                        used=count.used,
                        limit=limit,
                        since=count.since,
                        renews=count.ends,
                        runs_out=out,
                        brought=count.brought,
                    )
                )
        return tuple(found)

    def _refilled(self, now: float) -> float:
        full = max(self.settings.second, 1.0)
        return min(full, self._tokens + (now - self._at) * self.settings.second)

    def __repr__(self) -> str:
        return f"<quota {self._day.used:g} today, {self._month.used:g} this month>"


def window_end(window: Window, unix: float) -> float:
    """The Unix time at which the day or month of `unix` ends, in UTC."""
    if window == "day":
        return (unix // _DAY + 1) * _DAY
    at = datetime.fromtimestamp(unix, UTC)
    year, month = (at.year + 1, 1) if at.month == 12 else (at.year, at.month + 1)
    return datetime(year, month, 1, tzinfo=UTC).timestamp()


class ConcurrencyPolicy(Struct, frozen=True, kw_only=True):
    """How the limit changes."""

    least: int = 16
    """The lower bound of the limit."""
    cut: float = 0.7
    """The limit after a sign of overload, as a share of the calls in flight."""
    every: float = 1.0
    """Seconds between two decreases: the failures of one overload count once."""


class Limit:
    __slots__ = ("_cut_at", "most", "settings", "value")

    def __init__(self, most: int, settings: ConcurrencyPolicy | None = None) -> None:
        """`most`: the upper bound, at which the limit starts."""
        self.settings = settings or ConcurrencyPolicy()
        self.most = most
        self.value = float(most)
        self._cut_at = float("-inf")

    def adopt(self, most: int, settings: ConcurrencyPolicy) -> None:
        """Apply new bounds. A limit that was lowered stays; one at its upper bound moves to the new one."""
        self.value = float(most) if self.value >= self.most else min(self.value, float(most))
        self.most, self.settings = most, settings

    def answered(self, in_flight: int, count: int = 1) -> None:
        """Count calls that were answered at once; `in_flight` calls were under way."""
        if self.value < self.most and in_flight * 2 >= self.value:
            self.value = min(self.value + count / self.value, float(self.most))

    def overloaded(self, in_flight: int, now: float) -> None:
        """Report a sign of overload with `in_flight` calls under way."""
        if now - self._cut_at < self.settings.every:
            return
        self._cut_at = now
        self.value = max(min(self.value, in_flight) * self.settings.cut, min(self.settings.least, self.most), 1.0)

    def __repr__(self) -> str:
        return f"<limit {self.value:.0f} of {self.most}>"
