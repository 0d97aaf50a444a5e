"""`rpcaccel alerts`, `alerts test|mute|unmute`: the webhooks of a running proxy, and what they are told of."""

from __future__ import annotations

from typing import Annotated

import typer

from rpcaccel.cli import terminal
from rpcaccel.cli.admin_client import AdminClient
from rpcaccel.cli.command import CommandResult, asks_proxy
from rpcaccel.cli.options import seconds_of
from rpcaccel.cli.terminal import Listing, TableColumn
from rpcaccel.core.wire.printable import printable

HOW = "set one with: rpcaccel settings set alerts.webhooks.NAME.url=https://…"
_MAX_MUTE_SECONDS = 30 * 86_400
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
LISTS = (
    ("webhooks", WEBHOOKS, f"nobody is told: there is no webhook; {HOW}"),
    ("alerts", ALERTS, "nothing needs attention"),
    ("mutes", MUTES, "nothing is muted"),
)
"""The member of the answer, its columns, and what is said where it is empty."""

MuteSubject = Annotated[
    str, typer.Argument(metavar="WHAT", help='A subject (network, NETWORK/NODE, …), an alert\'s id, or "all".')
]

alerts = typer.Typer(name="alerts", add_completion=False)


@alerts.callback(invoke_without_command=True)
@asks_proxy
def show(proxy: AdminClient, context: typer.Context) -> CommandResult:
    """List the webhooks of a running proxy, the alerts of the moment and the mutes.

    Examples:
    rpcaccel alerts
    rpcaccel alerts test ops
    rpcaccel alerts mute harmony-s0 --for 2h --reason "new disks"
    """
    if context.invoked_subcommand is not None:
        sources = map(context.get_parameter_source, ("admin", "cacert", "as_json"))
        if any(source is not None and source.name == "COMMANDLINE" for source in sources):
            raise typer.BadParameter(f"expected --admin, --cacert and --json behind {context.invoked_subcommand}")
        return CommandResult(None, ())
    found = proxy.get("alerts")
    lists = (Listing(columns, found[name]) if found[name] else none for name, columns, none in LISTS)
    return CommandResult(found, [part for listed in lists for part in (listed, "")])


@alerts.command(name="test")
@asks_proxy
def send_test(
    proxy: AdminClient,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the webhook; all of them if left out.")] = "",
) -> CommandResult:
    """Send a test to a webhook, or to all, and tell what it answered. Exits 1 if one did not take it.

    Examples:
    rpcaccel alerts test
    rpcaccel alerts test ops --json
    """
    tests = proxy.post("alerts/test", {"webhook": name}, timeout=TEST_TIMEOUT_SECONDS)["tests"]
    verdicts = (f"taken (HTTP {one['status']})" if one["ok"] else f"not taken: {one['error']}" for one in tests)
    said = [
        f"{one['webhook']}: {verdict} after {one['seconds'] * 1000:.0f} ms"
        for one, verdict in zip(tests, verdicts, strict=True)
    ]
    well = all(one["ok"] for one in tests)
    return CommandResult({"tests": tests}, said or [f"there is no webhook; {HOW}"], 0 if well else 1)


@alerts.command()
@asks_proxy
def mute(
    proxy: AdminClient,
    what: MuteSubject,
    duration: Annotated[str, typer.Option("--for", metavar="DURATION", help="Such as 30m, 2h or 7d; 30d at most.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Shown to others.")] = "",
) -> CommandResult:
    """Tell webhooks nothing of some alerts for a while. They stay on the page, and a network stands for its nodes.

    Examples:
    rpcaccel alerts mute harmony-s0/backup --for 2h
    rpcaccel alerts mute all --for 30m --reason "moving the rack"
    """
    seconds = seconds_of(duration, "--for")
    if not 1 <= seconds <= _MAX_MUTE_SECONDS:
        raise typer.BadParameter(f"--for: found {duration!r}, expected 1s to 30d")
    found = proxy.post("alerts/mutes", {"what": what, "seconds": seconds, "reason": reason})
    made = next(one for one in found["mutes"] if one["what"] == printable(what))
    kept = "" if found["kept"] else "; that ends with a restart, since there is no state file"
    return CommandResult(made, [f"{made['what']} is muted until {terminal.clock(made['until'])}{kept}"])


@alerts.command()
@asks_proxy
def unmute(proxy: AdminClient, what: MuteSubject) -> CommandResult:
    """End a mute before its time.

    Examples:
    rpcaccel alerts unmute harmony-s0/backup
    rpcaccel alerts unmute all
    """
    found = proxy.post("alerts/mutes", {"what": what, "seconds": 0.0, "reason": ""})
    return CommandResult(found["mutes"], [f"{what} is not muted any more"])
