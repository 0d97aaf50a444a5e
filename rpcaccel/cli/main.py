"""The `rpcaccel` program: parses, builds, runs, and turns what goes wrong into a line and an exit code."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
import typer.main

from rpcaccel import __version__
from rpcaccel.chains import ChainError
from rpcaccel.cli import completion
from rpcaccel.cli.admin_client import RemoteError
from rpcaccel.cli.check import check
from rpcaccel.cli.credentials import key, passwd
from rpcaccel.cli.init import init
from rpcaccel.cli.load import bench
from rpcaccel.cli.load.record import record
from rpcaccel.cli.load.replay import replay
from rpcaccel.cli.load.warm import warm
from rpcaccel.cli.running.alerts import alerts
from rpcaccel.cli.running.answers import explain, purge
from rpcaccel.cli.running.nodes import drain, node, nodes, weight
from rpcaccel.cli.running.settings import settings
from rpcaccel.cli.running.views import clients, errors, hosts, subscriptions
from rpcaccel.cli.serve import serve
from rpcaccel.cli.simulated.demo import demo
from rpcaccel.cli.simulated.simnode import simnode
from rpcaccel.config.errors import ConfigError
from rpcaccel.controlplane.workers.sockets import ListenError
from rpcaccel.dataplane.output import shield

OK, WRONG, USAGE, BUG, INTERRUPTED = 0, 1, 2, 70, 130

app = typer.Typer(name="rpcaccel", add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
for command in (serve, init, demo, check, explain, purge, warm, nodes):
    app.command()(command)
app.add_typer(node)
app.command(context_settings={"ignore_unknown_options": True})(weight)  # for a number below 0
for command in (drain, clients, subscriptions, hosts, errors):
    app.command()(command)
app.add_typer(alerts)
app.add_typer(settings)
for command in (simnode, key, passwd):
    app.command()(command)
app.add_typer(bench.app)
for command in (record, replay, completion.completion):
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rpcaccel {__version__}")
        raise typer.Exit


@app.callback()
def rpcaccel(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """One fast, cached, balanced JSON-RPC endpoint in front of the nodes a team has.

    Examples:
    rpcaccel demo                            look around, with simulated nodes
    rpcaccel serve https://api.s0.t.hmny.io  serve a Harmony node on port 8888
    rpcaccel init                            write a first configuration
    rpcaccel serve --config rpcaccel.toml    serve what a file says
    rpcaccel check rpcaccel.toml             ask every node what it is
    rpcaccel nodes                           the nodes of a running proxy
    rpcaccel weight a 5                      give one of them another weight
    rpcaccel errors                          the errors that its clients got
    rpcaccel explain eth_gasPrice            how it treats a call
    rpcaccel warm --blocks 0..9999           fill its cache with these blocks
    rpcaccel bench --help                    measure it, and your own nodes
    """


def main() -> NoReturn:
    """Run the program and exit: 0 done, 1 a check failed, 2 usage or configuration, 70 a bug, 130 interrupted."""
    _prepare_output()
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError as error:
        # At its end Python would try again, and exit with 120.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 -- as long as the program
        code = code or _failed(error)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run the program; returns the exit code. Nothing escapes as a traceback, unless RPCACCEL_DEBUG is set."""
    completion.begin()
    try:
        command = _in_plain_words(typer.main.get_command(app))
        code = command(args=list(arguments) or ["--help"], prog_name="rpcaccel", standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:
        return _failed(error)
    return code if isinstance(code, int) else OK


def _prepare_output() -> None:
    """Have no message on stderr delay or end a command, and letters replaced that the terminal cannot show. Output that
    was asked for has to be written, or else the command has failed."""
    shield("stderr")
    if sys.stdout is None:
        shield("stdout")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _in_plain_words(command: Any) -> Any:
    """The command, with a help that names no types of Python for flags and arguments."""
    for parameter in command.get_params(typer.Context(command)):
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: ""  # noqa: ARG005 -- how typer calls it
        elif parameter.is_bool_flag:
            parameter.metavar = ""
    for inner in getattr(command, "commands", {}).values():
        _in_plain_words(inner)
    return command


def _failed(error: Exception) -> int:
    """Print an error in a line or a few; returns the exit code."""
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        said = [error.format_message(), f"{context.command_path if context else 'rpcaccel'} --help says what there is"]
        _complain(*(said if said[0].strip() else ()))  # a group without its command has shown its help already
        return error.exit_code
    if isinstance(error, ConfigError | ChainError | ListenError | RemoteError):
        _complain(*str(error).splitlines())
        return USAGE if isinstance(error, ConfigError | ChainError) else WRONG
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        _complain("the address is in use by another program")
        return WRONG
    if isinstance(error, BrokenPipeError):
        return WRONG
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        _complain(f"cannot write: {error.strerror}")
        return WRONG
    return _last_resort(error)


def _last_resort(error: Exception) -> int:
    """Report an error that no command expects. Its text may quote anything, so only its kind is printed."""
    if os.environ.get("RPCACCEL_DEBUG"):
        raise error
    where = f" ({error.strerror})" if isinstance(error, OSError) and error.strerror else ""
    _complain(f"{type(error).__name__}{where}: this is a bug, run with RPCACCEL_DEBUG=1 for the traceback")
    return BUG


def _complain(*lines: str) -> None:
    for line in lines:
        typer.echo(f"rpcaccel: {line}", err=True)
