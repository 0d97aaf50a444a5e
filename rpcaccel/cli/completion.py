"""`rpcaccel completion`: the script by which a shell completes commands, options, and the nodes of a running proxy."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import typer.main

from rpcaccel import chains
from rpcaccel.cli.admin_client import DEFAULT_ADMIN, AdminClient, RemoteError

VARIABLE = "_RPCACCEL_COMPLETE"
"""Set by a script when it asks the program for what fits."""
COMPLETION_SECONDS = 1.0
"""Seconds that a proxy may take to name its nodes, while somebody waits for a shell."""
_SAFE = re.compile(r"[A-Za-z0-9._:/-]+")
"""Names that mean nothing more to a shell."""
SCRIPTS = {
    # Bash takes a colon for the end of a word, and ids of nodes hold colons: what stands before the last is cut off.
    "bash": """\
_rpcaccel_completion() {
    local IFS=$'\\n' line=${COMP_LINE:0:COMP_POINT} word
    local -a typed
    IFS=$' \\t\\n' read -ra typed <<<"$line"
    case $line in *[[:space:]]) typed+=("") ;; esac
    word=${typed[${#typed[@]}-1]}
    COMPREPLY=($(env COMP_WORDS="$line" COMP_CWORD=$((${#typed[@]}-1)) _RPCACCEL_COMPLETE=complete_bash "$1"))
    COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*[:=]}"}"}")
}
complete -o default -F _rpcaccel_completion rpcaccel""",
    "zsh": """\
#compdef rpcaccel
_rpcaccel_completion() {
    local -a found
    found=("${(@f)$(env COMP_WORDS="${words[1,$CURRENT]}" COMP_CWORD=$((CURRENT-1)) \\
        _RPCACCEL_COMPLETE=complete_bash rpcaccel)}")
    [[ -n "$found" ]] && compadd -- $found || _files
}
compdef _rpcaccel_completion rpcaccel""",
    "fish": """\
complete --command rpcaccel --arguments "(env COMP_WORDS=(commandline -cp | string collect) \\
    COMP_CWORD=(count (commandline -cop)) _RPCACCEL_COMPLETE=complete_bash rpcaccel)\"""",
}


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="bash|zsh|fish", help="The shell.")],
) -> int:
    """Print what makes a shell complete commands, options, and the nodes of a running proxy.

    Examples:
    eval "$(rpcaccel completion bash)"            in ~/.bashrc
    eval "$(rpcaccel completion zsh)"             in ~/.zshrc, after compinit
    rpcaccel completion fish | source             in config.fish
    """
    typer.echo(SCRIPTS[shell])
    return 0


def begin() -> None:
    """Make the program answer a shell, when one asks."""
    if VARIABLE in os.environ:
        answering = typer.Typer(add_completion=True)
        answering.command()(begin)
        typer.main.get_command(answering)  # has typer learn how shells ask


def chain_names(incomplete: str) -> list[str]:
    """The names of chains that fit."""
    return [name for name in chains.names() if name.startswith(incomplete)]


def nodes(context: typer.Context, incomplete: str) -> list[str]:
    """The nodes of a running proxy that fit; none where no proxy answers."""
    found = _asked(context, "nodes")
    listed = found["nodes"] if found else []
    ids = [node["id"] for node in listed]
    named = [
        node["id"] if ids.count(node["id"]) == 1 and "/" not in incomplete else f"{node['network']}/{node['id']}"
        for node in listed
    ]
    return [name for name in named if name.startswith(incomplete) and _SAFE.fullmatch(name)]


def networks(context: typer.Context, incomplete: str) -> list[str]:
    """The networks of a running proxy that fit."""
    found = _asked(context, "settings")
    named = found["document"]["networks"] if found else ()
    return [name for name in named if name.startswith(incomplete) and _SAFE.fullmatch(name)]


def _asked(context: typer.Context, path: str) -> Any:
    admin = context.params.get("admin") or os.environ.get("RPCACCEL_ADMIN") or DEFAULT_ADMIN
    cacert = context.params.get("cacert") or os.environ.get("RPCACCEL_CACERT")
    try:
        return AdminClient(admin, Path(cacert) if cacert else None).get(path, timeout=COMPLETION_SECONDS)
    except RemoteError:
        return None
