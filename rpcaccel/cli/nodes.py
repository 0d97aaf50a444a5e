"""`rpcaccel nodes`, `weight` and `drain`: the nodes of a running proxy, seen and changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rpcaccel.cli import admin_client, progress_bar
from rpcaccel.core.wire.printable import printable

if TYPE_CHECKING:
    from rich.table import Table

Node = Annotated[str, typer.Argument(metavar="NODE", help="Its id, or NETWORK/ID when several networks have one.")]


def nodes(admin: admin_client.Admin = admin_client.DEFAULT, as_json: admin_client.AsJson = False) -> int:
    """List the nodes of a running proxy: state, head, weight, share of the traffic, latency.

    Examples:
    rpcaccel nodes
    rpcaccel nodes --admin 127.0.0.1:8889 --json
    """
    found = admin_client.ask(admin, "GET", "/api/v1/nodes")
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return 0
    from rpcaccel.bench.report import terminal_table

    terminal_table.show(table(found["nodes"]), progress_bar.console(), named=2)
    return 0


def weight(
    node: Node,
    number: Annotated[int, typer.Argument(metavar="N", min=0, max=1000, help="Share of the calls; 0 takes none.")],
    admin: admin_client.Admin = admin_client.DEFAULT,
) -> int:
    """Give a node of a running proxy another weight, with effect on the next call.

    Examples:
    rpcaccel weight a 5
    rpcaccel weight harmony-s0/a 0 --admin 127.0.0.1:8889
    """
    return _change(admin, node, {"weight": number})


def drain(
    node: Node,
    end: Annotated[bool, typer.Option("--end", help="Take calls again.")] = False,
    admin: admin_client.Admin = admin_client.DEFAULT,
) -> int:
    """Let a node of a running proxy finish what it has and take no new calls; --end lets it take calls again.

    Examples:
    rpcaccel drain a
    rpcaccel drain a --end
    """
    return _change(admin, node, {"drain": not end})


def _change(admin: str, node: str, change: dict[str, Any]) -> int:
    settings = admin_client.ask(admin, "GET", "/api/v1/settings")
    network, name = _place(settings["document"]["networks"], node)
    patch = {"networks": {network: {"nodes": {name: change}}}}
    done = admin_client.ask(admin, "PATCH", "/api/v1/settings", json.dumps(patch), revision=settings["revision"])
    typer.echo(admin_client.told(done))
    return 0


def _place(networks: dict[str, Any], node: str) -> tuple[str, str]:
    """Network and id of a node. Raises RemoteError when there is none, or more than one."""
    found = [
        (network, name)
        for network, settings in networks.items()
        for name in settings["nodes"]
        if node in (name, f"{network}/{name}")
    ]
    if len(found) == 1:
        return found[0]
    there = ", ".join(f"{network}/{name}" for network, settings in networks.items() for name in settings["nodes"])
    raise admin_client.RemoteError(f"{'several nodes are' if found else 'no node is'} called {node}; there is: {there}")


def table(listed: list[dict[str, Any]]) -> Table:
    """A table with a row for each node, and another row with the reason of its state where there is one."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("network", "node", "address", "state"):
        made.add_column(heading)
    for heading in ("head", "weight", "wanted", "got", "p50", "in flight"):
        made.add_column(heading, justify="right")
    for node in listed:
        made.add_row(*(Text(cell) for cell in _cells(node)))  # Text: [fd00::1] is no markup
        if node["why"]:
            made.add_row("", "", "", Text(f"  {printable(node['why'])}"))
    return made


def _cells(node: dict[str, Any]) -> tuple[str, ...]:
    return (
        node["network"],
        node["id"],
        node["address"],
        node["state"],
        _number(node["head"]),
        str(node["weight"]),
        _wanted(node),
        _percent(node["share_got"]),
        _milliseconds((node.get("latency") or {}).get("p50")),
        _number(node.get("in_flight")),
    )


def _number(value: int | None) -> str:
    return "–" if value is None else str(value)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _wanted(node: dict[str, Any]) -> str:
    """The share that the weights ask for, with ~ where the balancer looks at more than weights."""
    share: float | None = node["share_wanted"]
    return f"{'~' if share and node.get('share_aim') else ''}{_percent(share)}"


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1000:.1f} ms"
