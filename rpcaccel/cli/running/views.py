"""`rpcaccel clients`, `subscriptions`, `hosts` and `errors`: what a running proxy knows of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from rpcaccel.cli import terminal
from rpcaccel.cli.admin_client import AdminClient, RemoteError
from rpcaccel.cli.command import CommandResult, asks_proxy
from rpcaccel.cli.terminal import Listing, Printed, TableColumn, right

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
FAULT_WORDS = {"service": "failed", "client": "by caller", "refused": "refused"}
"""The words for whose doing an error is."""
ERRORS = (
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
UNREAD_REASONS = frozenset({"slow-reader", "unsent-too-much", "slow-subscriber"})
"""Reasons of rpcaccel_refusals_total that are no refusals: answers or notifications were left unread, and the
connection was closed."""


@asks_proxy
def clients(proxy: AdminClient) -> CommandResult:
    """List who calls a running proxy: holders of API keys, and `anonymous` for all others; calls, and what was refused.

    Examples:
    rpcaccel clients
    rpcaccel clients --admin 127.0.0.1:8889 --json
    """
    found = proxy.get("clients")
    nobody = "nobody is counted: there are no API keys, and callers without one have no limits"
    return CommandResult(found, [Listing(CLIENTS, found["clients"]) if found["clients"] else nobody])


@asks_proxy
def subscriptions(proxy: AdminClient) -> CommandResult:
    """List the subscriptions of a running proxy by network: how many, notifications a second and how late they are,
    blocks filled in, subscriptions resumed, connections closed and why.

    Examples:
    rpcaccel subscriptions
    rpcaccel subscriptions --admin 127.0.0.1:8889 --json
    """
    overview = proxy.get("overview")
    found = {name: overview[name] for name in ("websockets", "subscriptions")}
    opened = f"{terminal.plural(found['websockets'], 'WebSocket')} open"
    if not found["subscriptions"]:
        return CommandResult(found, [f"nobody subscribes, and nobody did since the start; {opened}"])
    line = f"{opened}; sent a second: the mean of the last 10 s; lateness: of the last minute's notifications"
    return CommandResult(found, [line, Listing(SUBSCRIPTIONS, found["subscriptions"])])


@asks_proxy
def hosts(proxy: AdminClient) -> CommandResult:
    """List the hosts that share one Redis, as one of them knows them: calls, hit ratio, version, and who is behind.

    Examples:
    rpcaccel hosts
    rpcaccel hosts --admin 127.0.0.1:8889 --json
    """
    found = proxy.get("hosts")
    return CommandResult(found, [Listing(HOSTS, found["hosts"]), *_host_remarks(found)])


def _host_remarks(found: dict[str, Any]) -> Iterator[str]:
    """Sentences below the table of hosts: all of them together, those that are not well, and what is not known."""
    if len(found["hosts"]) > 1:
        sums = found["together"]
        figures = f"{terminal.rate(sums['calls_per_second'])} calls/s, {terminal.percent(sums['hit_ratio'])} hits"
        failed, workers = terminal.percent(sums["error_ratio"]), terminal.plural(sums["workers"], "worker")
        yield f"{sums['hosts']} together: {figures}, {failed} errors, {workers}"
    yield from (f"{host['name']}: {host['why']}" for host in found["hosts"] if host["why"])
    if found["note"]:
        yield found["note"]
    if not found["shared"]:
        yield "no other hosts are known: the settings name no Redis to share with them"
    if found["unreadable"]:
        yield f"{found['unreadable']} entries in Redis are not documents of hosts, and are not shown"


@asks_proxy
def errors(
    proxy: AdminClient,
    network: Annotated[str, typer.Option("--network", metavar="NAME", help="Only those of this network.")] = "",
    minutes: Annotated[int, typer.Option("--minutes", metavar="N", min=1, max=60, help="How far to look back.")] = 60,
    samples: Annotated[str, typer.Option("--samples", metavar="ID", help="The samples of one group.")] = "",
) -> CommandResult:
    """List the errors that clients of a running proxy got: how often, whose doing, where most come from.

    Examples:
    rpcaccel errors
    rpcaccel errors --network harmony-s0 --minutes 5
    rpcaccel errors --samples 8f1c20a9d3b7
    """
    if samples:
        if not (samples.isascii() and samples.isalnum()):
            raise RemoteError(f"--samples: found {samples!r}, expected an id as `rpcaccel errors` shows it")
        group = proxy.get(f"errors/{samples}")
        return CommandResult(group, _samples(group))
    found = proxy.get(f"errors?{urlencode({'network': network, 'minutes': minutes})}")
    return CommandResult(found, _errors(found, minutes))


def _errors(found: dict[str, Any], minutes: int) -> Iterator[Printed]:
    """The groups of errors, failures of the service first, then by how many there were lately."""
    groups = [group for group in found["groups"] if group["lately"]]
    groups.sort(key=lambda one: (list(FAULT_WORDS).index(one["fault"]), -one["lately"]))
    yield Listing(ERRORS, groups) if groups else f"no client got an error in the last {minutes} min"
    for words, unread in (("refused before they were a call", False), ("connections closed because nobody read", True)):
        counted = (one for one in found["refusals"] if (one["reason"] in UNREAD_REASONS) == unread)
        refusals = [f"{one['reason']} {one['total']}" for one in counted]
        if refusals:
            yield f"{words}, since the start: {', '.join(refusals)}"
    if found["unclassed"]:
        yield f"{len(found['unclassed'])} errors of nodes that no rule knows: see the view Errors, or --json"
    if found["forgotten"]:
        yield f"{found['forgotten']} groups ({found['forgotten_errors']} errors) were dropped for want of room"


def _mostly(name: str | None, counts: dict[str, int]) -> str:
    """The one that most come from, or how many there are."""
    return name or (f"{len(counts)} of them" if counts else "–")


def _samples(group: dict[str, Any]) -> Iterator[str]:
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
        if sample["stopped"]:
            yield f"  no more  {sample['stopped']}"
    if not group["samples"]:
        yield "no call of it was kept whole"
