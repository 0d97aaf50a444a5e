"""The seed study's table, completed: its ten methods over nodes as slow as the public ones that it measured.

    python -m benchmarks.seed [--short] [--out docs/benchmarks.md]

Three simulated nodes answer each method with a mean of 1,172 to 2,315 ms, the range that the study found. `balanced` is
the proxy with nothing kept; `Redis` is a second proxy, without a memory tier, on what the first has written to Redis.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import uvloop

from benchmarks import evidence
from benchmarks.peers import Bench, as_generator, bench
from rpcaccel.bench.load.client import parse
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import HARMONY
from rpcaccel.bench.report.report import Report
from rpcaccel.bench.runs import table

SECTION = "seed table"
QUICKEST, SLOWEST = 1172, 2315
"""Milliseconds: the least and the greatest mean of the study's ten methods at public nodes."""
NODES = 3
SPREAD = 0.2
"""Of a mean, to either side."""
NOTHING_KEPT = """
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[networks.harmony-s0]
nodes = [{nodes}]
rules = {{ "*" = {{ cache = "off" }} }}
"""


def latencies(scale: float = 1.0) -> dict[str, str]:
    """The work of each method at a node, as simulated nodes are told it."""
    found = {}
    for place, method in enumerate(HARMONY):
        mean = (QUICKEST + (SLOWEST - QUICKEST) * place / (len(HARMONY) - 1)) * scale
        found[method] = f"uniform:{mean * (1 - SPREAD):.0f}ms-{mean * (1 + SPREAD):.0f}ms"
    return found


def measure(watch: Watch, *, number: int = 50, concurrency: int = 15, scale: float = 1.0, nodes: int = NODES) -> Report:
    """The table. `scale` makes nodes quicker, for trying it out, as does it to start fewer `nodes`."""
    with tempfile.TemporaryDirectory() as folder, bench(Path(folder)) as lab:
        columns = _columns(lab, scale, nodes)
        asked = table.TableOptions(columns, number, concurrency, timeout=30.0, seed=time.time_ns() % (1 << 31))
        with as_generator():
            found = uvloop.run(table.table(asked, watch))
    report = table.reported(found, stopped=watch.stopped)
    for column in columns:
        report.facts.pop(column.name, None)  # where they listened says nothing
    report.facts["nodes"] = (
        f"{nodes} simulated, means {QUICKEST * scale:,.0f} to {SLOWEST * scale:,.0f} ms by method, ±{SPREAD:.0%} a call"
    )
    return report


def _columns(lab: Bench, scale: float, count: int) -> tuple[table.Column, ...]:
    nodes = [lab.simnode({"method_work": latencies(scale), "limiters": False}) for _ in range(count)]
    redis = lab.redis().url
    plain = lab.folder / "nothing-kept.toml"
    listed = ", ".join(f'{{ id = "n{place}", url = "{url}" }}' for place, url in enumerate(nodes))
    plain.write_text(NOTHING_KEPT.format(nodes=listed))
    keeping = lab.rpcaccel(*nodes, "--redis", redis).url
    urls = {
        "direct": nodes[0],
        "balanced": lab.rpcaccel("--config", plain).url,
        "proxy cold": keeping,
        "proxy warm, memory": keeping,
        "proxy warm, Redis": lab.rpcaccel(*nodes, "--redis", redis, "--memory", "0").url,
    }
    return tuple(table.Column(name, parse(url)) for name, url in urls.items())


def short(watch: Watch) -> Report:
    """The same in seconds, which says nothing but that it works."""
    return measure(watch, number=15, concurrency=15, scale=0.05)


if __name__ == "__main__":
    evidence.main(__doc__ or "", {SECTION: (measure, short)})
