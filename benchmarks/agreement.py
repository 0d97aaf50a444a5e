"""What the comparison of nodes costs: misses through two proxies that differ in `agreement.share` alone, in turns.

    python -m benchmarks.agreement [--short] [--out docs/benchmarks.md]

Three nodes answer all alike, each within a millisecond. The share is that of the settings as they come; the other proxy
compares nothing. Calls to the nodes are counted by the proxies.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from statistics import median

import uvloop
from prometheus_client.parser import text_string_to_metric_families

from benchmarks import evidence
from benchmarks.peers import Running, as_generator, bench, get
from rpcaccel.bench.load.client import ConnectionPool, parse
from rpcaccel.bench.load.generator import LoadGenerator, constant
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.bench.report.report import Report, Table, machine, milliseconds, remarks
from rpcaccel.bench.report.statistics import Summary
from rpcaccel.config.resilience import AgreementSettings

SECTION = "agreement"
RATES = (200, 2000)
"""Calls a second."""
SHARE = AgreementSettings().share
_numbers = count(5 * 10**9)
_SETTINGS = """
[networks.harmony-s0]
nodes = [{nodes}]
hidden_lag = 0
[networks.harmony-s0.agreement]
share = {share}
budget = 1e6
"""


def measure(watch: Watch, *, seconds: float = 5.0, runs: int = 5, rates: tuple[int, ...] = RATES) -> Report:
    """A row for each rate."""
    rows: list[tuple[str, ...]] = []
    for place, rate in enumerate(rates):
        with tempfile.TemporaryDirectory() as folder, bench(Path(folder)) as lab, as_generator():
            nodes = lab.responders(3, "--latency", "0.0005")
            proxies: dict[float, Running] = {}
            for share in (0.0, SHARE):
                file = Path(folder) / f"share-{share}.toml"
                listed = ", ".join(f'"{url},id=node-{number}"' for number, url in enumerate(nodes))
                file.write_text(_SETTINGS.format(nodes=listed, share=share))
                proxies[share] = lab.rpcaccel("--config", file)
            found: dict[float, list[Summary]] = {share: [] for share in proxies}
            for number in range(runs):
                watch.part(f"{rate} calls a second, run {number + 1}", place * runs + number, runs * len(rates))
                for share in sorted(proxies, reverse=bool(number % 2)):
                    if not watch.stopped:
                        found[share].append(uvloop.run(_one(proxies[share].url, rate, seconds, watch)))
            if watch.stopped:
                break
            calls = {share: _node_calls(proxy) for share, proxy in proxies.items()}
        rows.append(_row(rate, found, calls))
    facts = machine() | {
        "load": f"misses in an open loop, {runs} interleaved runs of {seconds:g} s, medians; three nodes of 0.5 ms",
        "share": f"{SHARE:g} as it comes, beside a proxy with 0",
        "cores": "proxies on one, nodes and generator on the other",
    }
    columns = ("calls a second", "p50 without", "p50 with", "p99 without", "p99 with", "p99 ratio", "more node calls")
    note = "Milliseconds as the client measures them. The ratio is the median over pairs of runs."
    return Report(
        "Comparison of nodes",
        facts,
        [Table("Comparison", columns, rows, note)],
        remarks=remarks((), stopped=watch.stopped),
    )


def _row(rate: int, found: dict[float, list[Summary]], calls: dict[float, tuple[float, float]]) -> tuple[str, ...]:
    middle = [
        median(getattr(run, which) or 0.0 for run in found[share]) for which in ("p50", "p99") for share in (0.0, SHARE)
    ]
    pairs = zip(found[0.0], found[SHARE], strict=True)
    ratio = median((compared.p99 or 0.0) / (plain.p99 or 1.0) for plain, compared in pairs)
    asked, compared = calls[SHARE]
    more = compared / 2 / max(1.0, asked - compared / 2)  # a comparison of equal answers takes one call
    return f"{rate}", *map(milliseconds, middle), f"{ratio:.2f}", f"{more:.2%} of {asked:,.0f}"


def _calls() -> Iterator[LoadCall]:
    return (LoadCall("eth_getBlockByHash", b'["0x%064x",false]' % number) for number in _numbers)


async def _one(url: str, rate: int, seconds: float, watch: Watch) -> Summary:
    async with ConnectionPool(parse(url), 32) as pool:
        await pool.warm(8)
        steady = LoadGenerator(pool, timeout=10.0)
        await steady.run(constant(_calls(), rate=rate, seconds=seconds), watch)
    return steady.summary()


def _node_calls(proxy: Running) -> tuple[float, float]:
    """The calls that a proxy sent to its nodes, and the answers of them that it compared."""
    samples = [
        sample
        for family in text_string_to_metric_families(get(f"{proxy.admin}/metrics").decode())
        for sample in family.samples
    ]
    return tuple(  # type: ignore[return-value] # of two
        sum(sample.value for sample in samples if sample.name == name)
        for name in ("rpcaccel_node_calls_total", "rpcaccel_node_compared_total")
    )


def short(watch: Watch) -> Report:
    """A report of a run of some seconds, which shows only that the measurement works."""
    return measure(watch, seconds=0.5, runs=1, rates=(200,))


if __name__ == "__main__":
    evidence.main(__doc__ or "", {SECTION: (measure, short)})
