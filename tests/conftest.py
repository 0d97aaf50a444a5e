"""Fixtures that every test may ask for, and the summary of what a run left out."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.support import properties, services
from tests.support.nesting import DEFAULT_LIMIT
from tests.support.services import Anvil, Program, RedisServer

properties.prepare()

# Where Python is told to keep no compiled files, each process of each test would compile the whole program anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.fixture(autouse=True)
def _recursion_as_in_the_program() -> None:
    """A library that only tests use lifts Python's recursion limit at import; how deep a text may nest must be tested
    under the limit that the program has."""
    sys.setrecursionlimit(DEFAULT_LIMIT)


PLAIN = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
"""structlog's own rendering, apart from ornate tracebacks, each of which takes 0.05 to 0.1 s of processor time."""


@pytest.fixture(autouse=True)
def _log_as_nobody_configured_it() -> Iterator[None]:
    """A command that a test runs in this process configures the log of the process; the next test must not see it."""
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], PLAIN])
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def _shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.kill()


@pytest.fixture
def redis_server(_shared_redis: RedisServer) -> RedisServer:
    """A real Redis, empty. Shared by tests one after another: leave it running, and take `new_redis` to break one."""
    _shared_redis.empty()
    return _shared_redis


@pytest.fixture
def new_redis(tmp_path: Path) -> Iterator[Callable[..., RedisServer]]:
    """`new_redis(*options)`: a Redis of the test's own, to kill, pause and restart."""
    with ExitStack() as started:

        def start(*options: str) -> RedisServer:
            server = RedisServer(tmp_path, *options)
            started.callback(server.kill)
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


# ---- lanes: what is left to `make test LANE=` ---------------------------------------------------------------------

HERE = Path(__file__).parent
LEFT: pytest.StashKey[dict[str, int]] = pytest.StashKey()


def _folder(path: Path) -> Path:
    """The folder of a test under tests/; empty for a test elsewhere."""
    return path.parent.relative_to(HERE) if HERE in path.parents else Path()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`-m "not deep"` is the quick lane: tests/unit and tests/integration, and of tests/e2e the smoke tests."""
    for item in items:
        first = _folder(item.path).parts[:1]
        if first == ("deep",) or (first == ("e2e",) and item.get_closest_marker("smoke") is None):
            item.add_marker("deep")


def pytest_collection_finish() -> None:
    """Whatever is loaded by now stays: a test that collects garbage looks through its own objects only. Garbage is
    collected as seldom as in the program; with Python's own 700 that took a fifth of the time of these processes."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000)


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("deep") is None:
            continue
        left = item.config.stash[LEFT]
        folder = f"tests/{_folder(item.path)}"
        left[folder] = left.get(folder, 0) + 1


# ---- what was not tested here -------------------------------------------------------------------------------------


def _reason(report: Any) -> str:
    """Why a test was skipped, from pytest's own (path, line, reason)."""
    where = report.longrepr
    return str(where[2] if isinstance(where, tuple) else where).removeprefix("Skipped: ")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """With pytest-xdist the tests are collected in other processes, which say here what they left: each the same."""
    told = getattr(node, "workeroutput", None)  # one that died has none
    if told is not None and "left" in told:
        node.config.stash[LEFT] = told["left"]


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT] = {}


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Sections that say in plain words what this run did not look at, and why."""
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    terminalreporter.section("not tested here")
    for reason, count in sorted(reasons.items()):
        terminalreporter.line(f"{count} skipped: {reason}")
    if not reasons:
        terminalreporter.line("nothing was skipped")
    elif services.in_ci():
        terminalreporter.line("with CI=true nothing may be skipped: the run fails", red=True)
    for folder, count in sorted(config.stash[LEFT].items()):
        terminalreporter.line(f"{count} of {folder} are left to `make test LANE=`")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With CI=true a skipped test is a failed run, whoever skipped it."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["left"] = session.config.stash[LEFT]
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if services.in_ci() and reporter is not None and reporter.stats.get("skipped") and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
