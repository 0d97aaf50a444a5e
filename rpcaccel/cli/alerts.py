"""`rpcaccel alerts`, `alerts test|silence|unsilence`: the webhooks of a running proxy, and what they are told of."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from rpcaccel.cli import admin_client, terminal
from rpcaccel.config.value_types import parse_duration
from rpcaccel.core.wire.printable import printable

if TYPE_CHECKING:
    from rich.table import Table

ALERTS = "/api/v1/alerts"
HOW = "set one with: rpcaccel settings set alerts.webhooks.NAME.url=https://…"
LONGEST = 2_592_000.0
"""Seconds of a silence at the most, as the admin API says it."""
TESTING = 75.0
"""Seconds: webhooks are tested at the same time, and each has a timeout of 60 s at the most."""

What = Annotated[
    str, typer.Argument(metavar="WHAT", help='A subject (network, NETWORK/NODE, …), an alert\'s id, or "all".')
]

alerts = typer.Typer(name="alerts", add_completion=False)


@alerts.callback(invoke_without_command=True)
def show(
    context: typer.Context,
    admin: admin_client.AdminAddress = admin_client.DEFAULT_ADMIN,
    as_json: admin_client.AsJson = False,
) -> int:
    """List the webhooks of a running proxy, the alerts of the moment and the silences.

    Examples:
    rpcaccel alerts
    rpcaccel alerts test ops
    rpcaccel alerts silence harmony-s0 --for 2h --reason "new disks"
    """
    if context.invoked_subcommand is not None:
        given = [name for name in ("admin", "as_json") if _given(context, name)]
        if given:
            raise typer.BadParameter(f"expected --admin and --json behind {context.invoked_subcommand}")
        return 0
    found = admin_client.ask(admin, "GET", ALERTS)
    if as_json:
        terminal.show_json(found)
        return 0
    _show(found)
    return 0


def _given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


@alerts.command(name="test")
def send_test(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the webhook; all of them if left out.")] = "",
    admin: admin_client.AdminAddress = admin_client.DEFAULT_ADMIN,
    as_json: admin_client.AsJson = False,
) -> int:
    """Send a test to a webhook, or to all, and tell what it answered. Exits 1 if one did not take it.

    Examples:
    rpcaccel alerts test
    rpcaccel alerts test ops --json
    """
    found = admin_client.ask(admin, "POST", f"{ALERTS}/test", json.dumps({"webhook": name}), patience=TESTING)
    if as_json:
        terminal.show_json(found)
    elif not found["tests"]:
        typer.echo(f"there is no webhook; {HOW}")
    else:
        for one in found["tests"]:
            typer.echo(_tested(one))
    return 0 if all(one["ok"] for one in found["tests"]) else 1


@alerts.command()
def silence(
    what: What,
    duration: Annotated[str, typer.Option("--for", metavar="DURATION", help="Such as 30m, 2h or 7d; 30d at most.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Shown to others.")] = "",
    admin: admin_client.AdminAddress = admin_client.DEFAULT_ADMIN,
    as_json: admin_client.AsJson = False,
) -> int:
    """Tell webhooks nothing of some alerts for a while. They stay on the page, and a network stands for its nodes.

    Examples:
    rpcaccel alerts silence harmony-s0/backup --for 2h
    rpcaccel alerts silence all --for 30m --reason "moving the rack"
    """
    try:
        seconds = parse_duration(duration)
    except ValueError as error:
        raise typer.BadParameter(f"--for: expected {error}") from None
    if not 1 <= seconds <= LONGEST:
        raise typer.BadParameter("--for: expected 1s to 30d")
    asked = {"what": what, "seconds": seconds, "reason": reason}
    found = admin_client.ask(admin, "POST", f"{ALERTS}/silences", json.dumps(asked))
    made = next(one for one in found["silences"] if one["what"] == printable(what))
    if as_json:
        terminal.show_json(made)
        return 0
    kept = "" if found["kept"] else "; it ends with a restart, since there is no state file"
    typer.echo(printable(f"{made['what']} is silenced until {_clock(made['until'])}{kept}"))
    return 0


@alerts.command()
def unsilence(
    what: What,
    admin: admin_client.AdminAddress = admin_client.DEFAULT_ADMIN,
    as_json: admin_client.AsJson = False,
) -> int:
    """End a silence before its time, by what it silences or by its id.

    Examples:
    rpcaccel alerts unsilence harmony-s0/backup
    rpcaccel alerts unsilence all
    """
    silences = admin_client.ask(admin, "GET", ALERTS)["silences"]
    meant = [one for one in silences if printable(what) in (one["what"], one["id"])]
    if not meant:
        there = ", ".join(one["what"] for one in silences)
        raise admin_client.RemoteError(
            f"no silence is about {printable(what)}; {f'there is: {there}' if there else 'none is'}"
        )
    found = admin_client.ask(admin, "DELETE", f"{ALERTS}/silences/{quote(meant[0]['id'], safe='')}")
    if as_json:
        terminal.show_json(found["silences"])
    else:
        typer.echo(printable(f"{meant[0]['what']} is not silenced any more"))
    return 0


def _tested(one: dict[str, Any]) -> str:
    took = f"{one['seconds'] * 1000:.0f} ms"
    if one["ok"]:
        return printable(f"{one['webhook']}: taken after {took} (HTTP {one['status']})")
    return printable(f"{one['webhook']}: not taken after {took}: {one['error']}")


def _show(found: dict[str, Any]) -> None:
    from rpcaccel.bench.report import terminal_table

    if found["webhooks"]:
        terminal_table.show(_webhooks(found["webhooks"]), terminal.console(), named=1)
    else:
        typer.echo(f"nobody is told: there is no webhook; {HOW}")
    typer.echo("")
    if found["alerts"]:
        terminal_table.show(_alerts(found["alerts"]), terminal.console(), named=1)
    else:
        typer.echo("nothing needs attention")
    for one in found["silences"]:
        reason = f": {one['reason']}" if one["reason"] else ""
        typer.echo(printable(f"silenced until {_clock(one['until'])} by {one['by'] or '–'}: {one['what']}{reason}"))


def _webhooks(listed: list[dict[str, Any]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("webhook", "address", "form", "tells", "state", "last taken"):
        made.add_column(heading)
    for heading in ("taken", "retried", "lost"):
        made.add_column(heading, justify="right")
    made.add_column("error")
    for one in listed:
        tells = "everything" if one["least"] == "warn" else "what is bad"
        networks = f" of {', '.join(one['networks'])}" if one["networks"] else ""
        taken = "never" if one["taken_at"] is None else _clock(one["taken_at"])
        sent = (str(one["sent"][name]) for name in ("ok", "retried", "lost"))
        cells = (one["name"], one["address"], one["format"], f"{tells}{networks}", one["state"], taken, *sent)
        made.add_row(*(Text(printable(cell)) for cell in (*cells, one["error"])))
    return made


def _alerts(listed: list[dict[str, Any]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("alert", "level", "since", "told", "subject", "text"):
        made.add_column(heading)
    for one in listed:
        told = "waits" if one["state"] == "waiting" else "yes"
        told = f"silenced until {_clock(one['silenced'])}" if one["silenced"] else told
        cells = (one["id"], one["level"], _clock(one["since"]), told, one["subject"], one["text"])
        made.add_row(*(Text(printable(cell)) for cell in cells))
    return made


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
