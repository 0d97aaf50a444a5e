"""Given to Locust beside a swarm: ends the run when RPCACCEL_ENOUGH calls were made, by each kind of user some, and
RPCACCEL_ENOUGH_FAILED of them failed, and RPCACCEL_ENOUGH_LOGS logs were told of, however long a machine takes."""

from __future__ import annotations

import os
from typing import Any

import gevent
from locust import events
from locust.env import Environment
from locust.runners import WorkerRunner

ENOUGH = int(os.environ.get("RPCACCEL_ENOUGH", "40"))
LOGS = int(os.environ.get("RPCACCEL_ENOUGH_LOGS", "0"))
FAILED = int(os.environ.get("RPCACCEL_ENOUGH_FAILED", "0"))


@events.test_start.add_listener
def _begin(environment: Environment, **_: Any) -> None:
    if not isinstance(environment.runner, WorkerRunner):
        environment.counter = gevent.spawn(_end_in_time, environment)


def _end_in_time(environment: Environment) -> None:
    """The swarm `soak` must have looked at the memory before it is ended."""
    stats = environment.stats
    while (
        stats.total.num_requests < ENOUGH
        or stats.total.num_failures < FAILED
        or stats.get("logs", "WS").num_requests < LOGS
        or not _all_called(environment)
    ):
        gevent.sleep(0.05)
    if (soak := getattr(environment, "soak", None)) is not None:
        soak.join()
    environment.runner.quit()


def _all_called(environment: Environment) -> bool:
    """Was a call made by each kind of user whose calls have a prefix of their own?"""
    called = [name for (name, _), entry in environment.stats.entries.items() if entry.num_requests]
    prefixes = {getattr(kind, "prefix", "") for kind in environment.user_classes}
    return all(any(name.startswith(prefix) for name in called) for prefix in prefixes)
