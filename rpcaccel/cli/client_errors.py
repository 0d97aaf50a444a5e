"""`rpcaccel errors`: the errors that clients of a running proxy got, in groups of one cause, and samples of a group."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from rpcaccel.cli import admin_client, progress_bar
from rpcaccel.core.wire.printable import printable

if TYPE_CHECKING:
    from rich.table import Table

FAULTS = {"service": "failed", "client": "by caller", "refused": "refused"}
"""The words for whose doing an error is."""
UNREAD = frozenset({"slow-reader", "unsent-too-much", "slow-subscriber"})
"""Reasons of rpcaccel_refusals_total that are no refusals: answers or notifications were left unread, and the
connection was closed."""


def errors(
    admin: admin_client.Admin = admin_client.DEFAULT,
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
        typer.echo(json.dumps(found, indent=2))
        return 0
    if samples:
        typer.echo("\n".join(told(found)))
        return 0
    return _show(found, minutes)


def _show(found: dict[str, Any], minutes: int) -> int:
    from rpcaccel.bench.report import terminal_table

    groups = [group for group in found["groups"] if group["lately"]]
    if not groups:
        typer.echo(f"no client got an error in the last {minutes} min")
    else:
        terminal_table.show(table(groups), progress_bar.console(), named=1)
    for words, unread in (("refused before they were a call", False), ("connections closed because nobody read", True)):
        counted = [
            f"{one['reason']} {one['total']}" for one in found["refusals"] if (one["reason"] in UNREAD) == unread
        ]
        if counted:
            typer.echo(f"{words}, since the start: {', '.join(counted)}")
    if found["unclassed"]:
        typer.echo(f"{len(found['unclassed'])} errors of nodes that no rule knows: see the view Errors, or --json")
    if found["forgotten"]:
        typer.echo(f"{found['forgotten']} groups ({found['forgotten_errors']} errors) were dropped for want of room")
    return 0


def table(groups: list[dict[str, Any]]) -> Table:
    """A table with a row for each group, failures of the service first, then by how many there were lately."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold")
    made.add_column("id")
    made.add_column("last minute", justify="right")
    made.add_column("lately", justify="right")
    for heading in ("fault", "network", "method"):
        made.add_column(heading)
    made.add_column("code", justify="right")
    for heading in ("node", "client", "text"):
        made.add_column(heading)
    for group in sorted(groups, key=lambda one: (list(FAULTS).index(one["fault"]), -one["lately"])):
        made.add_row(*(Text(printable(cell)) for cell in _cells(group)))
    return made


def _cells(group: dict[str, Any]) -> tuple[str, ...]:
    return (
        group["id"],
        str(group["minute"]),
        str(group["lately"]),
        FAULTS[group["fault"]],
        group["network"],
        group["method"] or "(several)",
        str(group["code"]),
        _mostly(group["node"], group["nodes"]),
        _mostly(group["client"], group["clients"]),
        group["text"],
    )


def _mostly(name: str | None, counts: dict[str, int]) -> str:
    """The one that most come from, or how many there are."""
    return name or (f"{len(counts)} of them" if counts else "–")


def told(group: dict[str, Any]) -> Iterator[str]:
    """The lines about one group and its samples."""
    kind = f", {group['kind']}" if group["kind"] else ""
    yield printable(f"{group['network']} {group['method']}: {group['code']} {group['text']}")
    often = f"{group['count']} since {_clock(group['first_seen'])}, {group['minute']} in the last minute"
    yield f"{FAULTS[group['fault']]}{kind}: {often}"
    for sample in group["samples"]:
        request = f", request {sample['request']}" if sample["request"] else ""
        yield ""
        yield printable(f"{_clock(sample['at'])}  client {sample['client']} ({sample['address'] or '–'}){request}")
        yield printable(f"  params   {sample['params'] or '–'}{_note(sample['params_note'])}")
        yield printable(f"  message  {sample['message']}  after {sample['seconds'] * 1000:.1f} ms")
        for attempt in sample["attempts"]:
            took = f"{attempt['seconds'] * 1000:.1f} ms"
            yield printable(
                f"  attempt  node {attempt['node']}, {attempt['end']} after {took}: {attempt['said'] or '–'}"
            )
    if not group["samples"]:
        yield "no call of it was kept whole"


def _note(note: str) -> str:
    return f" ({note})" if note else ""


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _id(given: str) -> str:
    """The id of a group. Raises RemoteError for a text that is none."""
    if not (given.isascii() and given.isalnum()):
        raise admin_client.RemoteError(f"--samples: found {given!r}, expected an id as `rpcaccel errors` shows it")
    return given
