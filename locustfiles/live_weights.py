"""Changes the nodes' weights through the admin API while load runs, and asserts that traffic follows.

    RPCACCEL_ADMIN          127.0.0.1:8889     the admin side, as --admin (RPCACCEL_TOKEN: NAME:PASSWORD, where it asks)
    RPCACCEL_NETWORK                           the network; the first one when empty
    RPCACCEL_SHARES_WINDOW  5                  seconds over which shares are counted, for each setting of weights, and
                                               as often again as it takes until there were 50 calls
    RPCACCEL_SHARES_SETTLE  2                  seconds before that, for what was under way
    RPCACCEL_SHARES_OFF     0.05               by how much a share may be off

Every call is a miss, so that it reaches a node. Weights are put back at the end, also when the swarm is stopped early.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import time
from http.client import HTTPException
from typing import Any

import gevent
from locust import constant_throughput, events, task
from locust.env import Environment

import admin_side
import workers
from common import RpcUser, failed_checks, log
from rpcaccel.bench.load.workload import LoadCall

RATE = float(os.environ.get("RPCACCEL_RATE", "5"))
WINDOW = float(os.environ.get("RPCACCEL_SHARES_WINDOW", "5"))
OFF = float(os.environ.get("RPCACCEL_SHARES_OFF", "0.05"))
MIN_CALLS, WAIT_SECONDS = 50, 60.0
"""Calls that shares are told of at the least, and the seconds for which they are waited for."""
SETTLE_SECONDS = float(os.environ.get("RPCACCEL_SHARES_SETTLE", "2"))
DEPTH = 16
_CALLS = re.compile(rb"^rpcaccel_node_calls_total\{([^}]*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Missing(RpcUser):
    """Asks about accounts that nobody asked about before."""

    wait_time = constant_throughput(RATE)

    def on_start(self) -> None:
        self.accounts = itertools.count(random.Random().getrandbits(150))  # no other user counts there, in any process

    @task
    def miss(self) -> None:
        """A nonce somewhat under the head: every node has it, one that is late, too."""
        block = max(1, self.world.head - DEPTH)
        self.call(LoadCall("eth_getTransactionCount", b'["0x%040x","0x%x"]' % (next(self.accounts), block)))


def weights(base: str, changes: dict[str, int], network: str) -> dict[str, int]:
    """Set weights; those in force after it. Raises OSError."""
    settings = json.loads(admin_side.ask(base, "/api/v1/settings"))
    document = {"networks": {network: {"nodes": {name: {"weight": weight} for name, weight in changes.items()}}}}
    etag = f'"{settings["revision"]}"'
    patched = json.loads(admin_side.ask(base, "/api/v1/settings", "PATCH", document, {"If-Match": etag}))
    return current(patched, network)


def current(settings: dict[str, Any], network: str) -> dict[str, int]:
    """The weights in a document of settings."""
    return {name: int(node["weight"]) for name, node in settings["document"]["networks"][network]["nodes"].items()}


def counts(base: str, network: str) -> dict[str, float]:
    """Calls that each node has had."""
    found = {}
    for labels, value in _CALLS.findall(admin_side.ask(base, "/metrics")):
        named = dict(_LABEL.findall(labels.decode()))
        if named["network"] == network:
            found[named["node"]] = float(value)
    return found


def plans(names: list[str]) -> list[dict[str, int]]:
    """The settings to go through: rising, falling, one node out, equal."""
    rising = {name: 1 + 2 * place for place, name in enumerate(names)}
    falling = dict(zip(names, reversed(rising.values()), strict=True))
    without = {name: 0 if place == 0 else 1 for place, name in enumerate(names)}
    return [rising, falling, without, dict.fromkeys(names, 1)]


@events.test_start.add_listener
def _begin(environment: Environment, **_: Any) -> None:
    if not workers.is_worker(environment):
        environment.changer = gevent.spawn(_guarded, environment)


@events.test_stop.add_listener
def _end(environment: Environment, **_: Any) -> None:
    changer = getattr(environment, "changer", None)
    if changer is not None and changer is not gevent.getcurrent() and not changer.ready():
        changer.kill()  # it puts the weights back
        failed_checks.append("live weights: the run ended before every setting of weights was tried")


def _guarded(environment: Environment) -> None:
    try:
        _change(environment)
    except (OSError, HTTPException, KeyError, ValueError) as error:
        failed_checks.append(f"live weights: the admin side did not do as asked: {admin_side.reason(error)}")
    finally:
        environment.runner.quit()


def _change(environment: Environment) -> None:
    base = admin_side.address(environment) or f"http://{admin_side.USUAL}"
    settings = json.loads(admin_side.ask(base, "/api/v1/settings"))
    network = os.environ.get("RPCACCEL_NETWORK") or next(iter(settings["document"]["networks"]))
    before = current(settings, network)
    try:
        for plan in plans(list(before)):
            _look(environment, base, network, plan)
            if failed_checks:
                return
    finally:
        weights(base, before, network)


def _look(environment: Environment, base: str, network: str, plan: dict[str, int]) -> None:
    began = time.perf_counter()
    set_to = weights(base, plan, network)
    took = (time.perf_counter() - began) * 1000
    environment.events.request.fire(
        request_type="PATCH", name="weights", response_time=took, response_length=0, exception=None, context={}
    )
    gevent.sleep(SETTLE_SECONDS)
    first = counts(base, network)
    until = time.perf_counter() + WAIT_SECONDS
    total = 0.0
    while total < MIN_CALLS and time.perf_counter() < until:
        gevent.sleep(WINDOW)
        passed = {name: count - first.get(name, 0.0) for name, count in counts(base, network).items()}
        total = sum(passed.values())
    whole = sum(plan.values())
    if set_to != plan or total < MIN_CALLS:
        failed_checks.append(f"live weights: {plan} was set, {set_to} is in force, {total:g} calls came")
        return
    got = {name: passed.get(name, 0.0) / total for name in plan}
    wanted = {name: weight / whole for name, weight in plan.items()}
    shown = ", ".join(f"{name} {got[name]:.1%} of {share:.1%}" for name, share in wanted.items())
    log.info("live weights: %s (%d calls)", shown, total)
    if any(abs(got[name] - share) > OFF for name, share in wanted.items()):
        failed_checks.append(f"live weights: shares do not follow: {shown}")
