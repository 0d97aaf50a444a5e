"""`rpcaccel nodes`, `node add|remove`, `weight` and `drain`: the nodes of a running proxy, seen and changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from rpcaccel.cli import completion, terminal
from rpcaccel.cli.admin_client import AdminClient, RemoteError, known_network
from rpcaccel.cli.command import CommandResult, agreed, asks_proxy, changed
from rpcaccel.cli.running import node_worth
from rpcaccel.cli.terminal import Listing, TableColumn, right
from rpcaccel.config.secrets import NodeUrl
from rpcaccel.config.value_types import NODE_TEXT, default_id, parse_node

NodeId = Annotated[
    str,
    typer.Argument(
        metavar="NODE", help="Its id, or NETWORK/ID when several networks have one.", autocompletion=completion.nodes
    ),
]

node = typer.Typer(
    name="node", help="Add a node to a running proxy, or remove one.", no_args_is_help=True, add_completion=False
)


@asks_proxy
def nodes(
    proxy: AdminClient,
    report: Annotated[
        bool, typer.Option("--report", help="What each is worth: latency, errors, agreement, quota, suggested weight.")
    ] = False,
    over: Annotated[Literal["hour", "day"], typer.Option(help="What --report looks back.")] = "hour",
    apply: Annotated[
        bool, typer.Option("--apply", help="With --report: give the nodes the suggested weights.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --apply: do not ask.")] = False,
) -> CommandResult:
    """List the nodes of a running proxy: state, head and whether it is pushed, weight, share of the traffic, latency.

    Examples:
    rpcaccel nodes
    rpcaccel nodes --admin 127.0.0.1:8889 --json
    rpcaccel nodes --report --over day
    rpcaccel nodes --report --apply
    """
    if ((apply or yes or over != "hour") and not report) or (yes and not apply):
        raise typer.BadParameter("expected --report beside --over and --apply, and --apply beside --yes")
    if apply and over != "hour":
        raise typer.BadParameter("--over: expected hour beside --apply, since weights are suggested by the last hour")
    if apply:
        return node_worth.apply(proxy, yes=yes)
    if report:
        return node_worth.report(proxy, over)
    found = proxy.get("nodes")
    return CommandResult(found, [Listing(NODES, found["nodes"], named=2, why_under="state")])


@asks_proxy
def weight(
    proxy: AdminClient,
    node: NodeId,
    number: Annotated[int, typer.Argument(metavar="N", min=0, max=1000, help="Share of the calls; 0 takes none.")],
) -> CommandResult:
    """Give a node of a running proxy another weight, with effect on the next call.

    Examples:
    rpcaccel weight a 5
    rpcaccel weight harmony-s0/a 0 --admin 127.0.0.1:8889
    """
    return _change(proxy, node, {"weight": number})


@asks_proxy
def drain(
    proxy: AdminClient,
    node: NodeId,
    end: Annotated[bool, typer.Option("--end", help="Take calls again.")] = False,
) -> CommandResult:
    """Let a node of a running proxy finish what it has and take no new calls; --end lets it take calls again.

    Examples:
    rpcaccel drain a
    rpcaccel drain a --end
    """
    return _change(proxy, node, {"drain": not end})


def _change(proxy: AdminClient, node: str, change: dict[str, Any]) -> CommandResult:
    settings = proxy.get("settings")
    network, name = _place(settings["document"]["networks"], node)
    return changed(_patch(proxy, settings, network, name, change))


def _patch(proxy: AdminClient, settings: dict[str, Any], network: str, node: str, change: Any) -> dict[str, Any]:
    """Change a node in settings that were read before; the answer."""
    patch = {"networks": {network: {"nodes": {node: change}}}}
    done: dict[str, Any] = proxy.change("settings", patch, revision=settings["revision"])
    return done


@node.command()
@asks_proxy
def add(
    proxy: AdminClient,
    text: Annotated[str, typer.Argument(metavar=NODE_TEXT, help="The node, as `rpcaccel serve` takes it.")],
    network: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Of which network; may be left out where there is but one.",
            autocompletion=completion.networks,
        ),
    ] = "",
    id: Annotated[str, typer.Option("--id", metavar="ID", help="Its name; its host and port if unset.")] = "",
    header: Annotated[
        list[str] | None, typer.Option(metavar="'NAME: VALUE'", help="Sent to the node, as a key. May be repeated.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also a node that does not answer, or is of another chain.")
    ] = False,
) -> CommandResult:
    """Add a node to a running proxy. The proxy asks it first: chain id, blocks 0 and 1, head.

    A node that does not answer, or serves another chain than the network, is refused. Where other nodes take calls,
    this one is examined by calls in the shadow before it gets any.

    Examples:
    rpcaccel node add https://host/path,weight=2
    rpcaccel node add https://host/path --network harmony-s0 --id backup
    rpcaccel node add https://host --header 'Authorization: Bearer KEY'
    """
    settings = proxy.get("settings")
    name, known = _network(settings["document"]["networks"], network)
    new = _parsed(text, id, header or ())
    node_id = new.pop("id")
    if node_id in known["nodes"]:
        raise RemoteError(f"{name} has a node {node_id} already; --id gives this one another name")
    found = proxy.post("nodes/test", {"network": name, "url": new["url"], "headers": new.get("headers", {})})
    if not force and (not found["answering"] or found["chain_ok"] is False):
        raise RemoteError(f"{node_id} is not added: {found['note']}; --force adds it all the same")
    done = changed(_patch(proxy, settings, name, node_id, new))
    examining = f"{node_id} is being examined by calls in the shadow: it gets calls once that has ended"
    shown = [f"{name}/{node_id}: {met(found)}", *(done.shown or ()), *([examining] if known["nodes"] else [])]
    return CommandResult({"network": name, "id": node_id, "test": found, **done.document}, shown)


@node.command()
@asks_proxy
def remove(
    proxy: AdminClient,
    node: NodeId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> CommandResult:
    """Remove a node from a running proxy, after saying what it does now. What it has under way it finishes.

    Examples:
    rpcaccel node remove backup
    rpcaccel node remove harmony-s0/backup --yes
    """
    settings = proxy.get("settings")
    network, name = _place(settings["document"]["networks"], node)
    if not yes:
        now = doing(proxy.get("nodes")["nodes"], network, name)
        if not agreed(f"{now}\nRemove {network}/{name}?", "nothing is changed"):
            return changed({**settings, "change": None})
    return changed(_patch(proxy, settings, network, name, None))


def met(found: dict[str, Any]) -> str:
    """A node that was tried, in one line: "chain id 1666600000, head 61204811, 2 blocks behind, 12.0 ms"."""
    facts = [
        f"chain id {found['chain_id']}" if found["chain_id"] is not None else "",
        f"head {found['head']}" if found["head"] is not None else "no head",
        f"{found['lag']} blocks behind" if found["lag"] else "",
        terminal.milliseconds(found["latency"]) if found["latency"] is not None else "",
        found["note"],
    ]
    return ", ".join(filter(None, facts))


def doing(listed: list[dict[str, Any]], network: str, name: str) -> str:
    """What a node does now, and which nodes are left without it, in two sentences."""
    of_network = [node for node in listed if node["network"] == network]
    others = [node for node in of_network if node["id"] != name]
    now: dict[str, Any] = next((node for node in of_network if node["id"] == name), {})
    share, rate = now.get("share_got"), now.get("calls_per_second")
    gets = (
        f"It gets {share:.0%} of the calls of {network} that reach a node" if share is not None else "It gets no calls"
    )
    often = f" ({rate:.3g} a second)" if rate else ""
    flight = f", {now['in_flight']} under way" if now.get("in_flight") else ""
    taking = sum(node["eligible"] for node in others)
    left = f"Of the {len(others)} other nodes {taking} take calls now." if taking else "No other node takes calls now."
    return f"{gets}{often}{flight}. {left}"


def _network(networks: dict[str, Any], name: str) -> tuple[str, dict[str, Any]]:
    """The network that is meant, with its settings. Raises RemoteError."""
    if not name and len(networks) == 1:
        ((name, settings),) = networks.items()
        return name, settings
    if not name:
        raise RemoteError(f"--network says to which network it is added; there is: {', '.join(networks)}")
    return name, known_network(name, networks)


def _parsed(text: str, id: str, headers: Sequence[str]) -> dict[str, Any]:
    """The settings of a node that was written as one text. Raises typer.BadParameter."""
    try:
        node = parse_node(text)
        shown_as = NodeUrl(node["url"])
        weight = int(node.get("weight", 1))
    except ValueError as error:
        expected = "a whole number as weight" if "invalid literal" in str(error) else str(error)
        raise typer.BadParameter(f"the node: expected {expected}") from None
    if not 0 <= weight <= 1000:
        raise typer.BadParameter("the node: expected a weight of 0 to 1000")
    made: dict[str, Any] = {"id": id or node.get("id") or default_id(shown_as), "url": node["url"], "weight": weight}
    for header in headers:
        name, colon, value = header.partition(":")
        if not colon:
            raise typer.BadParameter("--header: expected 'NAME: VALUE'")
        made.setdefault("headers", {})[name.strip()] = value.strip()
    return made


def _place(networks: dict[str, Any], node: str) -> tuple[str, str]:
    """Network and id of a node. Raises RemoteError when there is none, or more than one."""
    found = [
        (network, name)
        for network, settings in networks.items()
        for name in settings["nodes"]
        if node in (name, f"{network}/{name}")
    ]
    if len(found) == 1:
        return found[0]
    there = ", ".join(f"{network}/{name}" for network, settings in networks.items() for name in settings["nodes"])
    raise RemoteError(f"{'several nodes are' if found else 'no node is'} called {node}; there is: {there}")


def _wanted(node: dict[str, Any]) -> str:
    """The share that the weights ask for, with ~ where the balancer looks at more than weights."""
    share: float | None = node["share_wanted"]
    return f"{'~' if share and node.get('share_aim') else ''}{terminal.percent(share)}"


NODES = (
    TableColumn("network"),
    TableColumn("node", "id"),
    TableColumn("address"),
    TableColumn("state", lambda node: f"suspected, {node['state']}" if node.get("suspect") else node["state"]),
    right("heads", lambda node: "pushed" if node.get("pushes") else "asked"),
    right("head"),
    right(
        "weight", lambda node: f"{node['weight']} (tier {node['tier']})" if node.get("tier") else str(node["weight"])
    ),
    right("wanted", _wanted),
    right("got", lambda node: terminal.percent(node["share_got"])),
    right("p50", lambda node: terminal.milliseconds((node.get("latency") or {}).get("p50"))),
    right("in flight", lambda node: terminal.number(node.get("in_flight"))),
)
"""The columns of `rpcaccel nodes`."""
