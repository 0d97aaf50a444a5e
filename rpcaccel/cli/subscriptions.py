"""`rpcaccel subscriptions`: what clients of a running proxy subscribe to, and how soon they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from rpcaccel.cli import admin_client, progress_bar
from rpcaccel.core.wire.printable import printable

if TYPE_CHECKING:
    from rich.table import Table


def subscriptions(admin: admin_client.Admin = admin_client.DEFAULT, as_json: admin_client.AsJson = False) -> int:
    """List the subscriptions of a running proxy by network: how many, notifications a second and how late they are,
    blocks filled in, subscriptions resumed, connections closed and why.

    Examples:
    rpcaccel subscriptions
    rpcaccel subscriptions --admin 127.0.0.1:8889 --json
    """
    overview = admin_client.ask(admin, "GET", "/api/v1/overview")
    found = {name: overview[name] for name in ("websockets", "subscriptions")}
    if as_json:
        admin_client.show_json(found)
        return 0
    many = f"{found['websockets']} WebSocket{'' if found['websockets'] == 1 else 's'} open"
    if not found["subscriptions"]:
        typer.echo(f"nobody subscribes, and nobody did since the start; {many}")
        return 0
    from rpcaccel.bench.report import terminal_table

    typer.echo(f"{many}; sent a second: the mean of the last 10 s; lateness: of the last minute's notifications")
    terminal_table.show(table(found["subscriptions"]), progress_bar.console())
    return 0


def table(listed: list[dict[str, Any]]) -> Table:
    """A table with a row for each network."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("network", "subscriptions"):
        made.add_column(heading)
    for heading in ("topics", "sent a second", "lateness p50", "p99", "filled in", "abandoned", "resumed", "replayed"):
        made.add_column(heading, justify="right")
    made.add_column("closed")
    for one in listed:
        made.add_row(*(Text(printable(cell)) for cell in _cells(one)))
    return made


def _cells(one: dict[str, Any]) -> tuple[str, ...]:
    sent, late = one["notifications_per_second"], one["lateness"] or {}
    return (
        one["network"],
        _counts(one["kinds"]),
        str(one["topics"]),
        "–" if sent is None else f"{sent:.3g}",
        *("–" if late.get(name) is None else f"{late[name] * 1000:.1f} ms" for name in ("p50", "p99")),
        *(str(one[name]) for name in ("filled", "abandoned", "resumed", "replayed")),
        _counts(one["cut"]),
    )


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in counts.items()) or "–"
