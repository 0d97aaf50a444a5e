"""The seed study's ten methods, each as often as the others, by every way to an answer: the same calls in each column.

    RPCACCEL_DIRECT         URL of a node: each call with a connection of its own, and once more with kept connections
    RPCACCEL_BALANCED       URL of a proxy that keeps no answers (`rpcaccel serve ... --memory 0`)
    RPCACCEL_REDIS_PROXY    URL of a second proxy on the same Redis, without a memory cache

The proxy that --host names gets each call twice, cold and warm. As in the study: `-u 15` for fifteen calls at once. The
table is told at the end; for the figures method by method see Locust's own, or `rpcaccel bench table`. Nodes that cost
what the study's did: `rpcaccel simnode --tls node.pem --connect 990ms --latency uniform:85ms-265ms`.
"""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from typing import Any, NamedTuple

from locust import constant, events, task
from locust.env import Environment
from locust.stats import StatsEntry

import hits
import proxy_side
import workers
from common import RpcUser, log
from rpcaccel.bench.load.workload import draw


class Way(NamedTuple):
    """One way to an answer."""

    name: str
    url: str
    """Empty: what --host names."""
    fresh: bool = False
    """Whether each call opens a connection."""


def ways() -> list[Way]:
    """The columns of the table."""
    direct, balanced, redis = (os.environ.get(f"RPCACCEL_{name}", "") for name in ("DIRECT", "BALANCED", "REDIS_PROXY"))
    found = [Way("direct", direct, fresh=True), Way("kept alive", direct)] if direct else []
    found += [Way("balanced", balanced)] if balanced else []
    found += [Way("cold", ""), Way("warm", "")]
    return found + ([Way("warm, Redis", redis)] if redis else [])


WAYS = ways()
proxy_side.elsewhere.update(f"{way.name} · " for way in WAYS if way.url)


class SeedTable(RpcUser):
    """Makes the ten calls in turn, each by every way."""

    wait_time = constant(0)

    def on_start(self) -> None:
        self.rng = random.Random()
        self.methods = itertools.cycle(self.world.methods)

    @task
    def one(self) -> None:
        """The next method."""
        call = draw(next(self.methods), self.world, self.rng)
        for way in WAYS:
            self.call(call, f"{way.name} · {call.method}", url=way.url, fresh=way.fresh)


@events.quitting.add_listener
def _tell(environment: Environment, **_: Any) -> None:
    for way in () if workers.is_worker(environment) else WAYS:
        total, words = StatsEntry(environment.stats, way.name, "POST"), Counter[str]()
        for (name, _), entry in environment.stats.entries.items():
            if name.startswith(f"{way.name} · "):
                total.extend(entry)
                words.update(hits.sources(name))
        if total.num_requests:
            ratio = hits.ratio(words)
            log.info(
                "%s: %d calls, mean %.1f ms, p50 %.1f ms, p99 %.1f ms, %d failed, hits %s",
                way.name,
                total.num_requests,
                total.avg_response_time,
                total.get_response_time_percentile(0.5) or 0,
                total.get_response_time_percentile(0.99) or 0,
                total.num_failures,
                "–" if ratio is None else f"{ratio * 100:.1f} %",
            )
