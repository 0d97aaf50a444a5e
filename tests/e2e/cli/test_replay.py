"""`rpcaccel replay` from the command line, recorded and replayed end to end."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import Raw

from benchmarks.responder import Responder
from rpcaccel.bench.runs.recording import Line, RecordingHeader, encode
from rpcaccel.cli.main import run
from tests.e2e.cli.command_process import CommandProcess, Told
from tests.e2e.cli.test_record import Recorded
from tests.support.fleet import Fleet
from tests.support.services import Program
from tests.support.serving import responding_apart


def recorded(file: Path, *methods: str, spread: float = 0.01) -> str:
    lines = [Line(at=place * spread, method=method, params=Raw(b'["0x10",false]')) for place, method in
             enumerate(methods)]  # fmt: skip
    file.write_bytes(b"".join(encode(line) + b"\n" for line in (RecordingHeader(1), *lines)))
    return str(file)


async def test_what_was_recorded_is_answered_alike_by_the_proxy_and_its_node_and_not_by_one_that_lies(
    fleet: Fleet, new_program: Callable[..., Program], commands: CommandProcess, tmp_path: Path
) -> None:
    made = Recorded(fleet.proxy, new_program, tmp_path / "calls.jsonl")

    def record() -> None:
        recording = made.record("--duration", "10m")
        for number in range(20):
            made.call("hmyv2_getBlockByNumber", number, {})
            made.call("eth_getBalance", "0x7c41e0668b551f4f902cfaec05b5bdca68b124ce", hex(number))
        recording.signal(signal.SIGINT)
        assert recording.wait() == 0

    async def replayed(against: str, *flags: str) -> Told:
        pace = ("--pace", "50/s", "--timeout", "30")
        return await commands.run("replay", made.file, made.url, "--against", against, *pace, *flags, folder=tmp_path)

    await asyncio.to_thread(record)
    same = await replayed(fleet.nodes[0].url, "-o", "replay.json")
    assert same.code == 0, same.err
    assert "that were compared are alike" in same.out
    found = json.loads((tmp_path / "replay.json").read_text())["differences"]["hmyv2_getBlockByNumber"]
    assert (found["alike"], found["different"], found["unanswered"]) == (20, 0, 0)
    with responding_apart(Responder(50)) as liar:
        other = await replayed(liar)
    assert other.code == 1, other.err
    assert "result" in other.out
    assert "hmyv2_getBlockByNumber" in other.out


@pytest.mark.smoke
def test_differences_are_exit_code_1_unless_they_are_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = recorded(tmp_path / "calls.jsonl", "eth_getBlockByNumber", "eth_getBlockByHash")
    with responding_apart(Responder(100)) as one, responding_apart(Responder(200)) as other:
        arguments = ["replay", file, one, "--against", other, "--timeout", "30"]
        assert run(arguments) == 1
        assert run([*arguments, "--allow", "eth_getBlockByNumber"]) == 1
        assert run([*arguments, "--allow", "eth_*"]) == 0
        assert run([*arguments[:4], one]) == 0
    assert "2 of 2 answers differ" in capsys.readouterr().out


def test_writes_are_sent_only_when_that_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = recorded(tmp_path / "calls.jsonl", "eth_sendRawTransaction", "eth_gasPrice")
    responder = Responder(100)
    with responding_apart(responder) as url:
        assert run(["replay", file, url]) == 0
        assert responder.asked == {"eth_gasPrice": 1}
        assert "not replayed: 1 writes" in capsys.readouterr().out
        assert run(["replay", file, url, "--writes"]) == 0
    assert responder.asked == {"eth_gasPrice": 2, "eth_sendRawTransaction": 1}


def test_an_interrupted_replay_tells_what_was_measured_so_far(
    tmp_path: Path, new_program: Callable[..., Program]
) -> None:
    file = recorded(tmp_path / "calls.jsonl", *["eth_gasPrice"] * 600, spread=1.0)
    responder = Responder(100)
    with responding_apart(responder) as url:
        program = new_program("replay", file, url, "--pace", "20/s", "--no-spin")
        program.wait_for("600 calls to")
        program.signal(signal.SIGINT)
        assert program.wait() == 130
    assert "interrupted: what was measured until then" in program.output
    assert responder.calls < 600


@pytest.mark.parametrize("pace", ["fast", "0/s", "x", "-1x", "500"])
def test_a_pace_that_is_none_is_refused(pace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = recorded(tmp_path / "calls.jsonl", "eth_gasPrice")
    assert run(["replay", file, "http://127.0.0.1:1", f"--pace={pace}"]) == 2
    assert "expected recorded, 2x or 500/s" in capsys.readouterr().err


def test_a_file_without_calls_to_replay_is_said_to_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = recorded(tmp_path / "calls.jsonl", "eth_sendRawTransaction")
    assert run(["replay", file, "http://127.0.0.1:1"]) == 1
    assert "no call in it may be replayed" in capsys.readouterr().err
    assert run(["replay", str(tmp_path / "none.jsonl"), "http://127.0.0.1:1"]) == 2


def test_a_folder_is_no_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(tmp_path), "http://a"]) == 2
    assert "is a directory" in capsys.readouterr().err
