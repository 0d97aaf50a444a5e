"""The seed study's ten methods, each as often as the others: mean latency by method, in Locust's own table.

As in the study: `-u 15` for fifteen calls at once. For the figures side by side take `rpcaccel bench table`.
"""

from __future__ import annotations

import itertools
import random

from locust import constant, task

from common import RpcUser
from rpcaccel.bench.load.workload import draw


class SeedTable(RpcUser):
    """Makes the ten calls in turn."""

    wait_time = constant(0)

    def on_start(self) -> None:
        self.rng = random.Random()
        self.methods = itertools.cycle(self.world.methods)

    @task
    def one(self) -> None:
        """The next method."""
        self.call(draw(next(self.methods), self.world, self.rng))
