"""What `rpcaccel nodes --report` prints: a table for each network and the suggested weights; and applying them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import quote

import typer

from rpcaccel.cli import admin_client, terminal
from rpcaccel.cli.terminal import TableColumn, right
from rpcaccel.core.wire.printable import printable

REPORT = "/api/v1/nodes/report"
_CASES = 10
"""Cases of disagreement of a network that are printed."""
_NAMED = 4
"""Kinds of errors that are named beside their sum."""


def show(admin: str, over: str, *, as_json: bool) -> None:
    """Print the report over an hour or a day. Raises RemoteError."""
    found = admin_client.ask(admin, "GET", f"{REPORT}?over={over}")
    if as_json:
        terminal.show_json(found)
        return
    for network in found["networks"]:
        nodes = [node for node in found["nodes"] if node["network"] == network["network"]]
        terminal.show(columns(found["currency"]), nodes, title=network["network"])
        for line in said(network, nodes):
            typer.echo(line)
        for line in differed([case for case in found["cases"] if case["network"] == network["network"]]):
            typer.echo(line)
        typer.echo()


def differed(cases: list[dict[str, Any]]) -> Iterator[str]:
    """The newest cases in which nodes gave different answers; --json has all of them, with the answers."""
    if cases:
        yield f"  nodes differed in {len(cases)} answers that are kept, in the last of them:"
    for case in cases[:_CASES]:
        at = datetime.fromtimestamp(case["at"]).astimezone().isoformat(sep=" ", timespec="seconds")
        who = f"others contradict {', '.join(case['minority'])}" if case["minority"] else "nobody could decide"
        block = "" if case["block"] is None else f", block {case['block']}"
        yield printable(f"  {at} {case['method']}{block}: {who}: {case['difference']}")


def apply(admin: str, *, yes: bool, as_json: bool) -> int:
    """Apply the suggested weights of each network that has some, after asking. Raises RemoteError."""
    revision = admin_client.ask(admin, "GET", "/api/v1/settings")["revision"]  # a change made meanwhile is not undone
    found = admin_client.ask(admin, "GET", f"{REPORT}?over=hour")
    done: list[dict[str, Any]] = []
    for network in found["networks"]:
        name = network["network"]
        nodes = [node for node in found["nodes"] if node["network"] == name]
        weights = {node["id"]: node["suggested_weight"]["value"] for node in nodes if node["suggested_weight"]}
        if not weights:
            typer.echo(printable(f"{name}: {network['why']}"), err=as_json)
            continue
        question = "\n".join([*said(network, nodes), f"Apply these weights to {name}?"])
        if not yes and not admin_client.agreed(question, "nothing is changed"):
            continue
        path = f"/api/v1/networks/{quote(name, safe='')}/weights"
        made = admin_client.ask(admin, "POST", path, json.dumps({"weights": weights}), revision=revision)
        revision = made["revision"]
        done.append({"network": name, **admin_client.outcome(made)})
        if not as_json:
            admin_client.show_change(made, as_json=False)
    if as_json:
        terminal.show_json({"applied": done})
    return 0


def said(network: dict[str, Any], nodes: list[dict[str, Any]]) -> Iterator[str]:
    """The suggested weights of a network with their reasons."""
    yield printable(f"{network['network']}: {network['why']}")
    for node in nodes:
        advice = node["suggested_weight"]
        if advice:
            yield printable(f"  {node['id']}: weight {node['weight']} -> {advice['value']}: {advice['why']}")


def columns(currency: str) -> tuple[TableColumn, ...]:
    """The columns of the nodes of one network, with costs in `currency`."""
    return (
        TableColumn("node", "id"),
        right("weight"),
        right("suggested", lambda node: terminal.number((node["suggested_weight"] or {}).get("value"))),
        right("calls", lambda node: f"{node['calls']:,}"),
        right("share", lambda node: terminal.percent(node["share"])),
        right("p50", lambda node: terminal.milliseconds(node["latency"]["p50"])),
        right("p99", lambda node: terminal.milliseconds(node["latency"]["p99"])),
        right("others x", lambda node: _spread(node["latency"])),
        right("errors", lambda node: _errors(node["errors"])),
        right("lost hedges", "overtaken"),
        right("behind", lambda node: _behind(node["lag"])),
        right("agreement", lambda node: _agreement(node["agreement"])),
        TableColumn("quota", lambda node: ", ".join(map(_quota, node["quota"]))),
        TableColumn("cost", lambda node: "–" if node["cost"] is None else f"{node['cost']:,.2f} {currency}"),
    )


def _spread(latency: dict[str, Any]) -> str:
    """ "3.1 (2.9–3.3)": how many times as long as the others for the same methods, with the spread."""
    if latency["ratio"] is None:
        return "–"
    return f"{latency['ratio']:.2f} ({latency['low']:.2f}–{latency['high']:.2f})"


def _behind(lag: dict[str, Any]) -> str:
    """The share of the time, and the blocks that it lacked for all but 1 % of the time."""
    return "–" if lag["behind_share"] is None else f"{terminal.percent(lag['behind_share'])} (p99 {lag['p99']})"


def _errors(errors: dict[str, int]) -> str:
    if not errors:
        return "0"
    kinds = sorted(errors.items(), key=lambda item: -item[1])
    named = ", ".join(f"{kind} {count}" for kind, count in kinds[:_NAMED])
    return f"{sum(errors.values())} ({named}{', …' if len(kinds) > _NAMED else ''})"


def _agreement(agreement: dict[str, int]) -> str:
    """ "2 of 512 wrong, 1 undecided", and whether that is more than chance explains."""
    if not agreement["compared"] and not agreement["false_hashes"]:
        return "–"
    words = [f"{agreement['minority']} of {agreement['compared']} wrong"]
    if agreement["undecided"]:
        words.append(f"{agreement['undecided']} undecided")
    if agreement["false_hashes"]:
        words.append(f"{agreement['false_hashes']} false hashes")
    if agreement["suspect"]:
        words.append("suspected")
    return ", ".join(words)


def _quota(quota: dict[str, Any]) -> str:
    used, then = quota["used"] / quota["limit"], quota["projected"] / quota["limit"]
    return f"{quota['window']} {used:.0%}, {then:.0%} at its end"
