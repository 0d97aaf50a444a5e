"""`rpcaccel check`: is the configuration right, and is every node what it should be?"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rpcaccel.cli import options, serve
from rpcaccel.cli.command import CommandResult, answers
from rpcaccel.cli.terminal import Listing, Printed
from rpcaccel.config.value_types import meant_by

if TYPE_CHECKING:
    from rpcaccel.cli.findings import Examinations
    from rpcaccel.config.model import Settings
    from rpcaccel.core.heads.examination import Examination
    from rpcaccel.core.heads.identity import Finding


@answers
def check(
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="CONFIG|URL|CHAIN", envvar="RPCACCEL_NODES", help="A TOML file, nodes, or a chain."),
    ] = None,
    config: options.ConfigFile = None,
    chain: options.ChainName = None,
    shard: options.Shard = None,
    deep: Annotated[bool, typer.Option("--deep", help="Examine every node by some 100 calls: up to 40 s.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of the file and exit.")] = False,
    reference: Annotated[
        bool, typer.Option("--reference", help="Print a page with every key of the file, in Markdown, and exit.")
    ] = False,
) -> CommandResult:
    """Judge a configuration as `serve` does, then ask every node for chain id, blocks 0 and 1, head, latency and role,
    and the WebSocket that is named for it (`ws`) for the same chain and new heads.

    With --deep each right node is examined as one that is added to a running proxy: how far back it has state and logs,
    the longest ranges and batches it takes, roles and traces, agreement with the other nodes, latency.

    Exit code 1 if a node is wrong (unreachable, of another chain or shard, far behind), 2 if the configuration is.

    Examples:
    rpcaccel check rpcaccel.toml
    rpcaccel check https://api.s0.t.hmny.io http://127.0.0.1:9500
    rpcaccel check rpcaccel.toml --json
    rpcaccel check rpcaccel.toml --deep
    rpcaccel check --schema > rpcaccel.schema.json
    rpcaccel check --reference | less
    """
    if schema:
        from rpcaccel.config import schema as made

        return CommandResult(made.schema())
    if reference:
        typer.echo(_reference(), nl=False)
        raise typer.Exit
    urls, files = split(what or ())
    if files and config and str(config) == os.environ.get("RPCACCEL_CONFIG"):
        config = None  # a file on the command line wins over the environment
    if len(files) > (0 if config else 1):
        raise typer.BadParameter("one configuration file, please; node URLs begin with http:// or https://")
    file = Path(files[0]) if files else config
    source = options.source(urls, file, chain, shard)
    serve.say(source.notes, "console", "warning")
    settings = options.judged_from(source).settings
    from rpcaccel.cli.findings import EXAMINATIONS, FINDINGS, document, hints, remarks

    findings, examinations = asyncio.run(_ask_all(settings, deep=deep))
    documents = [document(finding, examinations) for finding in findings]
    shown: list[Printed] = [Listing(FINDINGS, documents, named=2), *hints(findings)]
    if examinations:
        title = "What calls in the shadow showed"
        shown += [Listing(EXAMINATIONS, list(examinations.items()), named=2, title=title), *remarks(examinations)]
    return CommandResult({"nodes": documents}, shown, 1 if any(finding.trouble for finding in findings) else 0)


def _reference() -> str:
    """The page of every key, as docs/settings.md holds it."""
    from rpcaccel.config.schema import page
    from rpcaccel.controlplane.settings.ledger import OF_A_WORKER, OF_THE_PROGRAM

    flags = {".".join(path): flag for flag, path in options.PATHS.items()}
    return page(restart=OF_THE_PROGRAM, new_workers=OF_A_WORKER, flags=flags)


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What was meant for nodes and chains among the arguments, and the others, which can only be files. A file may have
    the name of a chain."""
    nodes = [one for one in arguments if "://" in one or (meant_by(one) and not Path(one).exists())]
    return nodes, [argument for argument in arguments if argument not in nodes]


async def _ask_all(settings: Settings, *, deep: bool) -> tuple[list[Finding], Examinations]:
    from rpcaccel.cli.findings import examine_network
    from rpcaccel.controlplane.nodes.discovery import probe_network

    networks = settings.networks
    found = await asyncio.gather(*(probe_network(name, network) for name, network in networks.items()))
    findings = [finding for findings in found for finding in findings]
    if not deep:
        return findings, {}
    examinations: dict[tuple[str, str], Examination] = {}
    examined = await asyncio.gather(*map(examine_network, networks.values(), found))
    for name, of_network in zip(networks, examined, strict=True):
        examinations |= {(name, node): examination for node, examination in of_network.items()}
    return findings, examinations
