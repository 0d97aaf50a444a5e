"""The same load against the proxy and against something else: a node directly, another proxy, or a static responder.

RPCACCEL_BASELINE: the other URL. Left empty, a static responder is started on this machine: what it takes is what the
generator and the network take, so the difference is the proxy's own. Half of the users call each; the end tells both.
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

from common import log
from dapp import Dapp

ROOT = Path(__file__).parent.parent
RESPONDER = [sys.executable, "-m", "benchmarks.responder"]


def baseline() -> str:
    """The other URL."""
    url = os.environ.get("RPCACCEL_BASELINE", "")
    if url:
        return url
    process = subprocess.Popen(RESPONDER, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    atexit.register(process.terminate)
    assert process.stdout is not None
    return process.stdout.readline().rpartition(" ")[2].strip()


OTHER = baseline()


class Proxied(Dapp):
    """Calls the proxy."""

    prefix = "proxy · "


class Baseline(Dapp):
    """Calls the other one."""

    prefix = "baseline · "

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.host = OTHER  # --host would win over an attribute of the class
        super().__init__(*arguments, **named)
        self.host = OTHER
        self.client.base_url = OTHER


del Dapp  # not a user of its own here


@events.quitting.add_listener
def _tell(environment: Environment, **_: Any) -> None:
    for prefix in (Proxied.prefix, Baseline.prefix):
        entries = [entry for (name, _), entry in environment.stats.entries.items() if name.startswith(prefix)]
        calls = sum(entry.num_requests for entry in entries)
        if calls:
            mean = sum(entry.total_response_time for entry in entries) / calls
            failed = sum(entry.num_failures for entry in entries)
            log.info("%s%d calls, mean %.2f ms, %d failed", prefix, calls, mean, failed)
