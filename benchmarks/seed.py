"""The seed study's table, completed: its ten methods over nodes that cost what the study's public endpoints cost.

In the study ten methods took 1,172 to 2,315 ms from clients that open a TLS connection for each call, and 85 to 265 ms
(hmyv2_getBlocks 1,612) through a pooled, balanced proxy before any cache. So the simulated nodes serve HTTPS, opening a
connection costs three round trips, and a call costs what it did in the study. The nodes differ in speed, and one more
refuses 48 of 50 calls.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

from benchmarks.peers import Bench, as_generator, bench
from rpcaccel.bench.load.client import parse
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import HARMONY
from rpcaccel.bench.report.report import Report
from rpcaccel.bench.runs import table

ROUND_TRIPS, ROUND_TRIP = 3, 330
"""The round trips of opening a connection, one of TCP and two of TLS, and the milliseconds of each."""
QUICKEST, SLOWEST, BLOCKS = 100, 230, 1400
"""Milliseconds that calls take on average by method, and hmyv2_getBlocks; at every node within the study's 85 to 265
and 1,612."""
FACTORS = (0.85, 1.0, 1.15)
"""The time that each node takes, as a multiple of the average."""
REFUSED = 48 / 50
"""The share of its calls that one more node refuses with HTTP 429."""
SPREAD = 0.2
"""The share by which a single call may differ from its mean, to either side."""
CONFIG = """
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[networks.harmony-s0]
nodes = [{nodes}]
"""
NODE = '{{ id = "n{place}", url = "{url}", warm = {warm}, keepalive = "2m" }}'


def latencies(scale: float = 1.0) -> dict[str, str]:
    """The work of each method at a node, as simulated nodes are told it."""
    others = [method for method in HARMONY if method != "hmyv2_getBlocks"]
    step = (SLOWEST - QUICKEST) / (len(others) - 1)
    means = {"hmyv2_getBlocks": BLOCKS, **{method: QUICKEST + step * place for place, method in enumerate(others)}}
    return {method: _around(mean * scale) for method, mean in means.items()}


def _around(mean: float) -> str:
    return f"uniform:{mean * (1 - SPREAD):.1f}ms-{mean * (1 + SPREAD):.1f}ms"


def measure(watch: Watch, short: bool = False) -> Report:
    """The report with the table. In its short form, few calls are made and nodes and connections are quicker."""
    number, concurrency, scale = (2, 2, 0.01) if short else (50, 15, 1.0)
    with bench() as lab, trusted(lab.folder / "nodes.pem"):
        columns = _columns(lab, scale, concurrency)
        asked = table.TableOptions(columns, number, concurrency, timeout=30.0, seed=time.time_ns() % (1 << 31))
        with as_generator():
            found = uvloop.run(table.table(asked, watch))
    report = table.reported(found, stopped=watch.stopped)
    for column in columns:
        report.facts.pop(column.name, None)  # the addresses of the endpoints say nothing
    factors = ", ".join(f"{factor:g}" for factor in FACTORS)
    report.facts["nodes"] = (
        f"{len(FACTORS)} simulated over TLS, {factors} times {QUICKEST * scale:g} to {SLOWEST * scale:g} ms by method, "
        f"getBlocks {BLOCKS * scale:g} ms, ±{SPREAD:.0%} a call; one more refuses {REFUSED:.0%} of its calls"
    )
    report.facts["connections"] = (
        f"{ROUND_TRIPS} round trips of {ROUND_TRIP * scale:g} ms to open one to a node; "
        f"the proxies keep {concurrency} to each"
    )
    return report


@contextmanager
def trusted(certificate: Path) -> Iterator[None]:
    """Let this process, and those it starts, trust the nodes' certificate."""
    before = os.environ.get("SSL_CERT_FILE")
    os.environ["SSL_CERT_FILE"] = str(certificate)
    try:
        yield
    finally:
        del os.environ["SSL_CERT_FILE"]
        if before is not None:
            os.environ["SSL_CERT_FILE"] = before


def _columns(lab: Bench, scale: float, connections: int) -> tuple[table.Column, ...]:
    pem = os.environ["SSL_CERT_FILE"]
    far = {"limiters": False, "connect": _around(ROUND_TRIPS * ROUND_TRIP * scale)}
    nodes = [lab.simnode({**far, "method_work": latencies(scale * factor)}, "--tls", pem) for factor in FACTORS]
    refusing = lab.simnode({**far, "method_work": latencies(scale), "faults": {"too_many": REFUSED}}, "--tls", pem)
    listed = (NODE.format(place=place, url=url, warm=connections) for place, url in enumerate([*nodes, refusing]))
    config = lab.folder / "far.toml"
    config.write_text(CONFIG.format(nodes=", ".join(listed)))

    def proxy(*options: str) -> str:
        state = lab.folder / f"{len(options)}-{'-'.join(options[:1])}.json"
        return lab.rpcaccel("--config", config, "--state", state, *options).url

    redis = lab.redis().url
    keeping = proxy("--redis", redis)
    return (
        table.Column("direct", parse(nodes[1], keep=False)),
        table.Column("kept alive", parse(nodes[1])),
        table.Column("refusing node", parse(refusing)),
        table.Column("balanced", parse(proxy("--memory", "0"))),
        table.Column("proxy cold", parse(keeping)),
        table.Column("proxy warm, memory", parse(keeping)),
        table.Column("proxy warm, Redis", parse(proxy("--memory", "0", "--redis", redis))),
    )
