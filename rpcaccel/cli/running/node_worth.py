"""What `rpcaccel nodes --report` prints: a table for each network and the suggested weights; and applying them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import typer

from rpcaccel.cli import terminal
from rpcaccel.cli.admin_client import AdminClient, RemoteError
from rpcaccel.cli.command import CommandResult, agreed, changed
from rpcaccel.cli.terminal import Listing, Printed, TableColumn, right
from rpcaccel.core.wire.printable import printable

_CASES = 10
"""Cases of disagreement of a network that are printed."""
_NAMED = 4
"""Kinds of errors that are named beside their sum."""


def report(proxy: AdminClient, over: str) -> CommandResult:
    """The report over an hour or a day. Raises RemoteError."""
    found = proxy.get(f"nodes/report?over={over}")
    return CommandResult(found, _shown(found))


def _shown(found: dict[str, Any]) -> Iterator[Printed]:
    for network in found["networks"]:
        name = network["network"]
        nodes = [node for node in found["nodes"] if node["network"] == name]
        yield Listing(columns(found["currency"]), nodes, title=name)
        yield from said(network, nodes)
        yield from differed([case for case in found["cases"] if case["network"] == name])
        yield ""


def differed(cases: list[dict[str, Any]]) -> Iterator[str]:
    """The newest cases in which nodes gave different answers, or a false one; --json has all, with the answers."""
    if cases:
        yield f"  {terminal.plural(len(cases), 'case')} of answers that differ or are false, the last of them:"
    for case in cases[:_CASES]:
        who = f"others contradict {', '.join(case['minority'])}" if case["minority"] else "nobody could decide"
        who = f"{case['minority'][0]} gave a false answer" if case["disproved"] else who
        block = "" if case["block"] is None else f", block {case['block']}"
        yield f"  {terminal.clock(case['at'])} {case['method']}{block}: {who}: {case['difference']}"


def apply(proxy: AdminClient, *, yes: bool) -> CommandResult:
    """Apply the suggested weights of each network that has some, after asking. Raises RemoteError."""
    revision = proxy.get("settings")["revision"]  # a change made meanwhile is not undone
    found = proxy.get("nodes/report?over=hour")
    done: list[dict[str, Any]] = []
    unchanged: dict[str, str] = {}
    shown: list[Printed] = []
    for network in found["networks"]:
        name = network["network"]
        nodes = [node for node in found["nodes"] if node["network"] == name]
        weights = {node["id"]: node["suggested_weight"]["value"] for node in nodes if node["suggested_weight"]}
        if not weights:
            unchanged[name] = network["why"]
            continue
        question = [*map(printable, said(network, nodes)), f"Apply these weights to {name}?"]
        try:
            if not yes and not agreed("\n".join(question), f"nothing {'further ' * bool(done)}is changed"):
                continue
            path = f"networks/{quote(name, safe='')}/weights"
            made = changed(proxy.change(path, {"weights": weights}, revision=revision, method="POST"))
        except (RemoteError, typer.Abort, KeyboardInterrupt):
            for line in shown:  # what was changed before stays changed
                typer.echo(printable(str(line)), err=True)
            raise
        else:
            revision = made.document["revision"]
            done.append({"network": name, **made.document})
            shown += made.shown or ()
    shown += [f"{name}: {why}" for name, why in unchanged.items()]
    return CommandResult({"applied": done, "unchanged": unchanged}, shown)


def said(network: dict[str, Any], nodes: list[dict[str, Any]]) -> Iterator[str]:
    """The suggested weights of a network with their reasons."""
    yield f"{network['network']}: {network['why']}"
    for node in nodes:
        advice = node["suggested_weight"]
        if advice:
            now, then = node["weight"], advice["value"]
            weight = f"stays {now}" if now == then else f"{now} -> {then}"
            yield f"  {node['id']}: weight {weight}: {advice['why']}"


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
        TableColumn("credits", _credits),
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
    """ "3 disproved, 2 of 512 wrong, 1 undecided", and whether that is more than chance explains."""
    words = [
        f"{agreement['disproved']} disproved" if agreement["disproved"] else "",
        f"{agreement['minority']} of {agreement['compared']} wrong" if agreement["compared"] else "",
        f"{agreement['undecided']} undecided" if agreement["undecided"] else "",
        f"{agreement['false_hashes']} false hashes" if agreement["false_hashes"] else "",
        "suspected" if agreement["suspect"] else "",
    ]
    return ", ".join(filter(None, words)) or "–"


def _credits(node: dict[str, Any]) -> str:
    """ "41,200 compute units"; nothing of a node without costs. A proxy of an older version tells of none."""
    credits = node.get("credits")
    return "–" if credits is None else f"{credits:,.0f} {node['unit']}"


def _quota(quota: dict[str, Any]) -> str:
    used, then = quota["used"] / quota["limit"], quota["projected"] / quota["limit"]
    return f"{quota['window']} {terminal.percent(used)}, {terminal.percent(then)} at its end"
