"""`rpcaccel clients`, `subscriptions` and `hosts`: what a running proxy knows of them, as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from rpcaccel.cli import admin_client, terminal
from rpcaccel.cli.terminal import TableColumn, right
from rpcaccel.core.wire.printable import printable

CLIENTS = (
    TableColumn("client", lambda client: client["name"] + ("" if client["enabled"] else " (disabled)")),
    right("calls", "calls_total"),
    right("a second", lambda client: terminal.rate(client["calls_per_second"])),
    right("in flight", "in_flight"),
    right("refused", "limited_total"),
    right("last call", lambda client: "never" if client["seen"] is None else f"{client['seen']:.0f} s ago"),
    TableColumn("refused by", lambda client: terminal.counts(client["limited"])),
)
SUBSCRIPTIONS = (
    TableColumn("network"),
    TableColumn("subscriptions", lambda one: terminal.counts(one["kinds"])),
    right("topics"),
    right("sent a second", lambda one: terminal.rate(one["notifications_per_second"])),
    right("lateness p50", lambda one: terminal.milliseconds((one["lateness"] or {}).get("p50"))),
    right("p99", lambda one: terminal.milliseconds((one["lateness"] or {}).get("p99"))),
    right("filled in", "filled"),
    *map(right, ("abandoned", "resumed", "replayed")),
    TableColumn("closed", lambda one: terminal.counts(one["cut"])),
)
HOSTS = (
    TableColumn("host", lambda host: host["name"] + (" (here)" if host["here"] else "")),
    TableColumn("state"),
    right("heard", lambda host: "now" if host["here"] else f"{host['heard']:.0f} s ago"),
    right("calls/s", lambda host: terminal.rate(host["calls_per_second"])),
    right("hits", lambda host: terminal.percent(host["hit_ratio"])),
    right("errors", lambda host: terminal.percent(host["error_ratio"])),
    right("workers"),
    right("settings", "revision"),
    right("blocks behind", lambda host: terminal.number(max((head["lag"] for head in host["heads"]), default=None))),
    TableColumn("version"),
)


def clients(admin: admin_client.AdminAddress = admin_client.DEFAULT_ADMIN, as_json: admin_client.AsJson = False) -> int:
    """List who calls a running proxy: holders of API keys, and `anonymous` for all others; calls, and what was refused.

    Examples:
    rpcaccel clients
    rpcaccel clients --admin 127.0.0.1:8889 --json
    """
    found = admin_client.ask(admin, "GET", "/api/v1/clients")
    if as_json:
        terminal.show_json(found)
    elif found["clients"]:
        terminal.show(CLIENTS, found["clients"])
    else:
        typer.echo("nobody is counted: there are no API keys, and callers without one have no limits")
    return 0


def subscriptions(
    admin: admin_client.AdminAddress = admin_client.DEFAULT_ADMIN, as_json: admin_client.AsJson = False
) -> int:
    """List the subscriptions of a running proxy by network: how many, notifications a second and how late they are,
    blocks filled in, subscriptions resumed, connections closed and why.

    Examples:
    rpcaccel subscriptions
    rpcaccel subscriptions --admin 127.0.0.1:8889 --json
    """
    overview = admin_client.ask(admin, "GET", "/api/v1/overview")
    found = {name: overview[name] for name in ("websockets", "subscriptions")}
    opened = f"{terminal.plural(found['websockets'], 'WebSocket')} open"
    if as_json:
        terminal.show_json(found)
    elif found["subscriptions"]:
        typer.echo(f"{opened}; sent a second: the mean of the last 10 s; lateness: of the last minute's notifications")
        terminal.show(SUBSCRIPTIONS, found["subscriptions"])
    else:
        typer.echo(f"nobody subscribes, and nobody did since the start; {opened}")
    return 0


def hosts(admin: admin_client.AdminAddress = admin_client.DEFAULT_ADMIN, as_json: admin_client.AsJson = False) -> int:
    """List the hosts that share one Redis, as one of them knows them: calls, hit ratio, version, and who is behind.

    Examples:
    rpcaccel hosts
    rpcaccel hosts --admin 127.0.0.1:8889 --json
    """
    found = admin_client.ask(admin, "GET", "/api/v1/hosts")
    if as_json:
        terminal.show_json(found)
        return 0
    terminal.show(HOSTS, found["hosts"])
    for line in remarks(found):
        typer.echo(printable(line))
    return 0


def remarks(found: dict[str, Any]) -> Iterator[str]:
    """Sentences below the table of hosts: all of them together, those that are not well, and what is not known."""
    if len(found["hosts"]) > 1:
        sums = found["together"]
        figures = f"{terminal.rate(sums['calls_per_second'])} calls/s, {terminal.percent(sums['hit_ratio'])} hits"
        errors, workers = terminal.percent(sums["error_ratio"]), terminal.plural(sums["workers"], "worker")
        yield f"{sums['hosts']} together: {figures}, {errors} errors, {workers}"
    yield from (f"{host['name']}: {host['why']}" for host in found["hosts"] if host["why"])
    if found["note"]:
        yield found["note"]
    if not found["shared"]:
        yield "no other hosts are known: the settings name no Redis to share with them"
    if found["unreadable"]:
        yield f"{found['unreadable']} entries in Redis are not documents of hosts, and are not shown"
