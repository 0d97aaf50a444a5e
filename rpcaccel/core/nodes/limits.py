"""The quotas of a node: units per second, day and month, how much is used, and when a quota will run out.

Units are what the provider of the node bills; a call is one unit where the settings name no costs (`MethodCosts`).

Days and months are calendar periods in UTC, as providers count them. Times are monotonic unless said otherwise; `epoch`
is the Unix time at monotonic zero.

The adaptive limit of calls in flight on a node: additive increase, multiplicative decrease, between two bounds. A node
shows that it is overloaded by not answering in time, or by leaving no connection free. The limit then falls below the
number of calls in flight; it grows by one for each round of calls that are answered while the limit is in use (Chiu and
Jain, 1989). Latency alone does not lower the limit, because methods differ in latency by a hundred times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from fnmatch import translate
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

Window = Literal["day", "month"]
_DAY = 86_400.0
_MAX_COSTS, _MAX_NAME = 2048, 128
"""Methods whose costs are remembered, and characters of a name that is: clients can invent names."""


class MethodCosts:
    """What a call of each method costs at a node, in units. The first of these decides:

    1. the operator's row with the method's name, then the first of the operator's patterns that fits;
    2. the provider's row with the name, then the first of the provider's patterns that fits;
    3. the row "*" of the operator, then that of the provider; "**" is another spelling of it;
    4. without any, `heavy` units for a heavy method, and one for any other.
    """

    __slots__ = ("_default", "_heavy", "_known", "_tables", "billed")

    def __init__(
        self, own: Mapping[str, float] | None = None, provider: Mapping[str, float] | None = None, heavy: float = 1.0
    ) -> None:
        """`own`, `provider`: units by the name of a method or an fnmatch pattern, case-sensitive."""
        rows = [own or {}, provider or {}]
        self.billed = any(rows)
        """Does any row say what a call costs? Otherwise units are calls."""
        self._heavy = heavy
        self._default = next((cost for table in rows for name, cost in table.items() if not name.strip("*")), None)
        self._tables = [(table, list(_patterns(table))) for table in rows if table]
        self._known: dict[str, float] = {}

    def __eq__(self, other: object) -> bool:
        """Two are equal when every method costs the same at both."""
        return isinstance(other, MethodCosts) and self._rows == other._rows

    def __hash__(self) -> int:
        return hash(self._rows)

    @property
    def _rows(self) -> tuple[object, ...]:
        return tuple(tuple(table.items()) for table, _ in self._tables), self._default, self._heavy

    def __repr__(self) -> str:
        return f"<costs of {sum(len(table) for table, _ in self._tables)} rows>"

    @property
    def most(self) -> float:
        """The units of the dearest call that a row names."""
        return max(self._heavy, *(cost for table, _ in self._tables for cost in table.values()), 1.0)

    def of(self, method: str, heavy: bool) -> float:
        """The units of one call. `heavy`: says the chain's rule that the method is heavy?"""
        cost = self._known.get(method)
        if cost is None:
            cost = self._decide(method, heavy)
            if len(method) <= _MAX_NAME:
                if len(self._known) >= _MAX_COSTS:
                    del self._known[next(iter(self._known))]  # the oldest alone: the others need no second decision
                self._known[method] = cost
        return cost

    def _decide(self, method: str, heavy: bool) -> float:
        for table, patterns in self._tables:
            if method in table:
                return table[method]
            for pattern, cost in patterns:
                if pattern.match(method):
                    return cost
        if self._default is not None:
            return self._default
        return self._heavy if heavy else 1.0


def is_cost_pattern(name: str) -> bool:
    """Does a row of costs fit by a pattern, that is neither by a name nor for every method that no other row fits?"""
    return bool(name.strip("*")) and ("*" in name or "?" in name)


def _patterns(table: Mapping[str, float]) -> Iterator[tuple[re.Pattern[str], float]]:
    for name, cost in table.items():
        if is_cost_pattern(name):
            yield re.compile(translate(name)), cost


class QuotaLimits(Struct, frozen=True, kw_only=True):
    """The units that calls to a node may cost in each period; 0: no limit."""

    second: float = 0.0
    day: float = 0.0
    month: float = 0.0
    costs: MethodCosts = MethodCosts()

    @property
    def counts(self) -> bool:
        """Is there any limit, or any cost, so that calls are to be counted?"""
        return bool(self.second or self.day or self.month) or self.costs.billed

    def shared_by(self, workers: int) -> QuotaLimits:
        """The limits of each of `workers` workers: a second is divided among them. Days and months are not, since each
        worker is told what the others used of them (`Brought`)."""
        return replace(self, second=self.second / workers)


class QuotaUse(Struct, frozen=True, kw_only=True):
    """How many units of a quota are used. Times are Unix seconds."""

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

    def spend(self, method: str, heavy: bool, now: float) -> float:
        """Count one call that was sent; returns the units that it costs."""
        cost = self.settings.costs.of(method, heavy)
        for count in (self._day, self._month):
            count.roll(now + self.epoch)
            count.used += cost
        if self.settings.second:
            self._tokens = self._refilled(now) - cost
            self._at = now
        return cost

    def bring(self, brought: Brought, now: float) -> None:
        """Count what others used, in the place of what was brought before; ignored when it was in another window."""
        for count in (self._day, self._month):
            count.roll(now + self.epoch)
            if count.window == brought.window and count.ends == brought.renews:
                count.used += brought.used - count.brought
                count.brought = brought.used
                count.since = min(count.since, brought.since)

    def has_room(self, now: float) -> bool:
        """Does the limit per second allow a call now? A call may cost more than is left of it: the next ones then wait
        until that is made up for."""
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
