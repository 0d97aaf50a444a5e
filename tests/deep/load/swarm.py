"""What the swarms' tests run against: simulated nodes and the proxy as processes, and Locust as one more."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

from tests.support.services import ROOT, Process, Program, free_port, wait_until

NODES = 3
USUAL = ("--headless", "--only-summary", "-u", "6", "-r", "100", "-t", "4s")
ENOUGH = Path(__file__).with_name("enough.py")
BLOCK_TIME = "1s"
LONGEST = 300.0
"""Seconds after which a swarm hangs: it takes a few on a machine that does nothing else."""
UNSHAKEN = {
    "RPCACCEL_NETWORKS__HARMONY_S0__SLOW_START": "0",
    "RPCACCEL_NETWORKS__HARMONY_S0__HEDGE__QUANTILE": "0",
    "RPCACCEL_NETWORKS__HARMONY_S0__OUTLIERS__FACTOR": "0",
    "RPCACCEL_NETWORKS__HARMONY_S0__BUDGET__FLOOR": "100",
}
"""Nothing but weights moves shares, and retries are left when the test before has spent many: neither that test nor a
busy machine is seen in a result."""


class Lab:
    """Three simulated nodes of one chain and a proxy in front of them."""

    def __init__(self, nodes: list[str], proxy: str, admin: str) -> None:
        self.nodes = nodes
        self.proxy = proxy
        self.admin = admin
        self._numbers = itertools.count(1)

    def turn(self, *numbers: int, **knobs: Any) -> None:
        """Set knobs of these nodes, of all when none is named."""
        for number in numbers or range(NODES):
            _send(f"{self.nodes[number]}/simnode/knobs", knobs)

    def connections(self, number: int) -> int:
        """How many connections a node has accepted so far."""
        with build_opener(ProxyHandler({})).open(f"{self.nodes[number]}/simnode/counts", timeout=10.0) as reply:
            return int(json.load(reply)["connections"])

    def well(self) -> None:
        """All nodes as they were at the start, back in the choice, and the proxy's cache empty."""
        self.turn(latency="1ms", faults={}, websocket="on", silent=False, push_faults={})
        wait_until("all nodes back in the choice", self._all_serving)
        _send(f"{self.admin}/api/v1/purge", {"all": True})

    def _all_serving(self) -> bool:
        """A breaker closes when calls succeed, so some are made."""
        for _ in range(NODES):
            count = {"method": "eth_getTransactionCount", "params": [f"0x{next(self._numbers):040x}", "0x10"], "id": 1}
            _send(self.proxy, {"jsonrpc": "2.0", **count})
        with build_opener(ProxyHandler({})).open(f"{self.admin}/api/v1/nodes", timeout=10.0) as reply:
            return all(node["state"] == "serving" for node in json.loads(reply.read())["nodes"])

    def swarm(
        self, names: str | Sequence[str], *arguments: str, host: str = "", env: Mapping[str, str] | None = None
    ) -> Process:
        """Locust with this file, or with these, started."""
        named = {"RPCACCEL_ADMIN": self.admin, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **(env or {})}
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RPCACCEL_", "COVERAGE_"))}
        files = [str(ROOT / "locustfiles" / f"{name}.py") for name in ([names] if isinstance(names, str) else names)]
        if "RPCACCEL_ENOUGH" in named:
            files.append(str(ENOUGH))
        command = [sys.executable, "-m", "locust", "-f", ",".join(files)]
        return Process([*command, "--host", host or self.proxy, *arguments], env=own | named)

    def run(
        self, names: str | Sequence[str], *arguments: str, host: str = "", env: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        """A few users of a swarm, or of several, for some seconds in one headless process: its exit code and what it
        wrote."""
        with self.swarm(names, *USUAL, *arguments, host=host, env=env) as process:
            return process.wait(LONGEST), process.output

    def requests(self) -> int:
        """HTTP requests that the proxy has counted so far."""
        with build_opener(ProxyHandler({})).open(f"{self.admin}/metrics", timeout=10.0) as reply:
            found = re.search(r"^rpcaccel_requests_total (\S+)$", reply.read().decode(), re.MULTILINE)
        assert found is not None
        return int(float(found[1]))


def forked(processes: int = 2) -> tuple[str, ...]:
    """Options for a master with workers that are forked from it."""
    port = str(free_port())
    return "--processes", str(processes), "--master-bind-port", port, "--master-port", port


def _send(url: str, document: dict[str, Any]) -> None:
    headers = {"Content-Type": "application/json", "X-Rpcaccel-Request": "cli"}
    request = Request(url, json.dumps(document).encode(), headers, method="POST")
    with build_opener(ProxyHandler({})).open(request, timeout=10.0) as reply:
        reply.read()


@contextmanager
def running(folder: Path) -> Iterator[Lab]:
    """The lab, started and ended."""
    chain = ("--seed", "5", "--latency", "1ms", "--block-time", BLOCK_TIME)
    with ExitStack() as started:
        programs = [started.enter_context(Program("simnode", *chain, cwd=folder, measured=False)) for _ in range(NODES)]
        nodes = [program.wait_for(r"at (http://[^,\s]+)")[1] for program in programs]
        named = [f"{url},id=node-{number},weight=1" for number, url in enumerate(nodes)]
        listening = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
        proxy = started.enter_context(Program("serve", *named, *listening, cwd=folder, env=UNSHAKEN, measured=False))
        admin = proxy.wait_for(r"page +(http://[^/\s]+)/")[1]
        found = re.search(r"(http://[^/\s]+)/\S*  <-", proxy.output)
        assert found is not None
        proxy.wait_ready(f"{found[1]}/readyz")
        yield Lab(nodes, found[1], admin)
