"""Kills and revives simulated nodes one after the other while DApps call: the gate asks that no call fails.

    RPCACCEL_SIMNODES       http://127.0.0.1:9501,http://127.0.0.1:9502     their URLs (`rpcaccel simnode`)
    RPCACCEL_FAULT          reset       what a dead node does: reset, hang, unavailable, garbage … (simnode's faults)
    RPCACCEL_FAULT_SECONDS  5           how long each is dead, and how long all are well afterwards

The probes of the proxy meet the same fault, so the node is out of the choice until it is well.
"""

from __future__ import annotations

import itertools
import json
import os
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import gevent
from locust import events
from locust.env import Environment

import workers
from common import failed_checks, log
from dapp import Dapp
from rpcaccel.config.secrets import shown_url

__all__ = ["Dapp"]
NODES = [url.strip() for url in os.environ.get("RPCACCEL_SIMNODES", "").split(",") if url.strip()]
FAULT = os.environ.get("RPCACCEL_FAULT", "reset")
SECONDS = float(os.environ.get("RPCACCEL_FAULT_SECONDS", "5"))
_dead: list[str] = []


def turn(url: str, faults: dict[str, float]) -> None:
    """Set the share of requests that meet each fault. Raises OSError."""
    request = Request(f"{url}/simnode/knobs", json.dumps({"faults": faults}).encode(), method="POST")
    with build_opener(ProxyHandler({})).open(request, timeout=10) as reply:
        reply.read()


@events.test_start.add_listener
def _begin(environment: Environment, **_: Any) -> None:
    if not workers.is_worker(environment):
        environment.killer = gevent.spawn(_guarded)


@events.test_stop.add_listener
def _end(environment: Environment, **_: Any) -> None:
    killer = getattr(environment, "killer", None)
    if killer is not None:
        killer.kill()
        _revive()


def _revive() -> None:
    for url in _dead:
        try:
            turn(url, {})
        except OSError as error:
            failed_checks.append(f"node failure: {shown_url(url)} was left dead: {error}")
    _dead.clear()


def _guarded() -> None:
    try:
        _kill_in_turn()
    except OSError as error:
        failed_checks.append(f"node failure: a simulated node did not do as asked: {error}")


def _kill_in_turn() -> None:
    if not NODES:
        failed_checks.append("node failure: RPCACCEL_SIMNODES names no node")
        return
    for url in itertools.cycle(NODES):
        gevent.sleep(SECONDS)
        _dead.append(url)
        turn(url, {FAULT: 1.0})
        log.info("node failure: %s is dead (%s)", shown_url(url), FAULT)
        gevent.sleep(SECONDS)
        turn(url, {})
        _dead.remove(url)
        log.info("node failure: %s is alive again", shown_url(url))
