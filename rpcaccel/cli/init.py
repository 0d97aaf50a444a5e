"""`rpcaccel init`: asks what is needed, tries the nodes, and writes a first configuration with comments."""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from rpcaccel import chains
from rpcaccel.cli import options, serve
from rpcaccel.cli.terminal import Listing, plural, show
from rpcaccel.config.errors import ConfigError, Fault, reason_of
from rpcaccel.config.load import put
from rpcaccel.config.model import MemorySettings, Settings
from rpcaccel.config.secrets import parse_listen
from rpcaccel.config.validate import validate
from rpcaccel.config.value_types import format_size
from rpcaccel.core.heads.identity import Finding, NodesFound

AskOperator = Callable[[str, str], str]
"""Asks the operator a question, given with the answer that Enter stands for; returns the answer."""
DEFAULT_FILE = "rpcaccel.toml"
NO_FOLDER = "none"
_UNTRIED = {"network": {"nodes": ["http://node.example"]}}
"""Stands for the networks while other settings are judged, before a node is asked."""
_QUESTIONS = (
    ("--listen", "Where are calls taken, as HOST:PORT?", str(Settings.model_fields["listen"].default)),
    ("--memory", "How much memory may answers take?", format_size(MemorySettings.model_fields["size"].default)),
    ("--disk", "Which folder keeps final answers over a restart?", NO_FOLDER),
)
"""The flags that are asked for where they are not given, with the answer that Enter stands for: the default or none."""
_WHICH_NODES = (
    "Which nodes? Give their URLs, or a chain, whose public endpoints serve for a first look\n"
    f"({', '.join(chains.names())})"
)


def init(  # noqa: PLR0913, PLR0917 -- an argument for each flag
    nodes: options.NodeUrls = None,
    chain: options.ChainName = None,
    shard: options.Shard = None,
    listen: options.ListenAddress = None,
    admin: options.AdminListen = None,
    redis: options.Redis = None,
    balancer: options.BalancerName = None,
    memory: options.Memory = None,
    disk: options.Disk = None,
    disk_size: options.DiskSize = None,
    workers: options.WorkerNumber = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help=f"The file to write: {DEFAULT_FILE}.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: take the flags, and defaults.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> int:
    """Write a first configuration: ask what is needed, try the nodes, and set what was chosen, with comments.

    On a terminal, what no flag gives is asked for, and so is what to do with a node that is wrong. With --yes, or
    without a terminal, nothing is asked: such a node is written all the same, and the exit code is 1. Nothing is
    written where no node says what it serves, unless --chain, and --shard where there are some, name it.

    Examples:
    rpcaccel init
    rpcaccel init https://a.example,weight=3 https://b.example
    rpcaccel init harmony --disk /var/cache/rpcaccel --yes
    rpcaccel init http://127.0.0.1:8545 --chain ethereum -o eth.toml --yes
    """
    flags = {
        "--listen": listen,
        "--admin": admin,
        "--redis": redis,
        "--balancer": balancer,
        "--memory": memory,
        "--disk": disk,
        "--disk-size": disk_size,
        "--workers": workers,
    }
    given = {flag: value for flag, value in flags.items() if value is not None}
    ask = None if yes or sys.stdin is None or not sys.stdin.isatty() else _asked
    first = FirstConfiguration(ask, force=force)
    return first.write(nodes or (), options.chain_meant(chain), shard, given, output)


def _asked(question: str, otherwise: str) -> str:
    """Ask on the terminal. Raises typer.Abort at its end."""
    typer.echo(f"{question} [{otherwise}]: ", nl=False, err=True)
    if not (answer := sys.stdin.readline()):
        typer.echo(err=True)
        raise typer.Abort
    return answer.strip() or otherwise


class _Chosen(NamedTuple):
    """The networks that are to be served, as a file has them, and the nodes among them that are wrong."""

    networks: dict[str, dict[str, Any]]
    wrong: Sequence[Finding]


class FirstConfiguration:
    """A first configuration in the making."""

    def __init__(self, ask: AskOperator | None, *, force: bool = False) -> None:
        """`ask` is None where nobody can be asked; `force`: a file that is there is replaced."""
        self._ask = ask
        self._force = self._replaced = force

    def __repr__(self) -> str:
        return f"<FirstConfiguration, {'asking' if self._ask else 'by flags'}>"

    def write(
        self, nodes: Sequence[str], chain: str | None, shard: int | None, given: Mapping[str, str], file: Path | None
    ) -> int:
        """Write the file; returns the exit code. `given`: values by flag. Raises ConfigError."""
        if not nodes and self._ask is None:
            raise ConfigError([Fault("", "", "give URLs of nodes, or a chain: nobody can be asked for them")])
        _judged(_UNTRIED, given)
        if file is not None or self._ask is None:
            file = self._free(file or Path(DEFAULT_FILE))
        chosen = self._try_nodes(nodes, chain, shard)
        if chosen is None:
            return 1
        for flag, question, otherwise in _QUESTIONS:
            if self._ask is not None and flag not in given:
                given = self._more(self._ask, given, flag, question, otherwise)
        settings = _judged(chosen.networks, given)
        if file is not None:
            _write(settings, file, anew=not self._replaced)
        while file is None:
            assert self._ask is not None
            try:
                file = self._free(Path(self._ask("Which file is written?", DEFAULT_FILE)))
                _write(settings, file, anew=not self._replaced)
            except ConfigError as error:
                serve.say(str(error).splitlines(), "console", "error")
                file = None
        for wrong in chosen.wrong if self._ask is None else ():
            serve.say([f"{wrong.network}/{wrong.node} is written, though it is wrong: {wrong.trouble}"], "console", "")
        return 1 if chosen.wrong and self._ask is None else 0

    def _free(self, file: Path) -> Path:
        """The file, if it may be written. Raises ConfigError where nobody says that it may be replaced."""
        self._replaced = self._force
        while os.path.lexists(file) and not self._force:
            if self._ask is None:
                raise ConfigError([Fault(str(file), "", "is there already: --force replaces it, -o names another")])
            answer = self._ask(f"{file} is there already: yes to replace it, or another name", "no")
            if answer.lower() in {"n", "no"}:
                raise typer.Abort
            if answer.lower() in {"y", "yes"}:
                self._replaced = True
                break
            file = Path(answer)
        return file

    def _more(
        self, ask: AskOperator, given: Mapping[str, str], flag: str, question: str, otherwise: str
    ) -> Mapping[str, str]:
        """The values with the answer to a question, which is asked until it can be taken. What Enter stands for is not
        set."""
        while (answer := ask(question, otherwise)) != otherwise:
            try:
                _judged(_UNTRIED, {**given, flag: answer})
            except ConfigError as error:
                serve.say(str(error).splitlines(), "console", "error")
            else:
                return {**given, flag: answer}
        return given

    def _try_nodes(self, nodes: Sequence[str], chain: str | None, shard: int | None) -> _Chosen | None:
        """What is found of the nodes that are given, or else asked for until one can be used; None where none can.
        Raises ConfigError."""
        while True:
            texts = nodes or (self._ask(_WHICH_NODES, "harmony").split() if self._ask else ())
            try:
                chosen = self._tried(texts, chain, shard)
            except ConfigError as error:
                if nodes:
                    raise
                serve.say(str(error).splitlines(), "console", "error")
                continue
            if chosen is not None or nodes:
                return chosen

    def _tried(self, texts: Sequence[str], chain: str | None, shard: int | None) -> _Chosen | None:
        """Ask nodes what they are, and show it. Returns None where it is not known what they serve. Raises
        ConfigError."""
        from rpcaccel.cli.findings import FINDINGS, document, hints
        from rpcaccel.controlplane.nodes.discovery import is_open, try_nodes

        found = asyncio.run(try_nodes(texts, chain, shard))
        show(Listing(FINDINGS, [document(one, {}) for one in found.nodes], named=2), *hints(found.nodes))
        if any("://" in text for text in texts) and is_open(chain, shard) and all(one.trouble for one in found.nodes):
            fault = "no node answers as it should, so what they serve is not known: --chain and --shard say it"
            serve.say([f"nothing is written: {fault}"], "console", "error")
            return None
        serve.say(found.notes, "console", "warning")
        return self._kept(found)

    def _kept(self, found: NodesFound) -> _Chosen | None:
        """The networks without the wrong nodes that the operator leaves out; None where no node is left."""
        wrong = [one for one in found.nodes if one.trouble]
        out = set()
        for one in wrong if self._ask is not None else ():
            said = f"{one.network}/{one.node} is wrong: {one.trouble}. Write it all the same?"
            if self._ask is not None and self._ask(said, "no").lower() not in {"y", "yes"}:
                out.add((one.network, one.node))
        networks = {}
        for name, network in found.networks.items():
            if nodes := [node for node in network["nodes"] if (name, node["id"]) not in out]:
                networks[name] = {**network, "nodes": nodes}
        if not networks:
            serve.say(["nothing is written: no node is left"], "console", "error")
            return None
        return _Chosen(networks, wrong)


def _judged(networks: Mapping[str, Any], given: Mapping[str, str]) -> Settings:
    """The settings of networks and flags. Raises ConfigError."""
    document: dict[str, Any] = {"networks": {name: dict(network) for name, network in networks.items()}}
    for flag, value in given.items():
        put(document, options.PATHS[flag], value)
    from rpcaccel.controlplane.settings.hindrances import hindrances

    settings = validate(document, {options.PATHS[flag]: f"from {flag}" for flag in given}, hindrances)
    if isinstance(settings, list):
        raise ConfigError(settings)
    return settings


def _write(settings: Settings, file: Path, *, anew: bool) -> None:
    """Write the configuration, and say what comes next; with `anew`, no file is replaced. Raises ConfigError."""
    from rpcaccel.controlplane.settings.config_file import FIRST_TITLE, holds_secret, to_toml
    from rpcaccel.controlplane.settings.kept_file import EVERYONE_READS, OWNER_ALONE, write_whole

    named = shlex.quote(str(file))
    text = to_toml(settings, FIRST_TITLE.format(file=named), revealed=tuple(Settings.model_fields), suggest=True)
    secret = holds_secret(settings)
    try:
        write_whole(file, text.encode(errors="backslashreplace"), OWNER_ALONE if secret else EVERYONE_READS, anew=anew)
    except OSError as error:
        came = "is there now: it came while nodes were asked; --force replaces it"
        why = came if error.errno == errno.EEXIST else f"cannot be written: {reason_of(error)}"
        raise ConfigError([Fault(str(file), "", why)]) from None
    served = ", ".join(f"{name} ({plural(len(one.nodes), 'node')})" for name, one in settings.networks.items())
    alone = "; it may hold keys, and only you may read it" if secret else ""
    show(f"{file} is written: {served}{alone}", "", "Next:", f"  rpcaccel serve --config {named}")
    if parse_listen(settings.admin.listen).port:
        show(f"  {serve.page_url(settings, settings.admin.listen)}  the page, while it serves")
