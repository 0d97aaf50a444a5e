"""The options that several commands share, and how settings are loaded by them."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from rpcaccel import chains
from rpcaccel.cli import completion
from rpcaccel.config.errors import ConfigError, Fault
from rpcaccel.config.load import Flag, Loaded, UrlNetwork, load_told, node_flags
from rpcaccel.config.model import Settings
from rpcaccel.config.validate import NO_NETWORK, JudgeSettings, Misfit
from rpcaccel.config.value_types import NAME, NODE_TEXT, ids_once, parse_duration

NodeUrls = Annotated[
    list[str] | None,
    typer.Argument(
        metavar=f"{NODE_TEXT}|CHAIN",
        envvar="RPCACCEL_NODES",
        help="Nodes to serve, without a file; or chains, whose public endpoints are served.",
        autocompletion=completion.chain_names,
    ),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", envvar="RPCACCEL_CONFIG", metavar="FILE", help="A TOML file.")
]
ChainName = Annotated[
    str | None,
    typer.Option(
        envvar="RPCACCEL_CHAIN",
        metavar="NAME",
        help=f"Chain of the URLs: auto (default: they are asked), {', '.join(chains.names())}.",
    ),
]
Shard = Annotated[
    int | None,
    typer.Option(envvar="RPCACCEL_SHARD", metavar="N", help="Shard of the URLs; they are asked when not given."),
]
ListenAddress = Annotated[
    str | None, typer.Option("--listen", "-l", metavar="HOST:PORT", help="Where calls are taken.")
]
TlsCert = Annotated[
    str | None, typer.Option(metavar="FILE", help="Take calls over HTTPS and WSS, with this certificate (PEM).")
]
TlsKey = Annotated[str | None, typer.Option(metavar="FILE", help="The key of --tls-cert (PEM).")]
AdminListen = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where the page and /metrics are.")]
Redis = Annotated[str | None, typer.Option(metavar="URL", help="Redis, a cache tier that hosts share.")]
BalancerName = Annotated[str | None, typer.Option(metavar="NAME", help="How a node is chosen, in every network.")]
Memory = Annotated[str | None, typer.Option(metavar="SIZE", help='The memory cache, such as "256MB".')]
Disk = Annotated[
    str | None, typer.Option(metavar="FOLDER", help="Keeps final answers on disk, so that they outlive a restart.")
]
DiskSize = Annotated[str | None, typer.Option(metavar="SIZE", help='What the folder may take, such as "50GB".')]
WorkerNumber = Annotated[
    str | None, typer.Option(metavar="N|auto", help="Processes that serve calls; auto: one a processor.")
]
State = Annotated[
    Path | None,
    typer.Option(
        envvar="RPCACCEL_STATE",
        metavar="FILE",
        help="Where changes made at run time are kept; beside the config file when there is one.",
    ),
]


class NodeSource(NamedTuple):
    """The sources of networks and nodes: the command line, and a config file."""

    networks: Sequence[UrlNetwork] = ()
    """The networks of the command line."""
    file: Path | None = None
    notes: Sequence[str] = ()
    """Sentences about nodes that did not answer when they were asked for their chain."""


def chain_meant(chain: str | None) -> str | None:
    """The chain that --chain names, which may be written in capitals; None where the nodes are to be asked."""
    return None if chain is None or chain.lower() == AUTO else chain.lower()


def source(
    nodes: Sequence[str], file: Path | None, chain: str | None, shard: int | None, **values: str | None
) -> NodeSource:
    """The sources that the arguments of a command name. NodeUrls are asked for their chain and shard where `chain` and
    `shard` do not name them; a note tells of each node that did not answer. Names of chains stand for the public
    endpoints of their tables, which are not asked. Raises ConfigError.
    """
    chain = chain_meant(chain)
    if not nodes:
        if chain is not None or shard is not None:
            fault = "--chain and --shard say what the node URLs of the command line serve; none given"
            raise ConfigError([Fault("", "", fault)])
        return NodeSource((), file)
    from rpcaccel.controlplane.nodes import discovery

    if any("://" not in node for node in nodes):
        found = discovery.public(nodes, chain, shard)
    elif discovery.is_open(chain, shard):
        # Ids are unique within a network, and which nodes make a network is not known yet.
        found = discovery.assumed(ids_once(nodes), chain, shard)
        _refuse_before_asking(NodeSource(found.networks, file), **values)
        found = asyncio.run(discovery.discover(nodes, chain, shard))
    else:
        found = discovery.assumed(nodes, chain, shard)
    return NodeSource(found.networks, file, tuple(found.notes))


def _refuse_before_asking(source: NodeSource, **values: str | None) -> None:
    """Raise ConfigError for faults that do not depend on what the nodes will answer. Settings of a network that is
    named by what its nodes answer are judged later."""
    own = tuple(f"networks.{network.name}." for network in source.networks)
    try:
        settings_from(source, **values)
    except ConfigError as error:
        if any(fault.path.startswith(own) or not fault.path.startswith("networks.") for fault in error.faults):
            raise


AUTO = "auto"
"""The chain and the shard of node URLs are those that the nodes tell."""
PATHS: dict[str, tuple[str, ...]] = {
    "--listen": ("listen",),
    "--tls-cert": ("tls_cert",),
    "--tls-key": ("tls_key",),
    "--admin": ("admin", "listen"),
    "--redis": ("redis", "url"),
    "--balancer": ("networks", "*", "balancer"),
    "--memory": ("memory", "size"),
    "--disk": ("disk", "path"),
    "--disk-size": ("disk", "size"),
    "--workers": ("workers",),
}
"""The path of the setting that each flag names; `*` is every network."""


def settings_from(source: NodeSource, **values: str | int | None) -> Settings:
    """The settings of file, environment and flags (by name: listen=, admin=, redis=…). Raises ConfigError."""
    return _loaded(source, values).settings


def judged_from(
    source: NodeSource,
    besides: JudgeSettings | None = None,
    *,
    networks_later: bool = False,
    **values: str | int | None,
) -> Loaded:
    """The settings with their sources, checked against this machine and Redis, and by `besides`, as well.
    `networks_later`: there may be no network yet. Raises ConfigError."""
    from rpcaccel.controlplane.settings.hindrances import hindrances

    def judge(found: Settings) -> Iterable[Misfit]:
        return [*(besides(found) if besides else ()), *hindrances(found)]

    return _loaded(source, values, judge, networks_later=networks_later)


def _loaded(
    source: NodeSource,
    values: Mapping[str, str | int | None],
    judge: JudgeSettings = lambda _settings: (),
    *,
    networks_later: bool = False,
) -> Loaded:
    given = {f"--{name.replace('_', '-')}": value for name, value in values.items() if value is not None}
    flags = [Flag(PATHS[name], value, name) for name, value in given.items()]
    flags = [*node_flags(source.networks), *flags]
    try:
        return load_told(source.file, environ=os.environ, flags=flags, judge=judge, networks_later=networks_later)
    except ConfigError as error:
        raise _with_a_way_out(error) from None


def seconds_of(text: str, flag: str, *, some: bool = False) -> float:
    """The seconds of a duration that a flag gives; with `some`, it must be above 0. Raises typer.BadParameter."""
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(f"{flag}: found {text!r}, expected {error}") from None
    if some and not found:
        raise typer.BadParameter(f"{flag}: found {text!r}, expected more than 0")
    return found


def table_header(table: str, name: str, example: str) -> str:
    """The first line of a named table of the config: "[clients.keys.my-dapp]". Raises typer.BadParameter."""
    if not re.fullmatch(NAME, name):
        expected = f"up to 64 small letters, digits, dots, dashes and underscores such as {example!r}"
        raise typer.BadParameter(f"NAME: found {name!r}, expected {expected}")
    return f'[{table}."{name}"]' if "." in name else f"[{table}.{name}]"


def _with_a_way_out(error: ConfigError) -> ConfigError:
    """The error; where no nodes were given at all, with a hint at the command that needs none."""
    if all(fault.expected != NO_NETWORK for fault in error.faults):
        return error
    elsewhere = "to look around without nodes: rpcaccel demo; to write a first file: rpcaccel init"
    return ConfigError([*error.faults, Fault("", "", elsewhere)])
