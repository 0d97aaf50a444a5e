"""Calls that were never made before: the proxy beside nginx, HAProxy and the node itself, before two kinds of node.

    python -m benchmarks.misses [--short] [--out docs/benchmarks.md]

A static node costs next to nothing, so what is measured is the way through the proxy. A real node parses JSON and takes
processor time for each call, which bounds the rate whatever stands in front of it; here it takes 100 µs a call, on the
generator's core. The proxy gathers calls that wait into batches, which spares such a node the reading and writing of
requests. Each ratio is the geometric mean over pairs of interleaved runs.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from benchmarks import evidence
from benchmarks.peers import bench
from benchmarks.sidebyside import Rounds, Side, programs
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.report.report import Report, Table, count, machine, remarks
from rpcaccel.bench.report.statistics import ratio

SECTION = "misses"
NODES: dict[str, tuple[str, ...]] = {"static": (), "100 µs a call": ("--work", "0.0001")}
CONNECTIONS = (32, 128)
OURS = "rpcaccel"


def measure(watch: Watch, *, seconds: float = 3.0, runs: int = 3, connections: tuple[int, ...] = CONNECTIONS) -> Report:
    """A row for each kind of node and number of connections."""
    rows: list[tuple[str, ...]] = []
    rounds = Rounds(seconds, runs, lambda text: watch.part(text, len(rows), len(NODES) * len(connections)))
    for kind, options in NODES.items():
        for number in connections:
            if watch.stopped:
                break
            with tempfile.TemporaryDirectory() as folder, bench(Path(folder)) as lab:
                node = lab.responder(*options)
                nginx, haproxy = lab.nginx(node), lab.haproxy(node)
                urls = {OURS: lab.rpcaccel(f"{node},id=node", "--memory", "64MB").url, "no proxy": node}
                urls |= {"nginx": nginx[1]} if nginx else {}
                urls |= {"HAProxy": haproxy} if haproxy else {}
                found = rounds.interleaved([Side(name, url, "miss", number) for name, url in urls.items()])
            rows.append((kind, str(number), *_cells(found)))
    facts = machine() | programs()
    facts["runs"] = f"{runs} interleaved runs of {seconds:g} s, medians; answers of 1.7 kB; rpcaccel with one worker"
    columns = ("node", "connections", OURS, "no proxy", "ratio", "nginx", "ratio", "HAProxy", "ratio")
    note = (
        "Calls a second. A ratio is the proxy's rate over that of the column before it, "
        "the geometric mean over pairs of runs."
    )
    said = [*remarks((), stopped=watch.stopped), *rounds.remarks]
    return Report("Misses", facts, [Table("Misses", columns, rows, note)], remarks=said)


def _cells(found: dict[str, list[float]]) -> list[str]:
    ours = found.get(OURS, [])
    cells = [f"{count(median(ours))}/s" if ours else "not reported"]
    for name in ("no proxy", "nginx", "HAProxy"):
        theirs = found.get(name, [])
        both = ratio(theirs, ours) if theirs and ours else None
        cells += [f"{count(median(theirs))}/s" if theirs else "–", "–" if both is None else f"{both.ratio:.2f}"]
    return cells


def short(watch: Watch) -> Report:
    """A report of a run of some seconds, which shows only that the measurement works."""
    return measure(watch, seconds=0.3, runs=1, connections=(8,))


if __name__ == "__main__":
    evidence.main(__doc__ or "", {SECTION: (measure, short)})
