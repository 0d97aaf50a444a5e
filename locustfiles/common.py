"""What every swarm shares: calls checked as JSON-RPC, hit ratios, and a gate that sets the exit code.

    locust -f locustfiles/dapp.py --host http://127.0.0.1:8888                 in the browser, at :8089
    locust -f locustfiles/dapp.py --host ... --headless -u 50 -r 50 -t 60s     as a test: exit code 1 below the gate
    locust -f locustfiles/dapp.py --host ... --processes 4                     one master, four workers on this machine
    locust -f locustfiles/dapp.py --host ... --master / --worker               over many machines
    locust -f locustfiles/dapp.py --host ... --html swarm.html --admin http://127.0.0.1:8889

Whatever is decided (gates, hit ratios, the exit code) is decided once, by the master, from what all
workers have seen. docs/measure.md tells which swarm serves what. HTTP 200 with an error inside is a failure; so is
another id than the one asked with.

    --gate-mean    RPCACCEL_GATE_MEAN    200ms   longest mean of all calls; 1ms to 10m
    --gate-p99     RPCACCEL_GATE_P99     2s      longest time that 99 of 100 calls take; 1ms to 10m
    --gate-errors  RPCACCEL_GATE_ERRORS  0.1%    largest share of calls that may fail; 0% to 100%
    --gate-hits    RPCACCEL_GATE_HITS    0%      smallest share of answers that the proxy gives by itself; 0% to 100%
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import re
from threading import Lock
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import gevent
import msgspec
from locust import FastHttpUser, events
from locust.env import Environment
from locust.stats import StatsEntry

import gates
import hits
import proxy_side
import workers
from rpcaccel.bench.load.client import LoadReply, batch_verdict, result_of, verdict
from rpcaccel.bench.load.workload import LoadCall, NoEndpointError, World, learn
from rpcaccel.config.secrets import shown_url

log = logging.getLogger("rpcaccel.load")
HEADERS = {"Content-Type": "application/json"}
CACHE = "X-Rpcaccel-Cache"
_numbers = itertools.count(1)

failed_checks: list[str] = []
"""What a swarm found wrong beside failed calls, in sentences: the gate fails on each."""
_told = [0]
"""How many of these a worker has told its master."""
untimed: set[str] = set()
"""Names of calls whose times no gate judges, only whether they fail."""
needed: set[str] = set()
"""Names of which the gate fails when there was no such call."""


class Failed(Exception):
    """A call that was not answered well; the text is the kind of failure."""


class RpcUser(FastHttpUser):
    """A client that makes JSON-RPC calls."""

    abstract = True
    network_timeout = 30.0
    connection_timeout = 10.0
    path = os.environ.get("RPCACCEL_PATH", "/")
    prefix = ""
    """Before the names of its calls."""

    def run(self) -> None:
        """Begin, unless there is nobody to call: that is said once, and the gate fails on it."""
        missing = self._missing()
        if not missing:
            super().run()
        elif missing not in failed_checks:
            log.error(missing)
            failed_checks.append(missing)

    def _missing(self) -> str:
        try:
            _ = self.world
        except NoEndpointError as error:
            return str(error)
        return ""

    @property
    def world(self) -> World:
        """What the chain has; asked for once in each process and host. Raises NoEndpointError."""
        return world_of(f"{self.host.rstrip('/')}{self.path}")

    def call(
        self, call: LoadCall, name: str = "", *, refusals: str = "", url: str = "", fresh: bool = False
    ) -> bytes | None:
        """Make a call; its result as raw text, None when it failed.

        Args:
            refusals: a pattern of error texts that are as good as a result.
            url: another endpoint than the swarm's host.
            fresh: whether the call opens a connection of its own.
        """
        number = next(_numbers)
        label = self.prefix + (name or call.method)
        headers = {**HEADERS, "Connection": "close"} if fresh else HEADERS
        with self.client.post(
            url or self.path, data=call.body(number), headers=headers, name=label, catch_response=True
        ) as response:
            reply = _reply(response)
            found = verdict(reply, b"%d" % number)
            if found.startswith("rpc") and refusals and re.search(refusals.encode(), reply.body):
                found = ""
            _settle(response, label, reply.cache, found)
        return None if found else result_of(reply)

    def batch(self, calls: list[LoadCall], name: str = "batch") -> bool:
        """Make calls in one request; was every one of them answered?"""
        numbers = [next(_numbers) for _ in calls]
        label = self.prefix + name
        body = b"[" + b",".join(call.body(number) for call, number in zip(calls, numbers, strict=True)) + b"]"
        with self.client.post(self.path, data=body, headers=HEADERS, name=label, catch_response=True) as response:
            reply = _reply(response)
            found = batch_verdict(reply, [b"%d" % number for number in numbers])
            _settle(response, label, reply.cache, found)
        return not found


def _reply(response: Any) -> LoadReply:
    headers = response.headers or {}
    return LoadReply(response.status_code or 0, response.content or b"", headers.get(CACHE) or "")


def _settle(response: Any, label: str, cache: str, failure: str) -> None:
    if failure:
        # What the HTTP client raised says more than "no json" of an empty body.
        response.failure(response.request_meta["exception"] or Failed(failure))
    else:
        response.success()
    hits.count(label, cache)


# -- what there is to ask about ----------------------------------------------------------------------------------------


_worlds: dict[str, World | NoEndpointError] = {}
"""By URL. One that was not learnt is not asked again in the same test."""
_learning = Lock()
_HANDED = "rpcaccel_worlds"
"""The option in which the master hands what it has learnt to its workers, beside Locust's own."""


def world_of(url: str) -> World:
    """What the chain behind a URL has. Raises NoEndpointError when it does not say how high it is."""
    with _learning:  # the first of many users who begin together asks, the others wait for it
        if url not in _worlds:
            try:
                _worlds[url] = _finished(learn(_asking(url), f"{shown_url(url)}/"))
            except NoEndpointError as error:
                _worlds[url] = error
        found = _worlds[url]
    if isinstance(found, NoEndpointError):
        raise found
    return found


def _share_worlds(environment: Environment) -> None:
    """One process learns for all: workers that learn one after the other would call about other accounts and blocks,
    and fewer of their calls would be hits."""
    options = environment.parsed_options
    _worlds.clear()
    if workers.is_worker(environment):
        for url, world in json.loads(getattr(options, _HANDED, "{}")).items():
            _worlds[url] = msgspec.convert(world, World)
    elif environment.host:
        url = f"{environment.host.rstrip('/')}{RpcUser.path}"
        with contextlib.suppress(NoEndpointError):  # a user says so, and a worker may reach what its master does not
            setattr(options, _HANDED, json.dumps({url: msgspec.to_builtins(world_of(url))}))


def _asking(url: str) -> Any:
    async def ask(method: str, params: list[Any]) -> Any:
        request = Request(url, LoadCall(method, msgspec.json.encode(params)).body(1), HEADERS)
        try:
            with build_opener(ProxyHandler({})).open(request, timeout=30) as reply:
                return json.loads(reply.read()).get("result")
        except (OSError, ValueError):  # what is not known is done without
            return None

    return ask


def _finished(coroutine: Any) -> Any:
    """The value of a coroutine that waits for nothing: under gevent no event loop is needed, and none would work."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("it waits for something")


# -- the gate ----------------------------------------------------------------------------------------------------------


@events.init_command_line_parser.add_listener
def _options(parser: Any) -> None:
    group = parser.add_argument_group("Gate", "Exit code 1 when any of these is not kept")
    for name, read, default, written, text in gates.GATES:
        said = f"{text} [{written}]".replace("%", "%%")  # argparse's own sign
        group.add_argument(
            f"--gate-{name}", type=read, env_var=f"RPCACCEL_GATE_{name.upper()}", default=default, help=said
        )


def gate(environment: Environment) -> list[str]:
    """What was not kept, in sentences; empty when all was."""
    total, options = environment.stats.total, environment.parsed_options
    faults = []
    ended = environment.runner.exceptions.values()
    others = [f"{one['count']} times a user's task ended with: {proxy_side.hidden(one['msg'])}" for one in ended]
    others += [*failed_checks, *workers.lost()]
    if not total.num_requests:
        return ["no call was made", *others]
    timed = _timed(environment)
    mean, p99 = timed.avg_response_time, timed.get_response_time_percentile(0.99)
    ratio = hits.ratio(hits.total())
    if mean > options.gate_mean:
        faults.append(f"the mean is {mean:.1f} ms, at most {options.gate_mean:g} ms is allowed")
    if p99 > options.gate_p99:
        faults.append(f"the 99th percentile is {p99:.0f} ms, at most {options.gate_p99:g} ms is allowed")
    if total.fail_ratio > options.gate_errors:
        faults.append(f"{total.fail_ratio * 100:.3g} % of calls failed, at most {options.gate_errors * 100:g} % may")
    if options.gate_hits and (ratio is None or ratio < options.gate_hits):
        said = "unknown" if ratio is None else f"{ratio * 100:.1f} %"
        faults.append(f"the hit ratio is {said}, at least {options.gate_hits * 100:g} % is asked for")
    made = {name for name, _ in environment.stats.entries}
    faults += [f"nothing was measured of: {name}" for name in sorted(needed - made)]
    return faults + others


def _timed(environment: Environment) -> StatsEntry:
    """All calls whose times the gate judges, as one."""
    found = StatsEntry(environment.stats, "timed", "")
    for (name, _), entry in environment.stats.entries.items():
        if name not in untimed:
            found.extend(entry)
    return found


@events.quitting.add_listener
def _judge(environment: Environment, **_: Any) -> None:
    if workers.is_worker(environment):
        return  # the master judges
    workers.settle(environment)
    hits.write(environment)
    proxy_side.tell(environment)
    total, timed = environment.stats.total, _timed(environment)
    log.info(
        "%d calls, %.0f/s, mean %.1f ms, p99 %.0f ms, %d failed, hit ratio %s",
        total.num_requests,
        total.total_rps,
        timed.avg_response_time,
        timed.get_response_time_percentile(0.99) or 0,
        total.num_failures,
        "unknown" if (ratio := hits.ratio(hits.total())) is None else f"{ratio * 100:.1f} %",
    )
    faults = gate(environment)
    for fault in faults:
        log.error("gate: %s", fault)
    if not faults:
        log.info("gate: kept")
    environment.process_exit_code = int(bool(faults))


@events.report_to_master.add_listener
def _tell(data: dict[str, Any], **_: Any) -> None:
    data["rpcaccel_checks"] = failed_checks[_told[0] :]
    _told[0] = len(failed_checks)


@events.worker_report.add_listener
def _hear(data: dict[str, Any], **_: Any) -> None:
    failed_checks.extend(fault for fault in data.get("rpcaccel_checks", ()) if fault not in failed_checks)


@events.init.add_listener
def _look_at_the_clock(**_: Any) -> None:
    """gevent's loop still has the time it began at, and --run-time would be shorter by all that was imported since."""
    gevent.get_hub().loop.update_now()


@events.test_start.add_listener
def _begin(environment: Environment, **_: Any) -> None:
    failed_checks.clear()
    _told[0] = 0
    _share_worlds(environment)
    proxy_side.begin(environment)  # what was called to learn is not counted
