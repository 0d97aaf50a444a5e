"""`rpcaccel purge`: remove kept answers from a running proxy, in every process and every tier."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from rpcaccel.cli import admin_client


def purge(
    network: Annotated[str, typer.Option(metavar="NAME", help="Everything of this network.")] = "",
    method: Annotated[str, typer.Option(metavar="NAME", help="Everything of this method.")] = "",
    key: Annotated[str, typer.Option(metavar="KEY", help="One key, as `rpcaccel explain` shows it.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Everything.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count only.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    admin: admin_client.Admin = admin_client.DEFAULT,
    as_json: admin_client.AsJson = False,
) -> int:
    """Remove kept answers: of a network, a method, both together, one key, or all. Says first how many they are.

    Examples:
    rpcaccel purge --method hmyv2_getValidatorInformation --dry-run
    rpcaccel purge --network harmony-s0 --yes
    rpcaccel purge --all --admin 127.0.0.1:8889
    """
    if everything + bool(key) + bool(network or method) != 1:
        raise typer.BadParameter("say what: --all, or --key, or --network and --method or one of them")
    meant = {"network": network, "method": method, "key": key, "all": everything}
    counted = admin_client.post(admin, "/api/v1/purge", json.dumps({**meant, "dry_run": True}))
    if network and not counted["memory"] + counted["disk"] + counted["store"]:
        admin_client.known_network(admin, network)  # of one that was removed, something may be kept
    if dry_run or not (yes or admin_client.agreed(f"Remove {_amount(counted)}?", "nothing is removed")):
        _say(counted, f"{_amount(counted)} would be removed", as_json=as_json)
        return 0
    done = admin_client.post(admin, "/api/v1/purge", json.dumps(meant))
    _say(done, f"{_amount(done)} removed", as_json=as_json)
    return 0 if done["complete"] else 1


def _amount(counted: dict[str, Any]) -> str:
    memory, disk, store = counted["memory"], counted["disk"], counted["store"]
    return f"{memory} answer{'' if memory == 1 else 's'} in memory, {disk} on disk and {store} in Redis"


def _say(document: dict[str, Any], text: str, *, as_json: bool) -> None:
    if as_json:
        admin_client.show_json(document)
        return
    typer.echo(text)
    if not document["complete"]:
        typer.echo("rpcaccel: a worker, the disk or a Redis server did not answer: some may be left", err=True)
