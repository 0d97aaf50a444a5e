"""Interleaved runs of wrk against several endpoints, and the calls that these make."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from msgspec import Struct

from benchmarks.peers import LOADING, on_core, refused

SCRIPT = Path(__file__).parent / "wrk" / "calls.lua"
BATCH = 20
"""Calls of a request of the kind `batch`."""
KEYS = 1000
"""Different calls of the kind `keys`."""
_BLOCK = '{"jsonrpc":"2.0","id":%d,"method":"eth_getBlockByNumber","params":["0x10",false]}'
_HEAD = '{"jsonrpc":"2.0","id":%d,"method":"hmyv2_blockNumber","params":[]}'
_HASH = '{"jsonrpc":"2.0","id":%d,"method":"eth_getBlockByHash","params":["0x%064x",false]}'
"""Answered with a block as large as one likes, and kept for good: the method must be one whose answer may be that."""

BODIES: dict[str, Callable[[int], str]] = {
    "same": lambda _number: _BLOCK % 1,
    "ids": lambda number: _BLOCK % number,
    "local": lambda number: _HEAD % number,
    "batch": lambda number: "[" + ",".join(_BLOCK % (number * BATCH + place) for place in range(1, BATCH + 1)) + "]",
    "miss": lambda number: _HASH % (number, number),
    "keys": lambda number: _HASH % (number, number % KEYS),
}
"""The body of request `number` by kind; SCRIPT makes the same ones."""


class WrkRun(Struct, frozen=True):
    """What wrk counted in one run."""

    requests: int
    seconds: float
    failures: int


class Side(NamedTuple):
    """One endpoint under one load."""

    name: str
    url: str
    kind: str
    connections: int = 32


def run(side: Side, seconds: float, first: int = 0) -> WrkRun:
    """One run of wrk on the core of the generator, of whole seconds; request numbers begin at `first`.

    Raises OSError where wrk is not installed.
    """
    command = ["wrk", "-t1", f"-c{side.connections}", f"-d{max(1, round(seconds))}s", "-s", str(SCRIPT), side.url, "--"]
    done = subprocess.run(
        [*on_core(LOADING), *command, side.kind, str(first)],
        capture_output=True, text=True, check=True, timeout=seconds + 60,
    )  # fmt: skip
    return WrkRun(**json.loads(done.stdout.strip().splitlines()[-1]))


class Rounds:
    """Interleaved runs of several sides."""

    def __init__(self, seconds: float, runs: int, say: Callable[[str], None]) -> None:
        """`seconds` of each run; `say` is told what is run now. Raises OSError where wrk is not installed."""
        if shutil.which("wrk") is None:
            raise OSError("wrk is not installed")
        self.seconds = seconds
        self.runs = runs
        self.remarks: list[str] = []
        self._say = say
        self._first = 1000

    def rates(self, sides: list[Side]) -> dict[str, float]:
        """Requests a second by name: the median of the runs. A side of which a call failed has none."""
        return {name: median(rates) for name, rates in self.interleaved(sides).items()}

    def interleaved(self, sides: list[Side]) -> dict[str, list[float]]:
        """Requests a second by name, run by run, made in turns. A side of which a call failed has none."""
        found: dict[str, list[float]] = {side.name: [] for side in sides}
        failed: dict[str, str] = {}
        for number in range(self.runs):
            for side in sides if number % 2 == 0 else sides[::-1]:
                made = self._run(side)
                found[side.name].append(made.requests / made.seconds)
                if made.failures:
                    failed[side.name] = f"{made.failures} of {made.requests} requests failed"
                elif reason := refused(side.url, BODIES[side.kind](self._first - 1)):
                    failed[side.name] = f"its calls fail ({reason})"
        self.remarks += [f"{name}: not reported, {reason}" for name, reason in failed.items()]
        return {name: rates for name, rates in found.items() if name not in failed}

    def _run(self, side: Side) -> WrkRun:
        self._say(f"{side.name}: {side.kind}, {side.connections} connections, {self.seconds:g} s")
        if side.kind != "miss":
            for number in range(KEYS) if side.kind == "keys" else range(2):  # fill the caches
                if refused(side.url, BODIES[side.kind](number)):
                    break  # the fault is found again after the run
        self._first += 10_000_000  # the calls of each run are new
        return run(side, self.seconds, self._first)


def programs() -> dict[str, str]:
    """The versions of the programs beside the proxy, and of the generator."""
    return {
        "peers": ", ".join(version for name in ("nginx", "haproxy") if (version := _version(name))) or "none installed",
        "generator": f"{_version('wrk')}; one core for what is measured, one for generator and node",
    }


def _version(name: str) -> str:
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if path is None:
        return ""
    done = subprocess.run([path, "-v"], capture_output=True, text=True, check=False, timeout=10)
    words = (done.stdout + done.stderr).split("\n")[0].replace("nginx version: nginx/", "nginx ").split(" - ")[0]
    return words.split(" [")[0].replace("HAProxy version", "HAProxy").strip()
