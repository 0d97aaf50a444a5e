"""The real program with output that is full, closed, gone, or read by nobody: it serves all the same, and ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest

from rpcaccel.dataplane.output import MAX_QUEUE_BYTES
from tests.support.services import LOOPBACK, ROOT, free_port, wait_until

Output = Literal["full", "closed", "gone", "unread"]
REDIRECTED = {"full": ">/dev/full 2>&1", "closed": "<&- >&- 2>&-"}
SECONDS = 60
LOGGING = {"RPCACCEL_LOG__ACCESS": "true", "RPCACCEL_LOG__FORMAT": "json"}


@contextmanager
def started(output: Output, *arguments: str, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """The program with such an output on both streams."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("RPCACCEL_")}
    own |= {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"} | env
    command = ["sh", "-c", f'exec "$0" "$@" {REDIRECTED.get(output, "")}', sys.executable, "-m", "rpcaccel", *arguments]
    reading, writing = os.pipe()
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=writing, stderr=writing, env=own)
    os.close(writing)
    if output != "unread":
        os.close(reading)
    try:
        yield program
    finally:
        if program.poll() is None:
            program.kill()
            program.wait()
        if output == "unread":
            os.close(reading)


def answers(port: int) -> bool:
    """Whether a call is answered, be it with an error."""
    request = urllib.request.Request(
        f"http://{LOOPBACK}:{port}/",
        data=b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[],"x":"' + b"x" * 500 + b'"}',
        headers={"X-Request-ID": "x" * 128},
    )
    try:
        with urllib.request.urlopen(request, timeout=10.0) as reply:
            return bool(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return bool(error.read())
    except OSError:
        return False


@pytest.mark.parametrize(("output", "workers"), [("full", "2"), ("unread", "2"), ("closed", "1"), ("gone", "1")])
def test_it_starts_serves_and_ends_whatever_its_output_is(output: Output, workers: str) -> None:
    port = free_port()
    places = ("--listen", f"{LOOPBACK}:{port}", "--admin", f"{LOOPBACK}:0", "--workers", workers)
    with started(output, "serve", "http://127.0.0.1:9", "--chain", "ethereum", *places, **LOGGING) as program:
        wait_until("an answer", lambda: answers(port) or program.poll() is not None, SECONDS)
        assert program.poll() is None, f"it ended with {program.returncode}"
        calls = 200 if output == "unread" else 20  # more lines than the 64 KiB of the pipe
        assert all(answers(port) for _ in range(calls))
        program.send_signal(signal.SIGTERM)
        assert program.wait(SECONDS) == 0


@pytest.mark.parametrize("output", ["full", "closed"])
def test_a_simulated_node_serves_whatever_its_output_is(output: Output) -> None:
    port = free_port()
    with started(output, "simnode", "--port", str(port)) as program:
        wait_until("an answer", lambda: answers(port) or program.poll() is not None, SECONDS)
        assert program.poll() is None, f"it ended with {program.returncode}"
        program.send_signal(signal.SIGTERM)
        assert program.wait(SECONDS) == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("serve", "--help"), 1),
        (("check", "--reference"), 1),
        (("nowhere",), 2),
    ],
)
def test_a_command_whose_output_is_lost_has_failed_and_a_message_that_is_lost_changes_nothing(
    arguments: tuple[str, ...], code: int
) -> None:
    with started("full", *arguments) as program:
        assert program.wait(SECONDS) == code


def test_what_could_not_be_written_is_counted_in_the_log_once_it_can() -> None:
    writes = 40
    script = f"""
import sys
from rpcaccel.dataplane import logs, output
from rpcaccel.config.sections import LogSettings
output.shield("stderr")
logs.configure(LogSettings())
import structlog
log = structlog.get_logger()
for number in range({writes}):
    log.warning("x" * {MAX_QUEUE_BYTES // 20})
sys.stdout.write("written")
sys.stdout.flush()
sys.stdin.read(1)
sys.stderr.buffer.drain(30)
log.warning("the last line")
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.read(7) == b"written"
        told = program.communicate(b"x", SECONDS)[1].decode()
    (lost,) = map(int, re.findall(r"lines of the log were lost +lines=(\d+)", told))
    came = len(re.findall("x{1000,}", told))
    assert (came > 10, came + lost) == (True, writes)
    assert told.count("the last line") == 1
