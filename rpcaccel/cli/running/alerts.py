"""`rpcaccel alerts`, `alerts test|mute|unmute`: the webhooks of a running proxy, and what they are told of."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from rpcaccel.cli import admin_client, terminal
from rpcaccel.cli.terminal import TableColumn
from rpcaccel.config.value_types import parse_duration
from rpcaccel.core.wire.printable import printable

ALERTS_PATH = "/api/v1/alerts"
HOW = "set one with: rpcaccel settings set alerts.webhooks.NAME.url=https://…"
TEST_TIMEOUT_SECONDS = 75.0
"""Webhooks are tested at the same time, and each has a timeout of 60 s at the most."""

WEBHOOKS = (
    TableColumn("webhook", "name"),
    TableColumn("address"),
    TableColumn("form", "format"),
    TableColumn("least"),
    TableColumn("networks", lambda one: ", ".join(one["networks"]) or "all"),
    TableColumn("state"),
    TableColumn("last taken", lambda one: "never" if one["taken_at"] is None else terminal.clock(one["taken_at"])),
    TableColumn("messages", lambda one: terminal.counts(one["sent"])),
    TableColumn("error"),
)
ALERTS = (
    TableColumn("alert", "id"),
    TableColumn("level"),
    TableColumn("state"),
    TableColumn("since", lambda one: terminal.clock(one["since"])),
    TableColumn("muted until", lambda one: terminal.clock(one["muted"]["until"]) if one["muted"] else "–"),
    TableColumn("subject"),
    TableColumn("text"),
)
MUTES = (
    TableColumn("muted", "what"),
    TableColumn("until", lambda one: terminal.clock(one["until"])),
    TableColumn("by"),
    TableColumn("reason"),
)

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
    """List the webhooks of a running proxy, the alerts of the moment and the mutes.

    Examples:
    rpcaccel alerts
    rpcaccel alerts test ops
    rpcaccel alerts mute harmony-s0 --for 2h --reason "new disks"
    """
    if context.invoked_subcommand is not None:
        if any(_given(context, name) for name in ("admin", "as_json")):
            raise typer.BadParameter(f"expected --admin and --json behind {context.invoked_subcommand}")
        return 0
    found = admin_client.ask(admin, "GET", ALERTS_PATH)
    if as_json:
        terminal.show_json(found)
    else:
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
    asked = json.dumps({"webhook": name})
    tests = admin_client.ask(admin, "POST", f"{ALERTS_PATH}/test", asked, patience=TEST_TIMEOUT_SECONDS)["tests"]
    if as_json:
        terminal.show_json({"tests": tests})
    elif not tests:
        typer.echo(f"there is no webhook; {HOW}")
    else:
        for one in tests:
            verdict = f"taken (HTTP {one['status']})" if one["ok"] else f"not taken: {one['error']}"
            typer.echo(printable(f"{one['webhook']}: {verdict} after {one['seconds'] * 1000:.0f} ms"))
    return 0 if all(one["ok"] for one in tests) else 1


@alerts.command()
def mute(
    what: What,
    duration: Annotated[str, typer.Option("--for", metavar="DURATION", help="Such as 30m, 2h or 7d; 30d at most.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Shown to others.")] = "",
    admin: admin_client.AdminAddress = admin_client.DEFAULT_ADMIN,
    as_json: admin_client.AsJson = False,
) -> int:
    """Tell webhooks nothing of some alerts for a while. They stay on the page, and a network stands for its nodes.

    Examples:
    rpcaccel alerts mute harmony-s0/backup --for 2h
    rpcaccel alerts mute all --for 30m --reason "moving the rack"
    """
    try:
        seconds = parse_duration(duration)
    except ValueError as error:
        raise typer.BadParameter(f"--for: expected {error}") from None
    if not 1 <= seconds <= 30 * 86_400:  # as the admin API says it
        raise typer.BadParameter("--for: expected 1s to 30d")
    found = _change(admin, what, seconds, reason)
    made = next(one for one in found["mutes"] if one["what"] == printable(what))
    if as_json:
        terminal.show_json(made)
        return 0
    kept = "" if found["kept"] else "; that ends with a restart, since there is no state file"
    typer.echo(printable(f"{made['what']} is muted until {terminal.clock(made['until'])}{kept}"))
    return 0


@alerts.command()
def unmute(
    what: What,
    admin: admin_client.AdminAddress = admin_client.DEFAULT_ADMIN,
    as_json: admin_client.AsJson = False,
) -> int:
    """End a mute before its time.

    Examples:
    rpcaccel alerts unmute harmony-s0/backup
    rpcaccel alerts unmute all
    """
    found = _change(admin, what, 0.0, "")
    if as_json:
        terminal.show_json(found["mutes"])
    else:
        typer.echo(f"{printable(what)} is not muted any more")
    return 0


def _change(admin: str, what: str, seconds: float, reason: str) -> Any:
    asked = {"what": what, "seconds": seconds, "reason": reason}
    return admin_client.ask(admin, "POST", f"{ALERTS_PATH}/mutes", json.dumps(asked))


def _show(found: dict[str, Any]) -> None:
    lists = (
        ("webhooks", WEBHOOKS, f"nobody is told: there is no webhook; {HOW}"),
        ("alerts", ALERTS, "nothing needs attention"),
        ("mutes", MUTES, "nothing is muted"),
    )
    for listed, columns, none in lists:
        if found[listed]:
            terminal.show(columns, found[listed])
        else:
            typer.echo(none)
        typer.echo("")
