"""The harness does what its tests lean on. Kept light: one start of each program."""

from __future__ import annotations

import signal
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import services
from tests.support.services import Anvil, Process, Program, RedisServer


def python(source: str) -> Process:
    return Process([sys.executable, "-u", "-c", source])


def test_output_is_waited_for_and_a_match_is_handed_back() -> None:
    with python("import time; print('ready at 4711'); time.sleep(60)") as process:
        assert process.wait_for(r"ready at (\d+)")[1] == "4711"
        assert process.running


def test_a_program_that_ends_before_it_is_ready_shows_what_it_wrote() -> None:
    with python("print('no such key')") as process, pytest.raises(AssertionError, match="no such key"):
        process.wait_for("ready")


def test_a_program_is_ended_by_sigterm_and_its_exit_code_is_known() -> None:
    process = python("import time; print('up'); time.sleep(60)")
    process.wait_for("up")
    assert process.stop() == -signal.SIGTERM
    assert not process.running


def test_a_program_deaf_to_sigterm_is_killed() -> None:
    process = python("import signal, time; signal.signal(15, signal.SIG_IGN); print('up'); time.sleep(60)")
    process.wait_for("up")
    assert process.stop(seconds=0.2) == -signal.SIGKILL


def test_a_paused_program_can_still_be_stopped() -> None:
    process = python("import time; print('up'); time.sleep(60)")
    process.wait_for("up")
    process.pause()
    assert process.stop() == -signal.SIGTERM


def test_readiness_is_an_answer_of_200(tmp_path: Path) -> None:
    port = services.free_port()
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    with Process(command, cwd=tmp_path) as process:
        process.wait_ready(f"http://127.0.0.1:{port}/")
        with pytest.raises(AssertionError, match="not within"):
            process.wait_ready(f"http://127.0.0.1:{port}/missing", seconds=0.1)


def test_the_real_program_starts_from_anywhere(new_program: Callable[..., Program]) -> None:
    program = new_program("--version")
    assert program.wait() == 0, program.output


def test_redis_is_empty_answers_and_comes_back_at_the_same_address(
    redis_server: RedisServer, new_redis: Callable[..., RedisServer]
) -> None:
    assert redis_server.command("DBSIZE") == b":0"
    own = new_redis("--maxmemory", "2mb")
    assert own.port != redis_server.port
    own.command("SET", "key", "value")
    own.kill()
    with pytest.raises(OSError, match="refused"):
        own.command("PING")
    own.restart()
    assert own.command("DBSIZE") == b":0"


def test_anvil_answers(anvil: Anvil) -> None:
    call = b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}'
    request = urllib.request.Request(anvil.url, call, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=5) as reply:
        assert b'"0x7a69"' in reply.read()


def test_chromium_is_there(chromium: Path) -> None:
    assert chromium.exists()


def test_every_program_that_a_test_requires_is_fetched() -> None:
    prepare = (services.SUPPORT / "prepare.sh").read_text(encoding="utf-8")
    assert [name for name in services.FINDERS if name not in prepare] == []


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("1", True), ("", False), ("false", False)])
def test_ci_is_what_the_environment_says(value: str, expected: bool) -> None:
    assert services.in_ci({"CI": value}) is expected


def run_pytest(folder: Path, test: str, ci: str) -> Process:
    """A run of its own over one test file, with this conftest."""
    (folder / "conftest.py").write_text("from tests.conftest import *\n")
    (folder / "test_sample.py").write_text(test)
    environment = {"CI": ci, "PYTHONPATH": str(services.ROOT), "PATH": ""}
    return Process([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", folder], env=environment, cwd=folder)


SKIPS = "import pytest\ndef test_x():\n    pytest.skip('no such thing')\n"
MISSES = "from tests.support.services import missing\ndef test_x():\n    missing('no such thing')\n"


def test_a_skip_is_listed_and_passes_on_a_laptop(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, MISSES, ci="")
    assert run.wait() == 0, run.output
    assert "1 skipped: no such thing" in run.output


@pytest.mark.parametrize("test", [SKIPS, MISSES])
def test_a_skip_fails_the_run_in_ci(tmp_path: Path, test: str) -> None:
    run = run_pytest(tmp_path, test, ci="true")
    assert run.wait() == 1, run.output
    assert "nothing" in run.output
