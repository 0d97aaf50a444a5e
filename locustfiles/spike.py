"""A ramp to 2,000 calls a second, a spike to 4,000, and back: what DApps do when something happens.

    RPCACCEL_SPIKE_BASE 2000      calls a second after the ramp
    RPCACCEL_SPIKE_PEAK 4000      at the peak
    RPCACCEL_SPIKE_RAMP 30        seconds of the ramp
    RPCACCEL_SPIKE_HOLD 60        seconds before the peak; the peak and the time after it take half of that each
    RPCACCEL_RATE       5         calls a second of one user: their number follows

One Locust process makes about 1,500 calls a second on a core: give it `--processes N`, or workers.
"""

from __future__ import annotations

import math
import os
from typing import Any

from locust import LoadTestShape

from dapp import RATE, Dapp

__all__ = ["Dapp", "Spike"]


def setting(name: str, default: float) -> float:
    """A number from the environment."""
    return float(os.environ.get(f"RPCACCEL_SPIKE_{name}", default))


class Spike(LoadTestShape):
    """Users over time."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        base, peak = setting("BASE", 2000), setting("PEAK", 4000)
        ramp, hold = setting("RAMP", 30), setting("HOLD", 60)
        self.ramp = ramp
        self.base = base
        self.stages = ((ramp + hold, base), (ramp + hold * 1.5, peak), (ramp + hold * 2, base))

    def tick(self) -> tuple[int, float] | None:
        """Users wanted now, and how many to start or stop a second; None at the end."""
        now = self.get_run_time()
        if now < self.ramp:
            return _users(self.base * max(now, 0.5) / self.ramp), max(1.0, self.base / RATE / self.ramp)
        for until, rate in self.stages:
            if now < until:
                return _users(rate), max(10.0, rate / RATE / 2)
        return None


def _users(rate: float) -> int:
    return max(1, math.ceil(rate / RATE))
