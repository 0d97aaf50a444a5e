"""What the proxy counted while a swarm ran (--admin), told beside what the swarm saw.

--admin URL      RPCACCEL_ADMIN     the admin side of the proxy, such as http://127.0.0.1:8889; RPCACCEL_TOKEN
                                    (NAME:PASSWORD) says who asks, RPCACCEL_CACERT names the authorities to trust

The master logs both at the end, and writes them to PREFIX_proxy.csv beside Locust's own files (--csv PREFIX). Locust's
page (--html FILE) has all else that the swarm saw.
"""

from __future__ import annotations

import csv
import logging
import time
from argparse import ArgumentTypeError
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import gevent
from locust import events
from locust.env import Environment
from locust.stats import StatsEntry

import admin_side
import hits
import workers
from rpcaccel.bench.report.report import count, milliseconds, percent
from rpcaccel.bench.runs import metrics
from rpcaccel.bench.runs.metrics import MetricsReading
from rpcaccel.config.secrets import shown_url
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.core.stats.histogram import Histogram, together

log = logging.getLogger("rpcaccel.load")
elsewhere: set[str] = set()
"""Beginnings of the names of calls that go to another place than the swarm's host."""
BUSY = 0.9
"""Share of a core from which a process is taken for one that has no time left."""
UNREAD = (OSError, HTTPException, ValueError)
SETTLE_SECONDS, TRIES = 1.2, 5
"""Seconds between readings of a proxy of several workers, which tell their figures once a second, and how often it is
read until two readings agree."""
ANSWERED = hits.HITS | {source.label for source in (AnswerSource.FLIGHT, AnswerSource.NODE, AnswerSource.PARTIAL)}
"""Sources of answers that are hits or misses."""
Row = tuple[str, str, str]
"""The name of a figure, and its value for the swarm and for the proxy."""


class Run:
    """One test, from its start to its end."""

    def __init__(self, environment: Environment) -> None:
        self.began = time.time()
        self.seconds = 0.0
        self.admin = admin_side.address(environment)
        self.before = self._read()
        self.after: MetricsReading | None = None

    def end(self) -> None:
        """Every user has stopped. What is said after the first time is not heard."""
        if self.seconds:
            return
        self.seconds = time.time() - self.began
        if self.before is None:
            return
        self.after = self._read()
        for _ in range(TRIES if self.after is not None and self.after.total("workers") > 1 else 0):
            gevent.sleep(SETTLE_SECONDS)
            last, self.after = self.after, self._read()
            if last is None or self.after is None or self.after.total("requests_total") == last.total("requests_total"):
                return

    def _read(self) -> MetricsReading | None:
        if not self.admin:
            return None
        try:
            return metrics.read(admin_side.ask(self.admin, "/metrics").decode())
        except UNREAD as error:
            place = shown_url(self.admin)
            log.warning("proxy: its figures are missing: %s was not read: %s", place, admin_side.reason(error))
            return None

    @property
    def requests(self) -> float:
        """HTTP requests that the proxy counted; a batch is one."""
        return sum(self.counted("requests_total").values())

    @property
    def restarted(self) -> bool:
        """Whether the proxy's counters began anew meanwhile: its figures are then those since its start."""
        assert self.before is not None
        assert self.after is not None
        return self.after.total("requests_total") < self.before.total("requests_total")

    def counted(self, name: str, label: str = "") -> dict[str, float]:
        """What a counter of the proxy grew by, by the value of a label."""
        assert self.before is not None
        assert self.after is not None
        return metrics.grown(self.before.sums(name, label), self.after.sums(name, label))

    def times(self, name: str, label: str) -> dict[str, Histogram]:
        """What a histogram of the proxy observed, by the value of a label."""
        assert self.before is not None
        assert self.after is not None
        before = self.before.histograms(name, label)
        return {
            key: found.since(before.get(key, Histogram())) for key, found in self.after.histograms(name, label).items()
        }


_runs: list[Run] = []
"""The last one alone."""


def place(text: str) -> str:
    """The address of an admin side. Raises ArgumentTypeError, which quotes no password."""
    if "@" in text:
        raise ArgumentTypeError("expected an address alone; RPCACCEL_TOKEN=NAME:PASSWORD says who asks")
    return text


def begin(environment: Environment) -> None:
    """A test starts."""
    _runs.clear()
    if not workers.is_worker(environment):
        _runs.append(Run(environment))


def tell(environment: Environment) -> None:
    """Log what swarm and proxy counted, and write it where Locust was told to write files."""
    for warning in _of_the_swarm(environment):
        log.warning(warning)
    if not _runs or _runs[0].before is None or _runs[0].after is None:
        return
    run = _runs[0]
    here = [entry for entry in environment.stats.entries.values() if _is_here(entry)]
    seen = StatsEntry(None, "", "")
    for entry in here:
        seen.extend(entry)
    sources = sum((hits.sources(entry.name) for entry in here), Counter[str]())
    rows = [*_rows(run, seen, sources), *_nodes(run)]
    for name, swarm, proxy in rows:
        log.info("%-26s swarm %9s  proxy %9s", name, swarm, proxy)
    for warning in _of_the_proxy(run, seen):
        log.warning(warning)
    if prefix := getattr(environment.parsed_options, "csv_prefix", None):
        with Path(f"{prefix}_proxy.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("figure", "swarm", "proxy"), *rows])


def _is_here(entry: StatsEntry) -> bool:
    """Whether the calls went to the swarm's host over HTTP."""
    return entry.method == "POST" and not entry.name.startswith(tuple(elsewhere))


def _rows(run: Run, seen: StatsEntry, sources: Counter[str]) -> Iterator[Row]:
    """The figures of the same time, of what went to the host alone. The proxy also counts what was under way when the
    users were stopped, and whatever other clients call; errors that a swarm expects have failed for the proxy alone."""
    by_source = run.times("call_seconds", "source")
    own = together(found for source, found in by_source.items() if source in ANSWERED)
    own_hits = sum(found.count for source, found in by_source.items() if source in hits.HITS)
    outcomes = run.counted("calls_total", "outcome")
    failed = sum(outcomes.get(outcome, 0.0) for outcome in ("error", "client_error", "refused"))
    yield "requests", count(seen.num_requests), count(run.requests)
    yield "requests a second", count(seen.num_requests / run.seconds), count(run.requests / run.seconds)
    yield "answers, each of a batch", count(sources.total()), count(sum(outcomes.values()))
    yield "failed", count(seen.num_failures), count(failed)
    yield "hit ratio", percent(hits.ratio(sources)), percent(own_hits / own.count if own.count else None)
    times = [seen.avg_response_time, *(seen.get_response_time_percentile(share) for share in (0.5, 0.99))]
    theirs = (own.mean, own.quantile(0.5), own.quantile(0.99))
    for name, swarm, proxy in zip(("mean", "p50", "p99"), times, theirs, strict=True):
        yield f"{name}, ms", milliseconds(swarm / 1000 if seen.num_requests else None), milliseconds(proxy)


def _nodes(run: Run) -> Iterator[Row]:
    """What each node did for the proxy: attempts sent to it, repeated ones included."""
    label = "network/node"
    calls, failures = run.counted("node_calls_total", label), run.counted("node_failures_total", label)
    times = run.times("node_seconds", label)
    alone = len({node.partition("/")[0] for node in calls}) == 1
    for node, number in calls.items():
        shown = node.partition("/")[2] if alone else node
        yield f"{shown}: calls", "", f"{count(number)} ({percent(number / sum(calls.values()))})"
        yield f"{shown}: mean, ms", "", milliseconds(times[node].mean if node in times else None)
        yield f"{shown}: without an answer", "", count(failures.get(node, 0.0))


def _of_the_swarm(environment: Environment) -> Iterator[str]:
    """What a reader has to know of the generator before its figures are believed."""
    busiest = workers.busiest()
    if busiest is not None and busiest > BUSY:
        yield (
            f"the generator is the bottleneck: a process of the swarm used {busiest:.0%} of a core. The swarm's times "
            "say more of the generator than of the proxy. Give it more processes or machines."
        )
    elif workers.warned(environment):
        yield (
            f"a process of the swarm used more than {BUSY:.0%} of a core for some seconds: times of those seconds say "
            "more of the generator than of the proxy."
        )


def _of_the_proxy(run: Run, seen: StatsEntry) -> Iterator[str]:
    """What a reader has to know of the proxy's figures before they are believed."""
    answered = seen.num_requests - seen.num_failures
    if run.restarted:
        yield "the proxy was started again during the run: its figures count from its start"
    elif run.requests < answered * 0.99 - 2:
        yield (
            f"the proxy counted fewer requests than the {answered:,} that the swarm has answers to: other proxies "
            f"answer at the host as well, or {shown_url(run.admin)} is the admin side of another one"
        )
    elif run.requests > seen.num_requests * 1.05 + 50:
        yield "the proxy counted more requests than the swarm made: its figures hold the calls of other clients, too"
    for worker, cpu in run.counted("process_cpu_seconds_total", "worker").items():
        if cpu / run.seconds > BUSY:
            yield f"worker {worker} of the proxy used {cpu / run.seconds:.0%} of a core: start it with more --workers"
    if replaced := sum(run.counted("workers_replaced_total").values()):
        yield f"{replaced:.0f} workers of the proxy died or hung during the run and were replaced"


def hidden(text: str) -> str:
    """A text without what addresses in it hold beside their hosts, at most 300 characters."""
    return " ".join(shown_url(word) if "://" in word else word for word in text.split())[:300]


@events.init_command_line_parser.add_listener
def _options(parser: Any) -> None:
    parser.add_argument_group("Proxy").add_argument(
        "--admin", type=place, env_var="RPCACCEL_ADMIN", default="", metavar="URL",
        help="Admin side of the proxy, such as http://127.0.0.1:8889, for its own figures (RPCACCEL_TOKEN: who asks)",
    )  # fmt: skip


@events.test_stopping.add_listener
def _end_of_workers(**_: Any) -> None:
    """Users of workers have stopped by now; those of this process are about to."""
    if _runs and workers.count():
        _runs[0].end()


@events.test_stop.add_listener
def _end(**_: Any) -> None:
    if _runs:
        _runs[0].end()
