"""`rpcaccel bench` from the command line."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.responder import Responder
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.report.report import Report
from rpcaccel.cli.load import bench
from rpcaccel.cli.main import run
from tests.support.services import Program, free_port
from tests.support.serving import responding_apart

CALL = ("--call", '{"method": "eth_getBlockByNumber", "params": ["0x1", false]}')


def test_a_table_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, figures = tmp_path / "t.html", tmp_path / "t.json"
    with responding_apart() as direct, responding_apart(Responder(latency=0.01)) as slow:
        others = ["--also", f"slow={slow}", "--balanced", direct, "--redis-proxy", direct]
        arguments = ["--direct", direct, *others, "-n", "4", "-c", "2"]
        code = run(["bench", "table", *arguments, "-o", str(page), "-o", str(figures)])
    assert code == 0
    out = capsys.readouterr().out
    assert "hmyv2_getBlockSigners" in out
    assert re.search(r"proxy, Redis +40 ", out)
    assert page.read_text().startswith("<!doctype html>")
    cells = json.loads(figures.read_text())["cells"]
    assert list(cells["hmyv2_call"]) == ["direct", "kept alive", "slow", "balanced", "proxy, Redis"]
    assert cells["hmyv2_call"]["slow"]["mean"] > cells["hmyv2_call"]["kept alive"]["mean"]


@pytest.mark.deep
def test_one_command_compares_a_node_with_and_without_the_proxy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "t.html"
    with responding_apart(Responder(latency=0.02)) as direct:
        arguments = ["--serve", "harmony", "-n", "4", "-c", "2", "-m", "hmyv2_getBlockByNumber", "-m", "hmyv2_call"]
        assert run(["bench", "table", "--direct", direct, *arguments, "-o", str(page)]) == 0
        assert run(["bench", "table", "--direct", direct, "--serve", "nochain"]) == 1
    out, err = capsys.readouterr()
    assert re.search(r"proxy warm +8 ", out)
    assert "is not served" in err
    assert re.search(r"balanced +8 .* 0.0 %", out) or re.search(r"balanced +8 .* 0 %", out)
    assert "proxy cold" in page.read_text()


@pytest.mark.parametrize(
    "command",
    [
        ["table", "--direct", "URL", "-n", "3000", "-m", "eth_gasPrice"],
        ["compare", "URL", "URL", "--runs", "100", *CALL],
    ],
    ids=lambda command: command[0],
)
def test_ctrl_c_ends_a_measurement_with_what_there_is(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    responder = Responder(latency=0.1)  # with which it would take much longer than until the interruption
    with responding_apart(responder) as url:
        interrupt = threading.Thread(target=lambda: _once_busy(responder))
        interrupt.start()
        assert run(["bench", *(url if word == "URL" else word for word in command)]) == 130
        interrupt.join()
    assert "! interrupted: " in capsys.readouterr().out


@pytest.mark.deep
def test_ctrl_c_ends_the_look_at_steps_too(new_program: Callable[..., Program]) -> None:
    with responding_apart() as node:
        proxy = new_program("serve", node, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
        admin = proxy.wait_for(r"page +http://([^/\s]+)/")[1]
        steps = new_program("bench", "steps", "--admin", admin, "--duration", "10m")
        steps.wait_for("watching")  # which is its progress
        steps.signal(signal.SIGINT)
        assert steps.wait() == 130
    assert "interrupted: what was measured until then" in steps.output


def test_failures_are_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    responder = Responder()
    responder.broken.add("net_peerCount")
    with responding_apart(responder) as url:
        assert run(["bench", "table", "--direct", url, "-n", "2", "-m", "net_peerCount", "-m", "hmyv2_call"]) == 1
    assert "2 (rpc -32000: 2)" in capsys.readouterr().out


def test_the_cold_column_can_begin_with_an_empty_cache(capsys: pytest.CaptureFixture[str]) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    with responding_apart() as url:
        arguments = ["bench", "table", "--direct", url, "--proxy", url, "-n", "2", "-m", "hmyv2_call"]
        assert run(arguments) == 0
        assert run([*arguments, "--purge", "--admin", nobody]) == 1
    assert "no answer from the admin side" in capsys.readouterr().err


def test_a_rate_is_measured_and_one_too_high_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with responding_apart(Responder(latency=0.2)) as url:
        run(["bench", "rate", url, "--rate", "50", "-d", "200ms", *CALL])
        capsys.readouterr()
        assert (
            run(["bench", "rate", url, "--rate", "400", "-d", "250ms", "--connections", "1", "--timeout", "0.5", *CALL])
            == 1
        )
    out = capsys.readouterr().out
    assert "did not hold the rate" in out
    assert "p99" not in out


def test_two_endpoints_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    with responding_apart() as fast, responding_apart(Responder(latency=0.1)) as slow:
        pids = ["--pid-a", str(os.getpid()), "--pid-b", str(os.getpid())]
        # One call after the other, so that a machine must be a hundred times slower to hide the difference.
        arguments = ["--runs", "3", "-d", "150ms", "--warmup", "10ms", "--connections", "1", *pids, *CALL]
        assert run(["bench", "compare", fast, slow, *arguments]) == 0
    out = capsys.readouterr().out
    assert re.search(r"good calls \(/s\).*yes: A is better", out)
    assert "resident memory (MB)" in out


def test_two_networks_of_one_proxy_are_two_sides(tmp_path: Path) -> None:
    figures = tmp_path / "c.json"
    with responding_apart() as url:
        arguments = ["--runs", "2", "-d", "50ms", "--warmup", "0s", *CALL, "-o", str(figures)]
        assert run(["bench", "compare", f"{url}/one", f"{url}/two", *arguments]) == 0
    sides = [made["side"] for made in json.loads(figures.read_text())["runs"]]
    assert sides == [f"{url} (A)", f"{url} (B)", f"{url} (B)", f"{url} (A)"]


def test_a_target_that_answers_nothing_well_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    responder = Responder()
    responder.broken.add("eth_getBlockByNumber")
    nobody = f"http://127.0.0.1:{free_port()}"
    with responding_apart(responder) as url:
        assert run(["bench", "rate", url, "--rate", "50", "-d", "100ms", *CALL]) == 1
        arguments = ["--runs", "1", "-d", "50ms", "--warmup", "0s", *CALL]
        assert run(["bench", "compare", nobody, url, *arguments]) == 1
    out = capsys.readouterr().out
    assert f"! every call to {url} failed" in out
    assert f"! every call to {nobody} failed" in out


def test_ctrl_c_ends_it_before_the_target_has_said_what_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    responder = Responder(latency=600.0)
    with responding_apart(responder) as url:
        interrupt = threading.Thread(target=lambda: _once_busy(responder, 1))
        interrupt.start()
        assert run(["bench", "rate", url, "--rate", "100"]) == 130
        interrupt.join()
    assert capsys.readouterr().out == ""


def test_ctrl_c_prints_what_was_measured_so_far(capsys: pytest.CaptureFixture[str]) -> None:
    responder = Responder()
    with responding_apart(responder) as url:
        interrupt = threading.Thread(target=lambda: _once_busy(responder))
        interrupt.start()
        assert run(["bench", "rate", url, "--rate", "100", "-d", "60s", *CALL]) == 130
        interrupt.join()
    assert "interrupted" in capsys.readouterr().out


def _once_busy(responder: Responder, calls: int = 10) -> None:
    ended = threading.Event()
    while responder.calls < calls:
        ended.wait(0.01)
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rate", "ftp://a", "--rate", "1"], "a URL"),
        (["rate", "http://a", "--rate", "1", "-d", "soon"], "--duration: found 'soon'"),
        (["compare", "http://a", "http://b", "--warmup", "soon"], "--warmup: found 'soon'"),
        (["rate", "http://a", "--rate", "1", "-o", "missing/a.md"], "there is no directory missing"),
        (["rate", "http://a", "--rate", "1", "--call", "{}"], "--call"),
        (["rate", "http://a", "--rate", "1", "-o", "a.txt"], ".html"),
        (["table", "--direct", "http://a", "--also", "b"], "NAME=URL"),
        (["table", "--direct", "http://a", "--also", "direct=http://b"], "two columns"),
        (["rate", "http://a", "--rate", "1", "-d", "0s"], "--duration: found '0s', expected more than 0"),
        (["compare", "http://a", "http://b", "-d", "0"], "--duration: found '0', expected more than 0"),
        (["rate", "http://a", "--rate", "1", "--call", '{"method": null}'], "--call"),
        (["rate", "http://a", "--rate", "1", "-o", "FOLDER.md"], "FOLDER.md is a directory"),
        (["compare", "http://a", "missing.toml"], "no file"),
        (["compare", "a", "b"], "config file"),
    ],
)
def test_wrong_arguments_are_said_before_anything_is_measured(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FOLDER.md").mkdir()
    assert run(["bench", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_nobody_there_is_a_line_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    assert run(["bench", "table", "--direct", nobody]) == 1
    assert run(["bench", "steps", "--admin", nobody]) == 1
    said = capsys.readouterr().err
    assert len(said.splitlines()) <= 4
    assert f"{nobody} answers neither" in said


def test_a_report_that_cannot_be_written_is_shown_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.md"

    async def measure(_watch: Watch) -> tuple[Report, int]:
        await asyncio.sleep(0)
        file.mkdir()
        return Report("Measured", {}), 0

    assert bench.measured(measure, [file]) == 1
    said = capsys.readouterr()
    assert "Measured" in said.out
    assert "a.md cannot be written: Is a directory" in said.err
