"""`rpcaccel errors`: the errors that clients of a running proxy got, in groups of one cause, and samples of a group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from rpcaccel.cli import admin_client, terminal
from rpcaccel.cli.terminal import TableColumn, right
from rpcaccel.core.wire.printable import printable

FAULT_WORDS = {"service": "failed", "client": "by caller", "refused": "refused"}
"""The words for whose doing an error is."""
UNREAD_REASONS = frozenset({"slow-reader", "unsent-too-much", "slow-subscriber"})
"""Reasons of rpcaccel_refusals_total that are no refusals: answers or notifications were left unread, and the
connection was closed."""


def errors(
    admin: admin_client.AdminAddress = admin_client.DEFAULT_ADMIN,
    network: Annotated[str, typer.Option("--network", metavar="NAME", help="Only those of this network.")] = "",
    minutes: Annotated[int, typer.Option("--minutes", metavar="N", min=1, max=60, help="How far to look back.")] = 60,
    samples: Annotated[str, typer.Option("--samples", metavar="ID", help="The samples of one group.")] = "",
    as_json: admin_client.AsJson = False,
) -> int:
    """List the errors that clients of a running proxy got: how often, whose doing, where most come from.

    Examples:
    rpcaccel errors
    rpcaccel errors --network harmony-s0 --minutes 5
    rpcaccel errors --samples 8f1c20a9d3b7
    """
    if samples:
        found = admin_client.ask(admin, "GET", f"/api/v1/errors/{_id(samples)}")
    else:
        query = urlencode({"network": network, "minutes": minutes})
        found = admin_client.ask(admin, "GET", f"/api/v1/errors?{query}")
    if as_json:
        terminal.show_json(found)
    elif samples:
        typer.echo("\n".join(map(printable, told(found))))
    else:
        _show(found, minutes)
    return 0


def _show(found: dict[str, Any], minutes: int) -> None:
    """Print the groups of errors, failures of the service first, then by how many there were lately."""
    groups = [group for group in found["groups"] if group["lately"]]
    if groups:
        terminal.show(GROUPS, sorted(groups, key=lambda one: (list(FAULT_WORDS).index(one["fault"]), -one["lately"])))
    else:
        typer.echo(f"no client got an error in the last {minutes} min")
    for words, unread in (("refused before they were a call", False), ("connections closed because nobody read", True)):
        counted = [
            f"{one['reason']} {one['total']}"
            for one in found["refusals"]
            if (one["reason"] in UNREAD_REASONS) == unread
        ]
        if counted:
            typer.echo(f"{words}, since the start: {', '.join(counted)}")
    if found["unclassed"]:
        typer.echo(f"{len(found['unclassed'])} errors of nodes that no rule knows: see the view Errors, or --json")
    if found["forgotten"]:
        typer.echo(f"{found['forgotten']} groups ({found['forgotten_errors']} errors) were dropped for want of room")


def _mostly(name: str | None, counts: dict[str, int]) -> str:
    """The one that most come from, or how many there are."""
    return name or (f"{len(counts)} of them" if counts else "–")


GROUPS = (
    TableColumn("id"),
    right("last minute", "minute"),
    right("lately"),
    TableColumn("fault", lambda group: FAULT_WORDS[group["fault"]]),
    TableColumn("network"),
    TableColumn("method", lambda group: group["method"] or "(several)"),
    right("code"),
    TableColumn("node", lambda group: _mostly(group["node"], group["nodes"])),
    TableColumn("client", lambda group: _mostly(group["client"], group["clients"])),
    TableColumn("text"),
)
"""The columns of `rpcaccel errors`."""


def told(group: dict[str, Any]) -> Iterator[str]:
    """The lines about one group and its samples."""
    yield f"{group['network']} {group['method']}: {group['code']} {group['text']}"
    kind = f", {group['kind']}" if group["kind"] else ""
    often = f"{group['count']} since {terminal.clock(group['first_seen'])}, {group['minute']} in the last minute"
    yield f"{FAULT_WORDS[group['fault']]}{kind}: {often}"
    for sample in group["samples"]:
        request = f", request {sample['request']}" if sample["request"] else ""
        note = f" ({sample['params_note']})" if sample["params_note"] else ""
        yield ""
        yield f"{terminal.clock(sample['at'])}  client {sample['client']} ({sample['address'] or '–'}){request}"
        yield f"  params   {sample['params'] or '–'}{note}"
        yield f"  message  {sample['message']}  after {terminal.milliseconds(sample['seconds'])}"
        for attempt in sample["attempts"]:
            end = f"{attempt['end']} after {terminal.milliseconds(attempt['seconds'])}"
            yield f"  attempt  node {attempt['node']}, {end}: {attempt['said'] or '–'}"
    if not group["samples"]:
        yield "no call of it was kept whole"


def _id(given: str) -> str:
    """The id of a group. Raises RemoteError for a text that is none."""
    if not (given.isascii() and given.isalnum()):
        raise admin_client.RemoteError(f"--samples: found {given!r}, expected an id as `rpcaccel errors` shows it")
    return given
