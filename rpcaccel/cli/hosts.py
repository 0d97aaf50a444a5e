"""`rpcaccel hosts`: the hosts that share one Redis, and who of them is behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from rpcaccel.cli import admin_client, progress_bar
from rpcaccel.core.wire.printable import printable

if TYPE_CHECKING:
    from rich.table import Table


def hosts(admin: admin_client.Admin = admin_client.DEFAULT, as_json: admin_client.AsJson = False) -> int:
    """List the hosts that share one Redis, as one of them knows them: calls, hit ratio, version, and who is behind.

    Examples:
    rpcaccel hosts
    rpcaccel hosts --admin 127.0.0.1:8889 --json
    """
    found = admin_client.ask(admin, "GET", "/api/v1/hosts")
    if as_json:
        admin_client.show_json(found)
        return 0
    from rpcaccel.bench.report import terminal_table

    terminal_table.show(table(found), progress_bar.console())
    for line in remarks(found):
        typer.echo(line)
    return 0


def table(found: dict[str, Any]) -> Table:
    """A table with a row for each host, and one for all of them together."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("host", "state"):
        made.add_column(heading)
    for heading in ("heard", "calls/s", "hits", "errors", "workers", "settings", "blocks behind"):
        made.add_column(heading, justify="right")
    made.add_column("version")
    for host in found["hosts"]:
        made.add_row(*(Text(cell) for cell in _cells(host)))
    if len(found["hosts"]) > 1:
        made.add_row(*(Text(cell) for cell in _together(found["together"])), style="bold")
    return made


def remarks(found: dict[str, Any]) -> list[str]:
    """Sentences below the table: about the hosts that are not as they should be, and about what is not known."""
    said = [f"{printable(host['name'])}: {printable(host['why'])}" for host in found["hosts"] if host["why"]]
    if found["note"]:
        said.append(printable(found["note"]))
    if not found["shared"]:
        said.append("no other hosts are known: the settings name no Redis to share with them")
    if found["unreadable"]:
        said.append(f"{found['unreadable']} entries in Redis are not documents of hosts, and are not shown")
    return said


def _cells(host: dict[str, Any]) -> tuple[str, ...]:
    lags = [head["lag"] for head in host["heads"]]
    return (
        printable(host["name"]) + (" (here)" if host["here"] else ""),
        host["state"],
        "now" if host["here"] else f"{host['heard']:.0f} s ago",
        _figure(host["calls_per_second"]),
        _percent(host["hit_ratio"]),
        _percent(host["error_ratio"]),
        str(host["workers"]),
        str(host["revision"]),
        str(max(lags)) if lags else "–",
        printable(host["version"]),
    )


def _together(together: dict[str, Any]) -> tuple[str, ...]:
    figures = (
        _figure(together["calls_per_second"]),
        _percent(together["hit_ratio"]),
        _percent(together["error_ratio"]),
    )
    return (f"{together['hosts']} together", "", "", *figures, str(together["workers"]), "", "", "")


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _percent(ratio: float | None) -> str:
    return "–" if ratio is None else f"{100 * ratio:.3g} %"
