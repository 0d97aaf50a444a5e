"""How long a kept answer may stay, for the sake of space: keys already make a stale one unreachable."""

from __future__ import annotations

from math import inf

from msgspec import Struct

from rpcaccel.core.rules import CacheClass

_HEAD, _EPOCH, _STATIC = CacheClass.HEAD, CacheClass.EPOCH, CacheClass.STATIC  # looked up once (core.planner)
DAY = 86_400.0
_HEADS = 15
"""Blocks for which an answer true at one head is worth its place: late readers, other hosts a little behind."""


_SPREAD = 0.1
"""Share of a life by which it may be shorter, so that what was kept together does not go together."""


class Lifetime(Struct, frozen=True):
    """Seconds in each tier. The second is bounded, so that a stock Redis does not grow for ever."""

    memory: float
    store: float

    def spread(self, chance: float) -> Lifetime:
        """A life up to a tenth shorter; `chance` is drawn from [0, 1)."""
        share = 1.0 - _SPREAD * chance
        return Lifetime(self.memory * share, self.store * share)


def lifetime(cache: CacheClass, block_time: float, *, max_age: float = 0.0, stale: float = 0.0) -> Lifetime:
    """The lifetime of an answer of a class on a chain with that many seconds between blocks.

    Where the operator set one, `max_age` bounds it, and `stale` is added for answers that differ by node (seconds).
    """
    life = _of_class(cache, block_time)
    if not max_age:
        return life
    longest = max_age + stale
    return Lifetime(min(life.memory, longest), min(life.store, longest))


def _of_class(cache: CacheClass, block_time: float) -> Lifetime:
    if cache is _HEAD or cache is _EPOCH:
        seconds = max(30.0, _HEADS * block_time)
        return Lifetime(seconds, seconds)
    return Lifetime(inf, 7 * DAY if cache is _STATIC else DAY)
