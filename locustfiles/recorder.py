"""The report of a swarm (--report), with the proxy's own figures (--admin) of the same time beside it.

--report FILE    RPCACCEL_REPORT    a name that ends on .html, .md or .json; written at the end, by the master
--admin URL      RPCACCEL_ADMIN     the admin side of the proxy, such as http://127.0.0.1:8889; RPCACCEL_TOKEN
                                    (NAME:PASSWORD) says who asks, RPCACCEL_CACERT names the authorities to trust
"""

from __future__ import annotations

import json
import logging
import os
import time
from argparse import ArgumentTypeError
from collections import Counter
from collections.abc import Iterable
from http.client import HTTPException
from pathlib import Path
from typing import Any

import gevent
import locust
from locust import events
from locust.env import Environment
from locust.stats import StatsEntry

import admin_side
import gates
import hits
import workers
from rpcaccel.bench.report import proxy_figures, render
from rpcaccel.bench.report.proxy_figures import ProxyReading
from rpcaccel.bench.report.swarm import ProxySide, SeenCalls, SwarmRun, report
from rpcaccel.config.secrets import shown_url

log = logging.getLogger("rpcaccel.load")
elsewhere: set[str] = set()
"""Beginnings of the names of calls that go to another place than the swarm's host."""
UNREAD = (OSError, HTTPException, ValueError, KeyError, TypeError)
SETTLE, TRIES = 1.2, 5
"""Seconds between readings of a proxy of several workers, which tell their figures once a second, and how often it is
read until two readings agree."""
MOST_FAILURES = 50
"""Lines of the table of failures."""
KINDS = {
    "hits": "by itself",
    "nodes": "by a node",
    "client_errors": "client's error",
    "errors": "failed",
    "refused": "refused",
}


class Run:
    """One test, from its start to its end."""

    def __init__(self, environment: Environment) -> None:
        self.began = time.time()
        self.seconds = 0.0
        self.users = 0
        """The most at once."""
        self.admin = admin_side.address(environment) if wanted(environment) else ""
        self.why_not = "" if self.admin else "The proxy's own figures are missing: no --admin was named."
        self.before = self._read()
        self.after: ProxyReading | None = None
        self.pace: dict[str, list[tuple[float, float, float | None]]] = {}

    def end(self) -> None:
        """Every user has stopped. What is said after the first time is not heard."""
        if self.seconds:
            return
        self.seconds = time.time() - self.began
        if self.before is None:
            return
        self.after = self._read()
        if self.after is not None and self.after.sum("workers") > 1:
            self._settle()
        try:
            self._look_back()
        except UNREAD as error:
            log.warning("report: the proxy's past was not read: %s", admin_side.reason(error))

    def _settle(self) -> None:
        for _ in range(TRIES):
            gevent.sleep(SETTLE)
            last, self.after = self.after, self._read()
            if last is None or self.after is None or self.after.sum("requests_total") == last.sum("requests_total"):
                return

    def _read(self) -> ProxyReading | None:
        if not self.admin:
            return None
        try:
            return proxy_figures.read(admin_side.ask(self.admin, "/metrics").decode(), time.time())
        except UNREAD as error:
            place = shown_url(self.admin)
            self.why_not = f"The proxy's own figures are missing: {place} was not read: {admin_side.reason(error)}."
            log.warning("report: %s", self.why_not)
            return None

    def _look_back(self) -> None:
        until = self.began + self.seconds
        found = json.loads(admin_side.ask(self.admin, f"/api/v1/history?from={self.began:.3f}&to={until:.3f}"))
        ends, lengths = found["columns"]["at"], found["seconds"]
        for kind, name in KINDS.items():
            self.pace[name] = list(zip(ends, lengths, found["outcomes"][kind], strict=True))

    @property
    def proxy(self) -> ProxySide:
        """What the proxy said."""
        if self.before is None or self.after is None:
            return ProxySide(why_not=self.why_not)
        figures = proxy_figures.between(self.before, self.after)
        return ProxySide(shown_url(self.admin), figures, pace=self.pace)


_runs: list[Run] = []
"""The last one alone."""


def wanted(environment: Environment) -> bool:
    """Whether a report is asked for, of this process."""
    return bool(environment.parsed_options.report) and not workers.is_worker(environment)


def file(text: str) -> str:
    """The name of a report. Raises ArgumentTypeError, to which the parser adds the option."""
    if not text:
        return text
    try:
        render.form(Path(text))
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
    folder = Path(text).absolute().parent
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise ArgumentTypeError(f"found {text!r}, expected a file in a folder that can be written to")
    return text


def place(text: str) -> str:
    """The address of an admin side. Raises ArgumentTypeError, which quotes no password."""
    if "@" in text:
        raise ArgumentTypeError("expected an address alone; RPCACCEL_TOKEN=NAME:PASSWORD says who asks")
    return text


def begin(environment: Environment) -> None:
    """A test starts."""
    _runs.clear()
    if wanted(environment):
        _runs.append(Run(environment))


def write(environment: Environment, faults: list[str]) -> bool:
    """Write the report, if one is asked for. Returns whether that went well; what is wrong is logged."""
    if not wanted(environment):
        return True
    target = environment.parsed_options.report
    run = _runs[0] if _runs else Run(environment)
    try:
        render.write(report(_seen(environment, run), run.proxy, faults), Path(target))
    except OSError as error:
        why = error.strerror or error
    else:
        log.info("report: %s", target)
        return True
    log.error("report: %s was not written: %s", target, why)
    return False


def _seen(environment: Environment, run: Run) -> SwarmRun:
    entries = [entry for _, entry in sorted(environment.stats.entries.items()) if entry.num_requests]
    here = [entry for entry in entries if entry.method == "POST" and not entry.name.startswith(tuple(elsewhere))]
    words = {entry.name: hits.sources(entry.name) for entry in here}
    sources = sum(words.values(), Counter[str]())
    options = environment.parsed_options
    failures = sorted(environment.stats.errors.values(), key=lambda error: -error.occurrences)[:MOST_FAILURES]
    return SwarmRun(
        swarm=", ".join(Path(name).stem for name in environment.parsed_locustfiles or [environment.locustfile or ""]),
        host=shown_url(environment.host or ""),
        began=run.began,
        seconds=run.seconds,
        users=run.users,
        workers=workers.count(),
        gates={name: gates.written(name, getattr(options, f"gate_{name}")) for name, *_ in gates.GATES},
        calls=[_calls(entry.name, [entry], hits.ratio(hits.sources(entry.name))) for entry in entries],
        total=_calls("all", entries, hits.ratio(hits.total())),
        sent=_calls("sent", here, hits.ratio(sources)),
        answers=sources.total(),
        failures=[
            (one.name, hidden(one.error if isinstance(one.error, str) else repr(one.error)), one.occurrences)
            for one in failures
        ],
        pace={int(second): calls for second, calls in environment.stats.total.num_reqs_per_sec.items()},
        busiest=workers.busiest(),
        warned=workers.warned(environment),
        generator=f"Locust {locust.__version__}",
    )


def _calls(name: str, entries: Iterable[StatsEntry], ratio: float | None) -> SeenCalls:
    whole = StatsEntry(None, name, "")
    for entry in entries:
        whole.extend(entry)
    if not whole.num_requests:
        return SeenCalls(name, 0, 0)
    p50, p99 = (whole.get_response_time_percentile(share) / 1000 for share in (0.5, 0.99))
    return SeenCalls(name, whole.num_requests, whole.num_failures, whole.avg_response_time / 1000, p50, p99, ratio)


def hidden(text: str) -> str:
    """A text without what addresses in it hold beside their hosts, at most 300 characters."""
    return " ".join(shown_url(word) if "://" in word else word for word in text.split())[:300]


@events.init_command_line_parser.add_listener
def _options(parser: Any) -> None:
    group = parser.add_argument_group("Report", "What the swarm saw and what the proxy counted, in one file")
    group.add_argument(
        "--report", type=file, env_var="RPCACCEL_REPORT", metavar="FILE",
        help="Written at the end: a name that ends on .html, .md or .json",
    )  # fmt: skip
    group.add_argument(
        "--admin", type=place, env_var="RPCACCEL_ADMIN", default="", metavar="URL",
        help="Admin side of the proxy, such as http://127.0.0.1:8889, for its own figures (RPCACCEL_TOKEN: who asks)",
    )  # fmt: skip


@events.spawning_complete.add_listener
def _count_users(user_count: int, **_: Any) -> None:
    if _runs:
        _runs[0].users = max(_runs[0].users, user_count)


@events.test_stopping.add_listener
def _end_of_workers(**_: Any) -> None:
    """Users of workers have stopped by now; those of this process are about to."""
    if _runs and workers.count():
        _runs[0].end()


@events.test_stop.add_listener
def _end(**_: Any) -> None:
    if _runs:
        _runs[0].end()
