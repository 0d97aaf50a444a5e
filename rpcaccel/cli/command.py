"""What commands have in common: an answer is a document for programs (--json), or lines and tables for people; and
those that ask a running proxy get its admin side (--admin, --cacert)."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from rpcaccel.cli import terminal
from rpcaccel.cli.admin_client import DEFAULT_ADMIN, AdminClient

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
_Admin = Annotated[
    str, typer.Option("--admin", envvar="RPCACCEL_ADMIN", metavar="HOST:PORT", help="The admin side of the proxy.")
]
_CaCert = Annotated[
    Path | None,
    typer.Option(
        "--cacert",
        envvar="RPCACCEL_CACERT",
        metavar="FILE",
        help="Authorities (PEM) of an admin side at https://, in place of the system's.",
    ),
]


class CommandResult(NamedTuple):
    """What a command found or did."""

    document: Any
    """Printed with --json."""
    shown: Iterable[terminal.Printed] | None = None
    """Printed otherwise; None: the document in any case."""
    code: int = 0
    """The exit code."""


def answers(command: Callable[..., Any]) -> Callable[..., int]:
    """A command with the option --json, out of a function that returns its result."""

    def answered(*, as_json: bool, **given: Any) -> int:
        result: CommandResult = command(**given)
        if as_json or result.shown is None:
            terminal.show_json(result.document)
        else:
            terminal.show(*result.shown)
        return result.code

    made: Callable[..., int] = _command(answered, command, 0, [("as_json", AsJson, False)])
    return made


def asks_proxy(command: Callable[..., CommandResult | int]) -> Callable[..., int]:
    """A command that asks a running proxy, out of a function whose first argument is the admin side. It has the option
    --json as well (`answers`), unless the function prints by itself and returns the exit code."""

    def asking(*, admin: str, cacert: Path | None, **given: Any) -> Any:
        return command(AdminClient(admin, cacert), **given)

    options = [("admin", _Admin, DEFAULT_ADMIN), ("cacert", _CaCert, None)]
    made: Callable[..., int] = _command(asking, command, 1, options)
    return answers(made) if made.__annotations__["return"] is CommandResult else made


def _command(made: Any, command: Any, passed: int, options: Sequence[tuple[str, Any, Any]]) -> Any:
    """`made`, with name and help of the command, its arguments but for the first `passed`, and these options."""
    signature = inspect.signature(command, eval_str=True)
    own = list(signature.parameters.values())[passed:]
    more = [Parameter(name, Parameter.KEYWORD_ONLY, default=value, annotation=kind) for name, kind, value in options]
    arguments = [*(argument.replace(kind=Parameter.KEYWORD_ONLY) for argument in own), *more]
    made.__name__, made.__doc__ = command.__name__, command.__doc__
    made.__signature__ = inspect.Signature(arguments)
    made.__annotations__ = {argument.name: argument.annotation for argument in arguments}
    made.__annotations__["return"] = signature.return_annotation
    return made


def agreed(question: str, otherwise: str) -> bool:
    """Whether the operator says yes to a question. Raises typer.Abort where nobody can be asked, after `otherwise`."""
    typer.echo(f"{question} [y/N]: ", nl=False, err=True)  # typer.confirm writes a space to stdout
    if not (answer := sys.stdin.readline()):
        typer.echo(f"\nrpcaccel: {otherwise}; --yes does it without asking", err=True)
        raise typer.Abort
    return answer.strip().lower() in {"y", "yes"}


def changed(done: dict[str, Any]) -> CommandResult:
    """The answer about a change of the settings: "revision 5: harmony-s0 a: weight 1 to 5 (2 workers)"."""
    document = {key: done[key] for key in ("revision", "change", "adopted", "waiting", "persisted", "note")}
    if done["change"] is None:
        return CommandResult(document, [f"nothing to change; revision {done['revision']}"])
    line = f"revision {done['revision']}: {done['change']['text']} ({terminal.plural(done['adopted'], 'worker')})"
    waiting = f"waits for a restart: {', '.join(done['waiting'])}" if done["waiting"] else ""
    return CommandResult(document, [text for text in (line, waiting, done["note"]) if text])
