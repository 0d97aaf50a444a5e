"""The calls of the side-by-side runs, and two generators of load: wrk where it is installed, else our own.

    python -m benchmarks.generate URL --kind same --connections 32 --seconds 3

prints one line of JSON. As a process of its own it can be given a core.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvloop
from msgspec import Struct

from rpcaccel.bench.load.client import ConnectionPool, Outcome, parse
from rpcaccel.bench.load.generator import LoadGenerator, closed
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.verdict import batch_verdict, verdict
from rpcaccel.bench.load.workload import LoadCall

SCRIPT = Path(__file__).parent / "wrk" / "calls.lua"
BATCH = 20
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


class Measured(Struct, frozen=True):
    """One run."""

    requests: int
    seconds: float
    failures: int
    p50: float = 0.0
    p99: float = 0.0

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


def ids_of(kind: str, number: int) -> list[bytes]:
    """The ids that the answer to body `number` must have."""
    if kind == "batch":
        return [b"%d" % (number * BATCH + place) for place in range(1, BATCH + 1)]
    return [b"1" if kind == "same" else b"%d" % number]


def run(url: str, kind: str, connections: int, seconds: float, *, first: int = 0, on: Sequence[str] = ()) -> Measured:
    """One run in a process of its own; `on` is a prefix such as ("taskset", "-c", "1")."""
    if wrk := shutil.which("wrk"):
        command = [
            wrk,
            "-t1",
            f"-c{connections}",
            f"-d{max(1, round(seconds))}s",
            "-s",
            str(SCRIPT),
            url,
            "--",
            kind,
            str(first),
        ]
    else:
        command = [sys.executable, "-m", "benchmarks.generate", url, "--kind", kind]
        command += ["--connections", str(connections), "--seconds", str(seconds), "--first", str(first)]
    said = subprocess.run([*on, *command], capture_output=True, text=True, check=True, timeout=seconds + 60).stdout
    found: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
    return Measured(**found)


class _Request(LoadCall, frozen=True):
    """A request of one kind: its body and its ids follow from its number alone."""

    kind: str = "same"
    first: int = 0

    def body(self, call_id: int) -> bytes:
        """The body of request `call_id`."""
        return BODIES[self.kind](self.first + call_id).encode()


async def generate(url: str, kind: str, connections: int, seconds: float, first: int) -> Measured:
    """One run of our own generator: every answer is checked."""

    def judge(outcome: Outcome, number: int) -> str:
        ids = ids_of(kind, first + number)
        return batch_verdict(outcome, ids) if kind == "batch" else verdict(outcome, ids[0])

    calls = itertools.repeat(_Request(kind, kind=kind, first=first))
    async with ConnectionPool(parse(url), connections) as pool:
        run = LoadGenerator(pool, timeout=10.0, judge=judge)
        await run.run(closed(calls, at_once=connections, seconds=seconds), Watch())
    found = run.total().summary(seconds)
    return Measured(found.calls, seconds, found.failures, found.p50 or 0.0, found.p99 or 0.0)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--kind", choices=sorted(BODIES), default="same")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    found = uvloop.run(generate(given.url, given.kind, given.connections, given.seconds, given.first))
    print(json.dumps({name: getattr(found, name) for name in found.__struct_fields__}))


if __name__ == "__main__":
    main()
