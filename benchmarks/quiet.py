"""How much of a machine others take during a run: where it is shared, the quietest runs are to be believed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from rpcaccel.bench.runs import process_usage

_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_IDLE = frozenset({3, 4})
"""The places of idle and iowait among the times of /proc/stat (proc(5))."""
_GUEST = 8
"""The first place of times that are counted in others as well."""


_SAMPLE = 0.3
"""Seconds of one look at what others do."""


class Look(Struct, frozen=True):
    """The use of the machine up to a moment."""

    at: float
    busy: float
    """Seconds that all processors were busy, stolen by another machine included; 0 where that is not known."""
    ours: float
    """Seconds of this process and of its descendants."""


def look() -> Look:
    """The use of the machine up to now."""
    used = process_usage.use(process_usage.with_children([os.getpid()]))
    return Look(time.monotonic(), busy(_lines()), used.cpu if used is not None else 0.0)


def _lines() -> list[str]:
    try:
        return Path("/proc/stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return []


def busy(lines: Iterable[str]) -> float:
    """Seconds that all processors were busy, by the lines of /proc/stat; 0 of none."""
    for line in lines:
        if line.startswith("cpu "):
            times = line.split()[1 : 1 + _GUEST]
            return sum(int(ticks) for place, ticks in enumerate(times) if place not in _IDLE) / _TICK
    return 0.0


def others(before: Look, after: Look) -> float:
    """The processors that others kept busy between two moments, on average: 1.0 is one all the time."""
    taken = (after.busy - before.busy) - (after.ours - before.ours)
    return max(0.0, taken / max(1e-9, after.at - before.at))


def settle(most: float, within: float) -> float:
    """Wait until others keep at most `most` processors busy, for at most `within` seconds; returns the seconds that it
    took."""
    began = time.monotonic()
    while time.monotonic() - began < within:
        before = look()
        time.sleep(_SAMPLE)  # what is looked at is what others do in that time
        if others(before, look()) <= most:
            break
    return time.monotonic() - began
