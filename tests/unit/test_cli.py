"""The program from the outside: help, version, exit codes, and no traceback for anyone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import pytest
import typer.main

import rpcaccel
from rpcaccel import __main__
from rpcaccel.cli import main

ROOT = Path(rpcaccel.__file__).parent.parent


def started(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The program as people start it, in a process of its own."""
    command = [sys.executable, "-m", "rpcaccel", *arguments]
    environ = {"PATH": "/usr/bin:/bin", "COLUMNS": "160", "NO_COLOR": "1", **(env or {})}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False, env=environ)


def test_the_version_is_printed() -> None:
    done = started("--version")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, f"rpcaccel {rpcaccel.__version__}", "")


def test_a_bad_configuration_is_a_few_lines_and_exit_code_2(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('workers = 0\n[networks.x]\nnodes = ["https://u:${PW}@a", "ftp://u:hunter2@b"]\n')
    done = started("serve", "--config", str(file), env={"PW": "hunter2"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"rpcaccel: workers: found 0, expected at least 1 ({file}, line 1)",
        "rpcaccel: networks.x.nodes[1].url: found ftp://b, expected an address http://HOST[:PORT][/PATH] or https://… "
        f"({file}, line 3)",
    ]


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_lists_commands_and_examples(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(arguments) == 0
    out = capsys.readouterr().out
    for text in ("serve", "demo", "check", "simnode", "Examples", "rpcaccel serve https://"):
        assert text in out


def test_examples_in_help_stand_a_line_each_in_a_narrow_terminal() -> None:
    commands = typer.main.get_command(main.app)
    texts = [command.help or "" for command in every(commands)]
    examples = [text.partition("Examples:\n")[2] for text in texts if "Examples:" in text]
    assert len(examples) > 20
    assert [line for text in examples for line in text.splitlines() if not 0 < len(line.strip()) <= 78] == []


def every(command: Any) -> Iterator[Any]:
    yield command
    for inner in getattr(command, "commands", {}).values():
        yield from every(inner)


FOR_PEOPLE = {"serve", "demo", "init", "completion", "export"}
"""Commands that print no document: two that serve, a script, and two that write a config file."""


def test_every_command_that_shows_something_tells_it_to_programs_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    leaves = [one for one in every(typer.main.get_command(main.app)) if not hasattr(one, "commands") and not one.hidden]
    assert {one.name for one in leaves if not has(one, "--json")} == FOR_PEOPLE
    asking = {one.name for one in leaves if any(option.envvar == "RPCACCEL_ADMIN" for option in one.params)}
    assert {"nodes", "weight", "clients", "undo", "record", "table"} <= asking
    for command in (["nodes"], ["settings", "undo"], ["bench", "table"], ["node", "add"]):
        main.run([*command, "--help"])
        assert "--cacert" in capsys.readouterr().out


def has(command: Any, option: str) -> bool:
    return any(option in parameter.opts for parameter in command.params)


@pytest.mark.parametrize("arguments", [["nope"], ["--nope"], ["serve", "--nope"], ["demo", "extra"]])
def test_wrong_usage_is_two_lines_and_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 2)
    command = "" if arguments[0].startswith(("nope", "-")) else f"{arguments[0]} "
    assert err.endswith(f"\nrpcaccel: rpcaccel {command}--help says what there is\n")


def test_a_group_without_its_command_shows_its_help_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["settings"]) == 2
    out, err = capsys.readouterr()
    assert "undo" in out
    assert err == ""


def broken(error: BaseException) -> None:
    raise error


@pytest.fixture
def broken_command() -> Iterator[list[BaseException]]:
    """A command of the test's own that raises what is put into the list."""
    raised: list[BaseException] = []

    @main.app.command("broken-for-a-test", hidden=True)
    def command() -> None:
        broken(raised[0])

    yield raised
    main.app.registered_commands.pop()


def test_a_bug_is_one_line_without_what_it_quotes(
    broken_command: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    broken_command.append(KeyError("hunter2"))
    assert main.run(["broken-for-a-test"]) == main.BUG
    said = "rpcaccel: KeyError: this is a bug, run with RPCACCEL_DEBUG=1 for the traceback\n"
    assert capsys.readouterr().err == said


def test_a_bug_has_its_traceback_for_who_asks(
    broken_command: list[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RPCACCEL_DEBUG", "1")
    broken_command.append(KeyError("x"))
    with pytest.raises(KeyError):
        main.run(["broken-for-a-test"])


def test_an_interruption_is_no_error(broken_command: list[BaseException]) -> None:
    broken_command.append(KeyboardInterrupt())
    assert main.run(["broken-for-a-test"]) == main.INTERRUPTED


def test_an_operating_system_error_says_what_the_system_said(
    broken_command: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    broken_command.append(PermissionError(13, "Permission denied"))
    assert main.run(["broken-for-a-test"]) == main.BUG
    assert "Permission denied" in capsys.readouterr().err


def test_a_disk_that_is_full_is_no_bug(broken_command: list[BaseException], capsys: pytest.CaptureFixture[str]) -> None:
    broken_command.append(OSError(28, "No space left on device"))
    assert main.run(["broken-for-a-test"]) == main.WRONG
    assert capsys.readouterr().err == "rpcaccel: cannot write: No space left on device\n"


def test_output_that_goes_nowhere_changes_no_exit_code() -> None:
    command = f"{sys.executable} -m rpcaccel check http://127.0.0.1:9 --chain ethereum"
    closed = subprocess.run(["sh", "-c", f"{command} >&-"], capture_output=True, text=True, timeout=60, check=False)
    assert (closed.returncode, closed.stderr) == (1, "")


def test_a_letter_that_the_terminal_has_not_got_is_replaced() -> None:
    done = started("serve", "--help", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "RPCACCEL_REDIS__URL, ?)" in done.stdout


@pytest.mark.parametrize("command", [[], ["serve"], ["settings"], ["bench", "rate"], ["weight"]])
def test_a_flag_in_help_takes_nothing(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main.run([*command, "--help"])
    out = capsys.readouterr().out
    assert "--help" in out
    for kind in ("<bool>", "<str>", "<list"):
        assert kind not in out


def test_ctrl_c_while_the_program_is_loaded_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupts(MetaPathFinder):
        def find_spec(self, name: str, _path: object, _target: object = None) -> None:
            if name == "rpcaccel.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "rpcaccel.cli.main")
    interrupts = Interrupts()
    sys.meta_path.insert(0, interrupts)
    try:
        with pytest.raises(SystemExit) as ended:
            __main__.main()
    finally:
        sys.meta_path.remove(interrupts)
    assert ended.value.code == main.INTERRUPTED


def test_main_exits_with_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RPCACCEL_NODES", "")
    argv, sys.argv = sys.argv, ["rpcaccel", "--version"]
    try:
        with pytest.raises(SystemExit) as ended:
            main.main()
    finally:
        sys.argv = argv
    assert ended.value.code == 0


@pytest.mark.parametrize(
    ("process", "later"),
    [
        ("rpcaccel.controlplane.run", {"redis", "opentelemetry"}),
        ("rpcaccel.dataplane.process", {"redis", "opentelemetry", "structlog"}),
    ],
    ids=["supervisor", "worker"],
)
def test_what_the_settings_did_not_ask_for_is_not_loaded(process: str, later: set[str]) -> None:
    """Each of them takes 0.02 to 0.1 s of every start."""
    program = f"""
import sys, {process}
from rpcaccel import stores
from rpcaccel.config.model import RedisSettings
stores.driver(RedisSettings()).build(RedisSettings())
print(*({later!r} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == []
