"""Decides when a node is probed next, from the rhythm of the blocks: when the next one is due, and soon again.

A probe shows a block some time after the node had it, and how long cannot be seen. So each node's first look at a due
block is moved a little earlier while it shows the block, and later when it does not: the looks follow the rhythm.
"""

from __future__ import annotations

from math import ceil, inf

from rpcaccel.core.heads.block_time import SLOWEST, BlockPace

UNASKED = 0.125
"""Seconds between two looks on average at the least, where the settings do not name the block time: providers charge
for probes."""
_SELDOM = 12.0
"""Seconds after which a node is looked at whatever the rhythm says, so that one that hangs is noticed. One that pushes,
and costs no other looks, is looked at every SLOWEST."""
_AGAIN, _APART = 0.5, 2.5
"""The share of the period after a look at which another one may show that the newest block was replaced, and how much
further apart such looks at several nodes are than their `skew` says."""
_FAR = 1000
"""Blocks above its own head for which a node is looked at because another one has them: another chain is further
away."""
_SOON, _SOONEST, _LATEST = 1 / 16, 0.04, 0.15
"""The second look at a due block comes this share of the period after the first, within these bounds (seconds)."""
_EARLIER = 1 / 5
"""Share of that pause by which the first look moves after it has shown a block."""
_SURE = 4
"""Blocks in a row that the first look has shown, after which it moves by more each time."""
_FASTER = 1.5
_BACK = 2
"""Blocks by which a node's head may seem to go back while it did not."""
_PUSHED = 1 / 4
"""Weight of the newest block in the times at which a node pushes its blocks, and the share of the period by which a
block may be off them; one that is further off sets them anew."""
_GRACE = 3.0
"""Pauses that a push may come late before a node that pushes is looked at for the block."""
_SLOWER = 2.0
"""Factor by which the pauses grow while a due block does not come."""
_BURST, _SPARE = 4.0, 2.6
"""Looks that may be saved up, and how many must be for one that is not about a due block."""


class ProbeSchedule:
    """When one node is to be looked at (monotonic seconds). It is told of each look, and of blocks seen elsewhere."""

    __slots__ = ("_again", "_delay", "_due", "_fresh", "_heard", "_heralded_at", "_hint", "_hinted", "_hits", "_last",
                 "_late", "_missed", "_number", "_pace", "_saved", "_saved_at", "_skew", "_unsure", "_wide",
                 "pushes")  # fmt: skip

    def __init__(self, pace: BlockPace, now: float, *, skew: float = 1.0, replaced: bool = False) -> None:
        """
        Args:
            skew: factor on the pauses while no rhythm is known, which keeps the looks at several nodes out of step.
            replaced: may a block be replaced? Then looks that are saved up are made between two blocks.
        """
        self._pace = pace
        self._skew = skew
        self._again = _AGAIN + _APART * (skew - 1.0) if replaced else inf
        """Share of the period after which a look may show another block of the same number."""
        self._last = -inf
        """When the node was last looked at."""
        self._number = -1
        self._due: float | None = None
        """When the next block is to be looked for; None until a block came."""
        self._missed = 0
        """Looks since the last block that did not show the next one although it was due."""
        self._hits = self._late = 0
        """Blocks in a row that the first look has shown, and that it has not."""
        self._wide = 0.0
        """Seconds within which the due time is not known yet."""
        self._fresh = False
        """Is a block known that the node was not looked at for?"""
        self._heard = -1
        """The newest block that was heard of elsewhere."""
        self._heralded_at: float | None = None
        """When another node pushed the newest block, if one did. Then the next push is waited for as well, which leaves
        the looks for the time when there is a block to see."""
        self._delay = 0.0
        """Seconds from such a push until this node has the block."""
        self._hint, self._hinted = False, -1
        """Whether an answer named a block that the node was not looked at for, and the block that was named last."""
        self._unsure = False
        """Did the node push a block of which only a look can tell what it means, or may it have left its branch?"""
        self._saved, self._saved_at = _BURST, now
        self.pushes = False
        """Does the node push its blocks? Then it is looked at only when a push is overdue, and now and then."""

    def __repr__(self) -> str:
        due = "none" if self._due is None else f"{self._due:.3f}"
        return f"<ProbeSchedule block {self._number}, next due {due}, {self._missed} missed>"

    @property
    def _pause(self) -> float:
        """Seconds from the first look at a due block to the second."""
        return min(_LATEST, max(_SOONEST, self._pace.period * _SOON))

    def next(self, now: float) -> float:
        """When the node is to be looked at next."""
        wanted, need = self._wanted(now)
        seldom = self._last + (SLOWEST if self.pushes else min(_SELDOM, self._again * self._pace.period))
        return min(self._affordable(wanted, need, now), self._affordable(seldom, _SPARE, now))

    def _affordable(self, at: float, need: float, now: float) -> float:
        """The first time from `at` on at which so many looks are saved up."""
        at = max(at, now)
        short = (need - self._spare(at)) * self._cost
        if short <= 0:
            return at
        at, period = at + short, self._pace.period
        if self._due is None or self._cost <= period / 2 or at <= self._due:
            return at
        return self._due + ceil((at - self._due) / period) * period  # so that a rare look is not also at a wrong time

    def _wanted(self, now: float) -> tuple[float, float]:
        """When a look would be useful, and how many looks must have been saved up for it."""
        if self._unsure:
            return now, 1.0
        if self._hint or (self._fresh and not self.pushes and self._pace.known):
            # A look is due soon in any case, or it is not known when.
            need = 1.0 if self._due is None or self._missed or self._due - now < self._pause else _SPARE
            if self._spare(now) >= need:
                return now, need
        if self._due is None or not self._pace.known:
            pause = self._pace.calm if self.pushes else self._pace.pause(now)
            return self._last + pause * self._skew, 1.0
        awaited = self.pushes or (self._heralded_at is not None and self._heard <= self._number)
        first = self._due + (_GRACE * self._pause if awaited else 0.0)
        if first > self._last:
            return first, 1.0
        again = self._last + min(
            self._pace.calm, max(self._pause, self._wide / 2) * _SLOWER ** min(self._missed - 1, 20)
        )
        period = self._pace.period
        passed = max(0.0, self._last - first) // period + 1
        return min(again, first + passed * period), 1.0

    def _spare(self, now: float) -> float:
        """Looks that are saved up."""
        return min(_BURST, self._saved + (now - self._saved_at) / self._cost)

    @property
    def _cost(self) -> float:
        """Seconds in which one look is saved up: two or three for each block, once it is known how often they come."""
        looks = 2 if self._again == inf else 3
        return max(UNASKED, self._pace.period / looks) if self._pace.known else UNASKED

    def looked(self, number: int, asked_at: float) -> None:
        """Note a look that was begun at `asked_at` and showed the block `number` as the node's newest; -1: none."""
        cost = self._cost
        self._saved = min(_BURST, self._saved + (asked_at - self._saved_at) / cost) - 1.0
        self._saved_at = asked_at
        before, self._last = self._last, asked_at
        self._fresh = self._unsure = self._hint = False
        if number > self._number:
            if number > self._heard:  # the node that pushed is gone, or later than this one
                self._heralded_at = None
            if self._number >= 0:
                self._see(before, asked_at)
            self._number = number
            self._missed = 0
            return
        if self._due is not None and asked_at >= self._due:
            self._missed += 1
        if number >= 0:
            self._number = min(self._number, number + _BACK)

    def pushed(self, number: int, now: float, *, understood: bool = True) -> None:
        """Note that the node pushed a block at `now`; one that is not `understood` is to be looked at."""
        self._unsure = self._unsure or not understood
        if number <= self._number:
            self._number = min(self._number, number + _BACK)
            return
        if self._number >= 0:
            due, period = self._nearest(now), self._pace.period
            self._due = (now if abs(now - due) > period * _PUSHED else due + (now - due) * _PUSHED) + period
        self._number, self._missed, self._fresh = number, 0, False

    def turned(self, *, pushes: bool) -> None:
        """Note that the node begins to push its blocks, or does so no longer: then it is looked at, as it may be
        gone."""
        self._unsure = self._unsure or (self.pushes and not pushes)
        self.pushes = pushes

    def hinted(self, number: int) -> bool:
        """Note that an answer of the node to a client named a block. True when the node is to be looked at for it.

        That is once for each block: a chain may tell of a block before any node has it.
        """
        if not self._number < number <= self._number + _FAR or number == self._hinted:
            return False
        self._hint, self._hinted = True, number
        return True

    def look_for_hint(self, now: float) -> float:
        """When a look about what an answer named can be afforded; infinite: there is none to be made."""
        return self._affordable(now, _SPARE, now) if self._hint else inf

    def heard(self, number: int, now: float, *, pushed: bool = False, turned: bool = False) -> bool:
        """Note that another node has a block, which it may have `pushed`, and may have `turned` to from another branch.
        True when this node is to be looked at for it."""
        if turned:
            self._unsure = self._unsure or not self.pushes
            return self._unsure
        if not self._number < number <= self._number + _FAR or number == self._heard:
            return False
        self._heard, self._fresh, self._heralded_at = number, True, now if pushed else None
        if pushed and self._due is not None and self._pace.known:
            self._due, self._missed, self._fresh = now + self._delay, 0, False
        return not self.pushes

    def _nearest(self, at: float) -> float:
        """The due time next to `at`, of those that the period makes of the one that is known."""
        due, period = at if self._due is None else self._due, self._pace.period
        return due + round((at - due) / period) * period

    def _see(self, before: float, at: float) -> None:
        """A block came after the look at `before` and was there at `at`."""
        period, pause = self._pace.period, self._pause
        window = min(at - before, period)
        if self._due is None:
            self._due, self._wide = at, window
        due = self._nearest(at)
        if before < due - pause / 2:  # the first look has shown the block
            self._hits, self._late = self._hits + 1, 0
            self._wide /= 2
            step = _EARLIER * pause * _FASTER ** max(0, self._hits - _SURE)
            due = min(due, at) - min(max(step, self._wide / 2 if self._wide > pause else 0.0), period / 4)
        else:
            self._hits, self._late = 0, self._late + 1
            late = (before + at) / 2 - due
            due += max(late if self._late > 1 else min(late, pause), _EARLIER * pause)
            self._wide = window
        if self._heralded_at is not None:
            self._delay = min(max(0.0, due - self._heralded_at), period / 4)
        self._due = max(due, before) + period
