"""Fixtures that every test may ask for, and the summary of what a run left out."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import structlog

from tests import services
from tests.services import Anvil, Program, Redis

# Deadlines of single examples say nothing on a busy machine; in CI the examples are the same ones every time.
hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if services.in_ci() else "local")


@pytest.fixture(autouse=True)
def _recursion_as_in_the_program() -> None:
    """A library that only tests use lifts Python's recursion limit at import; how deep a text may nest must be tested
    under the limit that the program has."""
    sys.setrecursionlimit(1000)


@pytest.fixture(autouse=True)
def _log_as_nobody_configured_it() -> Iterator[None]:
    """A command that a test runs in this process configures the log of the process; the next test must not see it."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def _shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    server = Redis(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture
def redis_server(_shared_redis: Redis) -> Redis:
    """A real Redis, empty. Shared by tests one after another: leave it running, and take `new_redis` to break one."""
    _shared_redis.flush()
    return _shared_redis


@pytest.fixture
def new_redis(tmp_path: Path) -> Iterator[Callable[..., Redis]]:
    """`new_redis(*options)`: a Redis of the test's own, to kill, pause and restart."""
    with ExitStack() as started:

        def start(*options: str) -> Redis:
            server = Redis(tmp_path, *options)
            started.callback(server.stop)
            return server

        yield start


@pytest.fixture(scope="session")
def anvil() -> Iterator[Anvil]:
    """A real EVM node, shared by the run: count on differences, not on block numbers."""
    node = Anvil()
    yield node
    node.stop()


@pytest.fixture
def new_anvil() -> Iterator[Callable[..., Anvil]]:
    """`new_anvil(*options)`: an EVM node of the test's own."""
    with ExitStack() as started:

        def start(*options: str) -> Anvil:
            node = Anvil(*options)
            started.callback(node.stop)
            return node

        yield start


@pytest.fixture(scope="session")
def chromium() -> Path:
    """The path of the system's Chromium, for playwright's `executable_path`."""
    return services.require("chromium")


@pytest.fixture
def new_program(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """`new_program("serve", url, ...)`: the real rpcaccel, started in a folder of its own and ended with the test."""
    with ExitStack() as started:

        def start(*arguments: str | Path, **options: Any) -> Program:
            program = Program(*arguments, **{"cwd": tmp_path, **options})
            started.callback(program.stop)
            return program

        yield start


@pytest.fixture
def free_port() -> Callable[[], int]:
    """`free_port()`: a loopback port nobody listens on, for programs that must be told one beforehand."""
    return services.free_port


# ---- what was not tested here -------------------------------------------------------------------------------------


MOST_SAID = 4000
"""Characters at the end of a failure that are shown of a test that was run once more."""


def _reason(report: Any) -> str:
    """Why a test was skipped, from pytest's own (path, line, reason)."""
    where = report.longrepr
    return str(where[2] if isinstance(where, tuple) else where).removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Sections that say in plain words what failed before it passed, and what this run did not look at, and why."""
    again = terminalreporter.stats.get("rerun", [])
    if again:
        terminalreporter.section("run once more")
    for report in again:
        terminalreporter.line(f"{report.nodeid} had failed:")
        terminalreporter.line(str(report.longrepr)[-MOST_SAID:])
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    terminalreporter.section("not tested here")
    for reason, count in sorted(reasons.items()):
        terminalreporter.line(f"{count} skipped: {reason}")
    if not reasons:
        terminalreporter.line("nothing was skipped")
    elif services.in_ci():
        terminalreporter.line("with CI=true nothing may be skipped: the run fails", red=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With CI=true a skipped test is a failed run, whoever skipped it."""
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if services.in_ci() and reporter is not None and reporter.stats.get("skipped") and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
