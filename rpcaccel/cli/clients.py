"""`rpcaccel clients`: who calls a running proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from rpcaccel.cli import admin_client, progress_bar
from rpcaccel.core.wire.printable import printable

if TYPE_CHECKING:
    from rich.table import Table


def clients(admin: admin_client.Admin = admin_client.DEFAULT, as_json: admin_client.AsJson = False) -> int:
    """List who calls a running proxy: holders of API keys, and `anonymous` for all others; calls, and what was refused.

    Examples:
    rpcaccel clients
    rpcaccel clients --admin 127.0.0.1:8889 --json
    """
    found = admin_client.ask(admin, "GET", "/api/v1/clients")
    if as_json:
        admin_client.show_json(found)
        return 0
    if not found["clients"]:
        typer.echo("nobody is counted: there are no API keys, and callers without one have no limits")
        return 0
    from rpcaccel.bench.report import terminal_table

    terminal_table.show(table(found["clients"]), progress_bar.console())
    return 0


def table(listed: list[dict[str, Any]]) -> Table:
    """A table with a row for each client."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold")
    made.add_column("client")
    for heading in ("calls", "a second", "in flight", "refused", "last call"):
        made.add_column(heading, justify="right")
    made.add_column("refused by")
    for client in listed:
        made.add_row(*(Text(cell) for cell in _cells(client)))
    return made


def _cells(client: dict[str, Any]) -> tuple[str, ...]:
    rate, seen = client["calls_per_second"], client["seen"]
    refused = ", ".join(f"{limit}: {count}" for limit, count in client["limited"].items())
    return (
        printable(client["name"]) + ("" if client["enabled"] else " (disabled)"),
        str(client["calls_total"]),
        "–" if rate is None else f"{rate:.3g}",
        str(client["in_flight"]),
        str(client["limited_total"]),
        "never" if seen is None else f"{seen:.0f} s ago",
        refused,
    )
