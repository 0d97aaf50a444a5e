"""`rpcaccel key`: a new API key, and what the settings hold of it.

`rpcaccel passwd`: the hash of a password, for the settings.
"""

from __future__ import annotations

import secrets
import sys
from typing import Annotated

import typer

from rpcaccel.cli import options
from rpcaccel.cli.command import CommandResult, answers
from rpcaccel.core import client_limits


@answers
def key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What metrics and the page call its holder.")] = "my-dapp",
) -> CommandResult:
    """Make a new API key. It is shown this once; the settings hold only its hash.

    Examples:
    rpcaccel key my-dapp
    curl -H "X-Api-Key: KEY" http://127.0.0.1:8888 -d @call.json
    curl http://127.0.0.1:8888/key/KEY/harmony-s0 -d @call.json
    """
    header = options.table_header("clients.keys", name, "my-dapp")
    made = client_limits.make(secrets.token_bytes(client_limits.RANDOM_BYTES))
    hashed = client_limits.hashed(made)
    toml = f'{header}\nhashes = ["{hashed}"]'
    document = {"name": name, "key": made, "hash": hashed, "toml": f"{toml}\n"}
    return CommandResult(document, [f"key   {made}", f"hash  {hashed}", "", *toml.split("\n")])


@answers
def passwd(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the account.")] = "admin",
    read_only: Annotated[bool, typer.Option("--read-only", help="It may look, and change nothing.")] = False,
) -> CommandResult:
    """Make an account of the admin side: ask for a password (or read it from a pipe), print what goes into the config.

    Examples:
    rpcaccel passwd ops
    pwgen -s 32 1 | rpcaccel passwd prometheus --read-only
    """
    header = options.table_header("admin.accounts", name, "ops")
    if sys.stdin.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if len(password) < 8:
        typer.echo("rpcaccel: a password has at least 8 characters", err=True)
        raise typer.Exit(1)
    from rpcaccel.config.secrets import hash_password

    role, hashed = "read" if read_only else "admin", hash_password(password).reveal()
    toml = f'{header}\nrole = "{role}"\npassword = "{hashed}"'
    return CommandResult({"name": name, "role": role, "hash": hashed, "toml": f"{toml}\n"}, toml.split("\n"))
