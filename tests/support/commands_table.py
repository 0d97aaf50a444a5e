"""The table of commands in docs/configure.md, made from what `--help` says: `python -m tests.support.commands_table`
writes it, as `make reference` does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperArgument as Argument

from rpcaccel.cli.main import app
from tests.support.services import ROOT

PAGE = ROOT / "docs" / "configure.md"
_HEAD = "| command | what it does |\n|---|---|\n"


def commands(group: Any = None, above: str = "rpcaccel") -> Iterator[tuple[str, typer.core.TyperCommand]]:
    """Every command there is with its whole name, also those below another one."""
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        yield f"{above} {name}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{above} {name}")


def table() -> str:
    """A row for each command that does something by itself: its name and arguments, and how its help begins."""
    rows = []
    for name, command in commands():
        if getattr(command, "commands", None) and not getattr(command, "invoke_without_command", False):
            continue
        arguments = [
            param.metavar or str(param.name).upper() for param in command.params if isinstance(param, Argument)
        ]
        text = " ".join((command.help or "").split())
        first = re.split(r"(?<=[.:;,]) (?=[A-Z])|: |; ", text)[0].rstrip(".")
        call = " ".join([name, *arguments]).replace("|", "\\|")
        rows.append(f"| `{call}` | {first} |\n")
    return _HEAD + "".join(rows)


def written(page: str) -> str:
    """The page with the table as it is now, at its end."""
    return page.partition(_HEAD)[0] + table()


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
