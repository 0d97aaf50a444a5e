"""The same load against the proxy and against something else: a node directly, another proxy, or a static responder.

    RPCACCEL_BASELINE       the other URL

Left empty, a static responder is started on this machine (from a checkout): what it takes is what the generator and the
network take, so the difference is the proxy's own. It is started once, by the master, and serves the workers of
`--processes`; workers on other machines do not reach it, and need a URL. Half of the users call each; the end tells
both.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from locust import events
from locust.env import Environment

import proxy_side
import workers
from common import log
from dapp import Dapp

ROOT = Path(__file__).parent.parent
RESPONDER = [sys.executable, "-m", "benchmarks.responder"]
_OTHER = "rpcaccel_baseline"
"""The option in which the master hands the URL to its workers, beside Locust's own."""


class Proxied(Dapp):
    """Calls the proxy."""

    prefix = "proxy · "


class Baseline(Dapp):
    """Calls the other one."""

    prefix = "baseline · "

    def __init__(self, environment: Environment) -> None:
        other = getattr(environment.parsed_options, _OTHER)
        self.host = other  # --host would win over an attribute of the class
        super().__init__(environment)
        self.host = other
        self.client.base_url = other


del Dapp  # not a user of its own here
proxy_side.elsewhere.add(Baseline.prefix)


@events.init.add_listener
def _begin(environment: Environment, **_: Any) -> None:
    if not workers.is_worker(environment):
        setattr(environment.parsed_options, _OTHER, os.environ.get("RPCACCEL_BASELINE", "") or _started(environment))


def _started(environment: Environment) -> str:
    """The URL of a responder of this process. Raises SystemExit where it would not serve."""
    options = environment.parsed_options
    if options.master and not options.processes:
        log.error("baseline: workers on other machines need the other URL: set RPCACCEL_BASELINE for the master")
        sys.exit(1)
    process = subprocess.Popen(RESPONDER, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    atexit.register(process.terminate)
    assert process.stdout is not None
    url = process.stdout.readline().rpartition(" ")[2].strip()
    if not url:
        log.error("baseline: no responder was started, as it is part of a checkout alone: set RPCACCEL_BASELINE")
        sys.exit(1)
    return url


@events.quitting.add_listener
def _tell(environment: Environment, **_: Any) -> None:
    for prefix in () if workers.is_worker(environment) else (Proxied.prefix, Baseline.prefix):
        entries = [entry for (name, _), entry in environment.stats.entries.items() if name.startswith(prefix)]
        calls = sum(entry.num_requests for entry in entries)
        if calls:
            mean = sum(entry.total_response_time for entry in entries) / calls
            failed = sum(entry.num_failures for entry in entries)
            log.info("%s%d calls, mean %.2f ms, %d failed", prefix, calls, mean, failed)
