"""`rpcaccel key`: a new API key, and what the settings hold of it."""

from __future__ import annotations

import secrets
from typing import Annotated

import typer

from rpcaccel.commands import options
from rpcaccel.core import apikey


def key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What metrics and the page call its holder.")] = "my-dapp",
) -> None:
    """Make a new API key. It is shown this once; the settings hold only its hash.

    Examples:
    rpcaccel key my-dapp
    curl -H "X-Api-Key: KEY" http://127.0.0.1:8888 -d @call.json
    curl http://127.0.0.1:8888/key/KEY/harmony-s0 -d @call.json
    """
    header = options.table_header("clients.keys", name, "my-dapp")
    made = apikey.make(secrets.token_bytes(apikey.RANDOM_BYTES))
    typer.echo(f"key   {made}")
    typer.echo(f"hash  {apikey.hashed(made)}")
    typer.echo("")
    typer.echo(header)
    typer.echo(f'hashes = ["{apikey.hashed(made)}"]')
