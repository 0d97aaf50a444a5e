"""The sides of a measurement: an endpoint that runs already, or a proxy that is started for the measurement."""

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
_SERVES = re.compile(rb"(https?://[^/\s]+)/\S*  <-")
_SERVES_JSON = re.compile(rb'^\{"networks": \{"[^"]+": \{"url": "(https?://[^/"]+)/')
"""The first address in the banner, as text and as JSON."""


def is_file(text: str) -> bool:
    """Whether an argument names a config file rather than a URL."""
    return text.endswith(".toml")


def shown(text: str) -> str:
    """The name of a side in the report, without secrets. Raises typer.BadParameter."""
    if is_file(text):
        return text
    try:
        return parse(text).shown
    except ValueError as error:
        raise typer.BadParameter(f"expected {error}, or a config file .toml") from None


def names(a: str, b: str) -> tuple[str, str]:
    """The names of two sides in the report: different ones, without secrets. Raises typer.BadParameter."""
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
    """An endpoint that runs already, with the processes that serve it where they are known."""
    target = parse(url)
    found = list(pids) or (process_usage.listeners(target.port) if target.local else [])
    yield RunningSide(target, tuple(process_usage.with_children(found)))


@contextlib.contextmanager
def served(file: Path) -> Iterator[RunningSide]:
    """A proxy that is started with the settings of a file and on free ports. Raises OSError when it does not start.

    The proxy gets a state file of its own, since the state file and the used quotas beside the config file belong to
    another proxy.
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
    # Arguments alone name what is measured: nodes and files in environment variables are meant for other proxies.
    environ = {variable: value for variable, value in os.environ.items() if variable not in OTHERS}
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, env=environ
    )
    assert process.stderr is not None
    reading = threading.Thread(target=deque, args=(process.stderr, 0))
    try:
        url = _address(process, name)
        reading.start()  # later output is dropped, so that the process does not wait for a reader
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
    """The URL in the banner of a proxy. Raises OSError when the process ends without one."""
    assert process.stderr is not None
    said = b""
    for line in process.stderr:
        said += line
        if (found := _SERVES.search(line) or _SERVES_JSON.search(line)) is not None:
            return found[1].decode()
    raise OSError(f"{name} is not served: {said.decode(errors='replace').strip()}")


def _wait_ready(url: str, process: subprocess.Popen[bytes], name: str) -> None:
    deadline = time.monotonic() + START
    opener = build_opener(ProxyHandler({}))
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(URLError, OSError), opener.open(f"{url}/readyz", timeout=2.0):
            return
        time.sleep(0.05)  # between two questions: another process shows by its answers alone that it is ready
    raise OSError(f"{name} is served and did not become ready within {START:g} s")
