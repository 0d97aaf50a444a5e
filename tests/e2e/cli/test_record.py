"""`rpcaccel record` from the command line, of a real proxy over simulated nodes."""

from __future__ import annotations

import asyncio
import json
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.peers import get, post
from rpcaccel.bench.runs import recording
from rpcaccel.bench.runs.recording import Line
from rpcaccel.cli.main import run
from tests.support.fleet import Fleet
from tests.support.running import Running
from tests.support.services import Program, free_port, wait_until

ADDRESS = "0x7c41e0668b551f4f902cfaec05b5bdca68b124ce"
NewProgram = Callable[..., Program]


class Recorded:
    """A proxy that is called while it is recorded."""

    def __init__(self, proxy: Running, new_program: NewProgram, file: Path) -> None:
        self.admin = proxy.admin.removeprefix("http://")
        self.url = proxy.url
        self.file = file
        self._new = new_program

    def call(self, method: str, *params: object) -> None:
        post(self.url, json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))

    def record(self, *flags: str) -> Program:
        """The recording, once it has begun: then a call is found again."""
        program = self._new("record", "--to", self.file, "--admin", self.admin, *flags)

        def begun() -> bool:
            self.call("eth_chainId")
            return self.file.exists() and "eth_chainId" in self.file.read_text()

        wait_until("the recording", begun)
        return program

    def lines(self) -> list[Line]:
        return [line for line in recording.read(self.file)[1] if line.method != "eth_chainId"]


@pytest.mark.smoke
async def test_calls_are_recorded_until_it_is_interrupted(pair: Fleet, new_program: NewProgram, tmp_path: Path) -> None:
    def recorded() -> None:
        made = Recorded(pair.proxy, new_program, tmp_path / "calls.jsonl")
        program = made.record("--duration", "10m", "--hash-addresses")
        made.call("eth_getBalance", ADDRESS, "latest")
        made.call("hmyv2_getBlockByNumber", 26, {})
        # What was answered is there with the next look at the latest, and with the last one in any case.
        program.signal(signal.SIGINT)
        assert program.wait() == 0
        assert "calls, " in program.output
        balance, block = made.lines()
        assert (balance.method, block.method) == ("eth_getBalance", "hmyv2_getBlockByNumber")
        assert json.loads(bytes(block.params)) == [26, {}]
        assert block.block == 26
        assert balance.ms is not None
        hidden = json.loads(bytes(balance.params))
        assert hidden[0] != ADDRESS
        assert hidden[0].startswith("0x")
        assert hidden[1] == "latest"
        assert stat.S_IMODE(made.file.stat().st_mode) == 0o600
        assert b"rpcaccel_calls" in get(f"http://{made.admin}/metrics")

    await asyncio.to_thread(recorded)


async def test_ctrl_c_ends_a_recording_that_no_proxy_answers(new_program: NewProgram, tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await _reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    admin = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        program = new_program("record", "--to", tmp_path / "none.jsonl", "--admin", admin)
        await asyncio.wait_for(asked.wait(), 30.0)
        program.signal(signal.SIGINT)
        assert await asyncio.to_thread(program.wait) == 130
    assert not (tmp_path / "none.jsonl").exists()


async def test_a_recording_ends_at_its_size(fleet: Fleet, new_program: NewProgram, tmp_path: Path) -> None:
    def recorded() -> None:
        made = Recorded(fleet.proxy, new_program, tmp_path / "small.jsonl")
        program = made.record("--duration", "10m", "--limit", "1kB")
        while program.running:
            made.call("eth_getBalance", ADDRESS, "latest")
        assert program.wait() == 0
        assert "--limit was reached" in program.output
        assert 0 < made.file.stat().st_size <= 1000

    await asyncio.to_thread(recorded)


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "calls.jsonl"
    file.write_text("precious")
    assert run(["record", "--to", str(file)]) == 2
    assert "does not overwrite" in capsys.readouterr().err
    assert file.read_text() == "precious"


def test_without_a_proxy_it_says_so_and_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "calls.jsonl"
    assert run(["record", "--to", str(file), "--admin", f"127.0.0.1:{free_port()}"]) == 1
    assert "no answer from the admin side" in capsys.readouterr().err
    assert not file.exists()
    assert run(["record", "--to", str(file), "--duration", "soon"]) == 2
    assert "--duration: found 'soon', expected a duration" in capsys.readouterr().err
    assert run(["record", "--to", str(file), "--limit", "much"]) == 2
    assert "--limit: found 'much', expected a size" in capsys.readouterr().err


def test_a_file_that_cannot_be_made_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["record", "--to", str(tmp_path / "missing" / "calls.jsonl")]) == 2
    assert "calls.jsonl cannot be written: No such file or directory" in capsys.readouterr().err


async def test_a_network_that_is_not_there_is_told_before_anything_is_written(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = fleet.proxy.admin.removeprefix("http://")
    words = ["record", "--to", str(tmp_path / "a.jsonl"), "--network", "nope", "--admin", admin]
    assert await asyncio.to_thread(run, words) == 1
    assert "no network is called nope; there is: harmony-s0" in capsys.readouterr().err
    assert not (tmp_path / "a.jsonl").exists()
