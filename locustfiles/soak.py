"""Hours of the DApps' and the explorers' load: is it as quick, and as small, at the end as it was at the beginning?

The proxy's resident memory is read while it runs on this machine, which is the master's where there are workers.
RPCACCEL_SOAK_GROWTH (default 0.25): how much larger it may be at the end than after the first tenth of the time, beyond
RPCACCEL_SOAK_CACHE (default 256000000) bytes that the cache may have filled meanwhile. Say how long with --run-time.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

import gevent
from locust import events
from locust.env import Environment

import workers
from common import failed_checks, log
from dapp import Dapp
from explorer import Explorer
from rpcaccel.bench.runs import process_usage

__all__ = ["Dapp", "Explorer"]
GROWTH = float(os.environ.get("RPCACCEL_SOAK_GROWTH", "0.25"))
CACHE = float(os.environ.get("RPCACCEL_SOAK_CACHE", "256e6"))


def resident(host: str) -> int | None:
    """Bytes that whoever listens there takes; None when it is not on this machine."""
    parts = urlsplit(host)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    used = process_usage.use(process_usage.with_children(process_usage.listeners(port)))
    return used.resident if used is not None else None


_early: list[int] = []


@events.test_start.add_listener
def _begin(environment: Environment, **_: Any) -> None:
    _early.clear()
    if not workers.is_worker(environment):
        environment.soak = gevent.spawn(_look_early, environment)


def _look_early(environment: Environment) -> None:
    """Once it is warm: after a tenth of the time, or of an hour when nobody says how long."""
    gevent.sleep((environment.parsed_options.run_time or 3600) * 0.1)
    found = resident(environment.host)
    if found is not None:
        _early.append(found)


@events.test_stop.add_listener
def _end(environment: Environment, **_: Any) -> None:
    if workers.is_worker(environment):
        return
    environment.soak.kill()
    late = resident(environment.host)
    if not _early or late is None:
        log.info("soak: memory is not judged: the proxy is not on this machine, cannot be seen, or it was too short")
        return
    early = _early[0]
    log.info("soak: resident memory %.1f MB early, %.1f MB late", early / 1e6, late / 1e6)
    if late > early * (1 + GROWTH) + CACHE:
        failed_checks.append(f"soak: resident memory grew from {early / 1e6:.0f} to {late / 1e6:.0f} MB")
