"""`rpcaccel check`: is the configuration right, and is every node what it should be?"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rpcaccel.cli import admin_client, banner, options, terminal
from rpcaccel.cli.terminal import TableColumn, right
from rpcaccel.core.wire.printable import printable

if TYPE_CHECKING:
    from rpcaccel.cli.probe import Finding
    from rpcaccel.config.model import Settings
    from rpcaccel.core.heads.proof import Proof

    Proofs = dict[tuple[str, str], Proof]


def check(
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="CONFIG|URL", envvar="RPCACCEL_NODES", help="A TOML file, or nodes."),
    ] = None,
    config: options.ConfigFile = None,
    chain: options.ChainName = None,
    shard: options.Shard = None,
    deep: Annotated[bool, typer.Option("--deep", help="Prove every node by some 100 calls: takes up to 40 s.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of the file and exit.")] = False,
    reference: Annotated[
        bool, typer.Option("--reference", help="Print a page with every key of the file, in Markdown, and exit.")
    ] = False,
    as_json: admin_client.AsJson = False,
) -> int:
    """Judge a configuration as `serve` does, then ask every node for chain id, blocks 0 and 1, head, latency and role,
    and the WebSocket that is named for it (`ws`) for the same chain and new heads.

    With --deep each right node is proved as one that is added to a running proxy: how far back it has state and logs,
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

        typer.echo(json.dumps(made.schema(), indent=2))
        return 0
    if reference:
        typer.echo(_reference(), nl=False)
        return 0
    urls, files = split(what or ())
    if files and config and str(config) == os.environ.get("RPCACCEL_CONFIG"):
        config = None  # a file on the command line wins over the environment
    if len(files) > (0 if config else 1):
        raise typer.BadParameter("one configuration file, please; node URLs begin with http:// or https://")
    file = Path(files[0]) if files else config
    source = options.source(urls, file, chain, shard)
    banner.say(source.notes, "console", "warning")
    settings = options.judged_from(source).settings
    findings, proofs = asyncio.run(_ask_all(settings, deep=deep))
    documents = [document(finding, proofs) for finding in findings]
    if as_json:
        terminal.show_json({"nodes": documents})
    else:
        terminal.show(FINDINGS, documents, named=2)
        _print_proofs(proofs)
    return 1 if any(finding.trouble for finding in findings) else 0


def _reference() -> str:
    """The page of every key, as docs/settings.md holds it."""
    from rpcaccel.config.schema import page
    from rpcaccel.controlplane.settings.ledger import OF_A_WORKER, OF_THE_PROGRAM

    flags = {".".join(path): flag for flag, path in options.PATHS.items()}
    return page(restart=OF_THE_PROGRAM, new_workers=OF_A_WORKER, flags=flags)


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The node URLs among the arguments, and the others, which can only be files."""
    urls = [argument for argument in arguments if "://" in argument]
    return urls, [argument for argument in arguments if "://" not in argument]


async def _ask_all(settings: Settings, *, deep: bool) -> tuple[list[Finding], Proofs]:
    from rpcaccel.cli.probe import probe_network

    networks = settings.networks
    found = await asyncio.gather(*(probe_network(name, network) for name, network in networks.items()))
    proofs: Proofs = {}
    if deep:
        from rpcaccel.cli.proofs import prove_network

        pairs = zip(networks.values(), found, strict=True)
        proved = await asyncio.gather(*(prove_network(network, findings) for network, findings in pairs))
        proofs = {(name, node): proof for name, of in zip(networks, proved, strict=True) for node, proof in of.items()}
    return [finding for findings in found for finding in findings], proofs


def document(finding: Finding, proofs: Proofs) -> dict[str, Any]:
    """A finding for programs: what is not known is null."""
    from msgspec import structs, to_builtins

    from rpcaccel.controlplane.stats.summaries import proof_document

    found = structs.asdict(finding)
    unknown: dict[str, Any] = {name: None for name in ("chain_id", "head", "latency", "shard") if found[name] < 0}
    unknown["websocket"] = finding.websocket or None
    unknown["proof"] = to_builtins(proof_document(proofs.get((finding.network, finding.node))))
    return found | unknown | {"behind": finding.behind if finding.head >= 0 else None, "right": not finding.trouble}


FINDINGS = (
    TableColumn("network"),
    TableColumn("node"),
    TableColumn("address", "url"),
    right("chain id", "chain_id"),
    *map(right, ("head", "behind")),
    right("latency", lambda finding: terminal.milliseconds(finding["latency"])),
    TableColumn("role", lambda finding: finding["role"] or "–"),
    TableColumn("WebSocket", lambda finding: {None: "–", "right": "right"}.get(finding["websocket"], "wrong")),
    TableColumn(
        "verdict",
        lambda finding: finding["trouble"] or "right",
        style=lambda finding: "bold red" if finding["trouble"] else "green",
    ),
)
"""The columns of `rpcaccel check`; a row is a `document`."""


def _print_proofs(proofs: Proofs) -> None:
    if not proofs:
        return
    from rpcaccel.cli.proofs import PROOFS, remarks

    terminal.show(PROOFS, list(proofs.items()), named=2, title="What calls in the shadow showed")
    for remark in remarks(proofs):
        typer.echo(printable(remark))
