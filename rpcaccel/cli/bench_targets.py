"""The sides of a measurement: an endpoint that runs anyway, or a proxy that is served for as long as it takes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import typer

from rpcaccel.bench.load.client import parse
from rpcaccel.bench.runs import process_usage
from rpcaccel.bench.runs.compare import RunningSide, Side
from rpcaccel.config.load import OTHERS

START = 60.0
"""Seconds a proxy may take until it serves."""
_SERVES = re.compile(rb"(http://[^/\s]+)/\S*  <-")


def is_file(text: str) -> bool:
    """Is it a config file rather than a URL?"""
    return text.endswith(".toml")


def shown(text: str) -> str:
    """Its name in the report, without secrets. Raises typer.BadParameter."""
    if is_file(text):
        return text
    try:
        return parse(text).shown
    except ValueError as error:
        raise typer.BadParameter(f"expected {error}, or a config file .toml") from None


def names(a: str, b: str) -> tuple[str, str]:
    """How two sides are called in the report: without secrets, and never alike. Raises typer.BadParameter."""
    one, other = shown(a), shown(b)
    return (one, other) if one != other else (f"{one} (A)", f"{other} (B)")


def side(text: str, pids: Sequence[int]) -> Side:
    """The side that an argument means. Raises typer.BadParameter."""
    shown(text)
    if is_file(text) and not Path(text).is_file():
        raise typer.BadParameter(f"there is no file {text}")
    return (lambda: served(Path(text))) if is_file(text) else (lambda: standing(text, pids))


@contextlib.contextmanager
def standing(url: str, pids: Sequence[int]) -> Iterator[RunningSide]:
    """An endpoint that runs anyway."""
    target = parse(url)
    found = list(pids) or (process_usage.listeners(target.port) if target.local else [])
    yield RunningSide(target, tuple(process_usage.with_children(found)))


@contextlib.contextmanager
def served(file: Path) -> Iterator[RunningSide]:
    """A proxy of its own, with these settings and free ports. Raises OSError when it does not start.

    What was changed at run time is that of the proxy which has this file, as are the quotas that are used up.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        _proxy(["--config", str(file), "--state", f"{folder}/rpcaccel.state.json"], str(file)) as running,
    ):
        yield running


@contextlib.contextmanager
def meanwhile(url: str, chain: str, *options: str) -> Iterator[str]:
    """The URL of a proxy that is started in front of a node, with the rules of `chain`; "" where no chain is named.

    Raises typer.TyperException when the proxy does not start.
    """
    if not chain:
        yield ""
        return
    with contextlib.ExitStack() as started:
        try:
            arguments = [url, "--chain", chain, *options]
            running = started.enter_context(_proxy(arguments, f"a proxy before {parse(url).shown}"))
        except OSError as error:
            raise typer.TyperException(str(error)) from None
        yield running.target.shown


@contextlib.contextmanager
def _proxy(arguments: Sequence[str], name: str) -> Iterator[RunningSide]:
    command = [sys.executable, "-m", "rpcaccel", "serve", *arguments]
    command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    # What is measured was named by its arguments: others, which variables name, are for the proxy that runs anyway.
    environ = {variable: value for variable, value in os.environ.items() if variable not in OTHERS}
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, env=environ
    )
    assert process.stderr is not None
    reading = threading.Thread(target=deque, args=(process.stderr, 0))
    try:
        url = _address(process, name)
        reading.start()  # what it says later is read and dropped, so that it never waits for that
        _wait_ready(url, process, name)
        yield RunningSide(parse(url), tuple(process_usage.with_children([process.pid])))
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(START)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if reading.ident is not None:
            reading.join()
        process.stderr.close()


def _address(process: subprocess.Popen[bytes], name: str) -> str:
    """What it says it serves on."""
    assert process.stderr is not None
    said = b""
    for line in process.stderr:
        said += line
        if (found := _SERVES.search(line)) is not None:
            return found[1].decode()
    raise OSError(f"{name} is not served: {said.decode(errors='replace').strip()}")


def _wait_ready(url: str, process: subprocess.Popen[bytes], name: str) -> None:
    deadline = time.monotonic() + START
    opener = build_opener(ProxyHandler({}))
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(URLError, OSError), opener.open(f"{url}/readyz", timeout=2.0):
            return
        time.sleep(0.05)  # between two questions: a process of its own tells by its answers alone that it is ready
    raise OSError(f"{name} is served and did not become ready within {START:g} s")
