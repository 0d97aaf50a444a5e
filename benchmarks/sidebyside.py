"""The proxy beside nginx and HAProxy, on one core each, the load generator and the node on the other.

    python -m benchmarks.sidebyside [--seconds 3] [--runs 3] [--only hits] [--out docs/benchmarks.md]

Figures of a machine mean little elsewhere; their ratios mean something. Runs are interleaved, medians are told.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import pages, scaling, single
from benchmarks.generate import BATCH, BODIES, KEYS, Measured, run
from benchmarks.peers import LOADING, Bench, Row, bench, on_core, post, refused
from rpcaccel.bench.report.report import Report, Table, count, machine


class Side(NamedTuple):
    """One endpoint under one load."""

    name: str
    url: str
    kind: str
    connections: int = 32


class Rounds:
    """Interleaved runs of several sides."""

    def __init__(self, seconds: float, runs: int, say: Callable[[str], None]) -> None:
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
                measured = self._run(side)
                found[side.name].append(measured.rate)
                if measured.failures:
                    failed[side.name] = f"{measured.failures} of {measured.requests} requests failed"
                elif reason := refused(side.url, BODIES[side.kind](self._first - 1)):
                    failed[side.name] = f"its calls fail ({reason})"
        self.remarks += [f"{name}: not reported, {reason}" for name, reason in failed.items()]
        return {name: rates for name, rates in found.items() if name not in failed}

    def _run(self, side: Side) -> Measured:
        self._say(f"{side.name}: {side.kind}, {side.connections} connections, {self.seconds:g} s")
        if side.kind != "miss":
            for number in range(KEYS) if side.kind == "keys" else range(2):  # fill the caches
                if refused(side.url, BODIES[side.kind](number)):
                    break  # the fault is found again after the run
        self._first += 10_000_000  # the calls of each run are new
        return run(side.url, side.kind, side.connections, self.seconds, first=self._first, on=on_core(LOADING))


def hits(lab: Bench, rounds: Rounds) -> Iterator[Row]:
    """Rows of answers from memory, beside nginx' micro-cache for POST bodies."""
    node = lab.responder()
    ours = lab.rpcaccel(f"{node},id=static").url
    nginx = lab.nginx(node)
    kinds = (("same", "memory hit, identical bodies", 1.3), ("ids", "memory hit, differing ids", 3.0))
    sides = [Side(kind, ours, kind) for kind in ("same", "ids", "local", "batch")]
    if nginx is not None:
        sides += [Side(f"nginx {kind}", nginx[0], kind) for kind in ("same", "ids")]
    rates = rounds.rates(sides)
    for kind, path, wanted in kinds:
        yield _row(path, rates.get(kind), rates.get(f"nginx {kind}"), "nginx micro-cache", wanted)
    yield _row("local answers", rates.get("local"), rates.get("nginx same"), "nginx micro-cache", 1.3)
    items = rates["batch"] * BATCH if "batch" in rates else None
    yield _row("batch of 20 hits, items", items, rates.get("same"), "single hits", 2.0)


def redis(lab: Bench, rounds: Rounds) -> Iterator[Row]:
    """The row of answers from Redis, when memory keeps nothing."""
    node = lab.responder()
    ours = lab.rpcaccel(f"{node},id=static", "--memory", "0", "--redis", lab.redis().url)
    nginx = lab.nginx(node)
    sides = [Side("ours", ours.url, "keys")] + ([Side("nginx", nginx[0], "same")] if nginx else [])
    rates = rounds.rates(sides)
    yield _row("Redis hit (memory tier off)", rates.get("ours"), rates.get("nginx"), "nginx micro-cache", 0.2)
    _, source = post(ours.url, BODIES["keys"](5))
    if source != "redis":
        rounds.remarks.append(f"the Redis row was answered from {source}")


def _row(path: str, ours: float | None, theirs: float | None, peer: str, wanted: float) -> Row:
    if not ours:
        return Row(path, "not reported", f"{count(theirs)}/s", None, f"{wanted:g} x {peer}", None)
    if not theirs:
        return Row(path, f"{count(ours)}/s", "–", None, f"{wanted:g} x {peer}", None)
    ratio = ours / theirs
    return Row(path, f"{count(ours)}/s", f"{count(theirs)}/s", ratio, f"{wanted:g} x {peer}", ratio >= wanted)


PARTS: dict[str, Callable[[Bench, Rounds], Iterator[Row]]] = {
    "hits": hits,
    "redis": redis,
    "shared": lambda lab, rounds: single.shared(lab, rounds.runs),
    "added": lambda lab, rounds: single.added(lab, rounds.runs, rounds.seconds),
    "large": lambda lab, rounds: single.large(lab, rounds.runs),
    "started": lambda lab, rounds: single.started(lab, rounds.runs),
    "workers": lambda lab, rounds: scaling.workers(lab, rounds.runs, rounds.seconds),
}


def measure(parts: list[str], rounds: Rounds) -> Report:
    """All parts, each with programs of its own."""
    rows: list[Row] = []
    missing: list[str] = []
    for name in parts:
        with tempfile.TemporaryDirectory() as folder, bench(Path(folder)) as lab:
            rows += PARTS[name](lab, rounds)
            missing += lab.missing
    columns = ("path", "rpcaccel", "peer", "ratio", "wanted", "reached")
    table = Table("Side by side", columns, [_texts(row) for row in rows])
    facts = machine() | {
        **programs(),
        "runs": f"{rounds.runs} interleaved runs of {rounds.seconds:g} s, medians; answers of 1.7 kB",
    }
    data = {"rows": [row._asdict() for row in rows]}
    return Report("Side by side", facts, [table], remarks=[*dict.fromkeys((*missing, *rounds.remarks))], data=data)


def _texts(row: Row) -> tuple[str, ...]:
    ratio = "–" if row.ratio is None else f"{row.ratio:.2f}"
    return row.path, row.ours, row.theirs, ratio, row.wanted, {True: "yes", False: "no", None: "–"}[row.reached]


def programs() -> dict[str, str]:
    """The versions of the programs beside the proxy, and of the generator."""
    return {
        "peers": ", ".join(version for name in ("nginx", "haproxy") if (version := _version(name))) or "none installed",
        "generator": f"{_version('wrk') or 'our own'}; one core for what is measured, one for generator and node",
    }


def _version(name: str) -> str:
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if path is None:
        return ""
    done = subprocess.run([path, "-v"], capture_output=True, text=True, check=False, timeout=10)
    words = (done.stdout + done.stderr).split("\n")[0].replace("nginx version: nginx/", "nginx ").split(" - ")[0]
    return words.split(" [")[0].replace("HAProxy version", "HAProxy").strip()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", action="append", choices=sorted(PARTS), help="this part; may be repeated")
    parser.add_argument("--out", type=Path, help="a page whose section is replaced (.md), or a report (.json, .html)")
    given = parser.parse_args()
    rounds = Rounds(given.seconds, given.runs, lambda text: print(text, file=sys.stderr, flush=True))
    report = measure(given.only or list(PARTS), rounds)
    pages.tell(report, given.out, "side by side")


if __name__ == "__main__":
    main()
