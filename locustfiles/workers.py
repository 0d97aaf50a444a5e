"""What the master of a swarm must know of its workers at the end: everything that each has seen, and which are lost.

Locust's master waits half a second for the last figures of its workers. Here a worker stops its users, sends what it
has not told yet, and says that it has ended; the master waits for that. A worker that never says it was lost, and what
it saw after its last report with it: the gate fails.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import gevent
from gevent.event import Event
from locust import events
from locust.env import Environment
from locust.runners import STATE_MISSING, STATE_RUNNING, STATE_SPAWNING, LocalRunner, MasterRunner, WorkerRunner

log = logging.getLogger("rpcaccel.load")
STOP, ENDED = "rpcaccel_stop", "rpcaccel_ended"
"""Messages to a worker, and to the master."""
LAST_FIGURES_SECONDS = 60.0
"""Seconds that the master waits for the last figures, beyond --stop-timeout."""
CONNECT_SECONDS = 60
"""Seconds in which the workers of --processes have to connect."""
MIN_RUN_SECONDS = 0.5
"""Seconds of a process from which its share of a core is told."""

_part: set[str] = set()
"""The workers of this run, known to the master."""
_ended: set[str] = set()
_asked: set[str] = set()
"""Those that were told to end."""
_lost: list[str] = []
_used: dict[str, tuple[float, float]] = {}
"""CPU time and time of each process since the run began, in seconds."""
_begun = [0.0, 0.0]
_settled = Event()
"""Set while no test runs, and every listener to the end of the last one is through."""
_settled.set()


def is_worker(environment: Environment) -> bool:
    """Whether this process only calls: what is done once in a run is not done here."""
    return isinstance(environment.runner, WorkerRunner)


def count() -> int:
    """Workers of this run; 0 where the swarm is one process."""
    return len(_part)


def lost() -> list[str]:
    """A sentence for each worker whose last figures are missing."""
    return list(_lost)


def busiest() -> float | None:
    """The share of a core (0..1) that the busiest process used in this run; None when the run was too short."""
    return max((cpu / seconds for cpu, seconds in _used.values() if seconds >= MIN_RUN_SECONDS), default=None)


def settle(environment: Environment) -> None:
    """Wait until the test has ended, also where Locust quits meanwhile: on Ctrl-C, or because users are no longer
    wanted by the shape of the load."""
    runner = environment.runner
    if isinstance(runner, LocalRunner) and runner.state in (STATE_SPAWNING, STATE_RUNNING):
        runner.stop()
    _settled.wait(LAST_FIGURES_SECONDS)


def warned(environment: Environment) -> bool:
    """Whether Locust found a process at more than 90 % of a core, if only for a few seconds."""
    runner = environment.runner
    return bool(runner.cpu_warning_emitted or getattr(runner, "worker_cpu_warning_emitted", False))


def _use() -> tuple[float, float]:
    return time.process_time() - _begun[0], time.monotonic() - _begun[1]


@events.init.add_listener
def _listen(environment: Environment, **_: Any) -> None:
    """After all swarms are loaded: their own listeners at the end of a test come before the last report."""
    runner = environment.runner
    if isinstance(runner, WorkerRunner):
        runner.register_message(STOP, _stop, concurrent=True)
        environment.events.test_stop.add_listener(_tell_the_rest)
        environment.events.quitting.add_listener(_stop_first)
    else:
        environment.events.test_stop.add_listener(_end)
    if isinstance(runner, MasterRunner):
        runner.register_message(ENDED, _hear_the_end)
        options = environment.parsed_options
        if options.processes and not options.expect_workers_max_wait:
            options.expect_workers_max_wait = CONNECT_SECONDS


@events.test_start.add_listener
def _begin(environment: Environment, **_: Any) -> None:
    _settled.clear()
    _ended.clear()
    _asked.clear()
    _lost.clear()
    _used.clear()
    _part.clear()
    _begun[:] = time.process_time(), time.monotonic()
    if isinstance(environment.runner, MasterRunner):
        _part.update(environment.runner.clients)


@events.worker_connect.add_listener
def _join(client_id: str, **_: Any) -> None:
    _part.add(client_id)


# -- in a worker -------------------------------------------------------------------------------------------------------


def _stop(environment: Environment, **_: Any) -> None:
    environment.runner.stop()
    _tell_the_rest(environment)


def _stop_first(environment: Environment, **_: Any) -> None:
    """Before the worker takes leave of its master, which would not know it any more."""
    environment.runner.stop()
    environment.process_exit_code = 0  # the master judges


def _tell_the_rest(environment: Environment, **_: Any) -> None:
    runner = environment.runner
    data: dict[str, Any] = {}
    environment.events.report_to_master.fire(client_id=runner.client_id, data=data)
    runner.send_message("stats", data)
    runner.send_message(ENDED)


@events.report_to_master.add_listener
def _tell_use(data: dict[str, Any], **_: Any) -> None:
    data["rpcaccel_use"] = _use()


# -- in the master -----------------------------------------------------------------------------------------------------


@events.worker_report.add_listener
def _hear_use(client_id: str, data: dict[str, Any], **_: Any) -> None:
    if (use := data.get("rpcaccel_use")) is not None and client_id not in _ended:
        _used[client_id] = (use[0], use[1])


def _hear_the_end(msg: Any, **_: Any) -> None:
    _ended.add(msg.node_id)


@events.test_stopping.add_listener
def _wait_for_all(environment: Environment, **_: Any) -> None:
    """Before anything of the master is stopped: where the shape of a load ends, Locust quits at once."""
    runner = environment.runner
    if not isinstance(runner, MasterRunner):
        return
    for worker in _part - _ended - _asked:
        _asked.add(worker)
        if worker in runner.clients:
            runner.send_message(STOP, client_id=worker)
    until = time.monotonic() + LAST_FIGURES_SECONDS + (environment.stop_timeout or 0)
    while time.monotonic() < until and _awaited(runner):
        gevent.sleep(0.02)
    _lost[:] = [_name(runner, worker) for worker in sorted(_part - _ended, key=runner.get_worker_index)]


def _name(runner: MasterRunner, worker: str) -> str:
    named = f"worker {runner.get_worker_index(worker)} on {worker.rpartition('_')[0]}"
    return f"{named} was lost, and with it what it saw after its last report"


def _end(environment: Environment, **_: Any) -> None:
    if not _part:
        _used.setdefault("", _use())
    _settled.set()
    if _lost and not environment.runner.worker_count and environment.parsed_options.headless:
        gevent.spawn(environment.runner.quit)  # nobody is left who could call


def _awaited(runner: MasterRunner) -> set[str]:
    """Workers that have not ended and still answer their master."""
    known = {worker: runner.clients.get(worker) for worker in _part - _ended}
    return {worker for worker, client in known.items() if client is not None and client.state != STATE_MISSING}
