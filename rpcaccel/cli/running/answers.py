"""`rpcaccel explain` and `purge`: how a running proxy would treat a call, and the answers that it keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from rpcaccel.cli import terminal
from rpcaccel.cli.admin_client import AdminClient, known_network
from rpcaccel.cli.command import CommandResult, agreed, asks_proxy
from rpcaccel.cli.terminal import Pairs


@asks_proxy
def explain(
    proxy: AdminClient,
    call: Annotated[str, typer.Argument(metavar="CALL", help="A JSON-RPC call, or a method's name.")],
    params: Annotated[str, typer.Argument(metavar="PARAMS", help="With a method's name: its params.")] = "[]",
    network: Annotated[str, typer.Option(metavar="NAME", help="Where it would be sent; the main one if unset.")] = "",
) -> CommandResult:
    """Say how a running proxy would treat a call: rule, block, key, what is held, who would be asked. Asks no node.

    Examples:
    rpcaccel explain '{"method":"hmyv2_getBlockByNumber","params":[26,{}]}'
    rpcaccel explain hmyv2_getBlocks '[100,140,{}]'
    rpcaccel explain eth_blockNumber --network harmony-s1 --json
    rpcaccel explain eth_subscribe '["logs", {"fromBlock": "0x1a2b3c"}]'
    """
    found = proxy.post("explain", question(call, params, network))
    return CommandResult(found, [Pairs(f"{found['method']} on {found['network']}", rows(found))])


def question(call: str, params: str, network: str) -> str:
    """The request's body. The call stays the text that was written: nodes read numbers as they are spelt.

    Raises typer.BadParameter.
    """
    if call.lstrip()[:1] in ("", "[", '"'):
        raise typer.BadParameter("CALL: expected one call, or a method's name")
    text = call if call.lstrip().startswith("{") else f'{{"method": {json.dumps(call)}, "params": {params}}}'
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        found = "CALL" if text is call else "PARAMS"
        raise typer.BadParameter(f"{found}: found {(call if text is call else params)!r}, which is not JSON") from None
    return f'{{"call": {text}, "network": {json.dumps(network)}}}'


def rows(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The rows of the explanation: a heading, which may be empty, and a text."""
    yield "class", f"{found['cache']}: {found['why']} ({found['origin']})"
    yield "params", found["asked"]
    if found["forwarded"] != found["asked"]:
        yield "", f"{found['forwarded']} to the node"
    if found["note"]:
        yield "note", found["note"]
    yield "block", _block(found)
    for name, key in (("key", found["key"]), ("key at head", found["head_key"])):
        if key is not None:
            yield name, key + _also(found, key)
    yield from _named("held", map(_held, found["held"]), _nothing(found))
    if found["in_flight"]:
        yield "", "under way: a caller who comes now waits for that answer"
    yield from _named("kept", found["keeping"], "not")
    yield from _named("proof", [found["proof"]] if found["proof"] else [], "")
    yield from _named("live", found["live"], "")
    if found["local"] is not None or found["live"]:
        return
    yield from _named("nodes", _candidates(found), "none")
    yield from _named("not asked", (node["why"] for node in found["refused"]), "")
    yield from _named("retries", [found["retries"]] if found["retries"] else [], "")


def _named(name: str, texts: Iterator[str] | list[str], otherwise: str) -> Iterator[tuple[str, str]]:
    said = list(texts) or ([otherwise] if otherwise else [])
    for position, text in enumerate(said):
        yield ("" if position else name), text


def _nothing(found: dict[str, Any]) -> str:
    return f"the proxy answers {found['local']}" if found["local"] is not None else "by no tier"


def _block(found: dict[str, Any]) -> str:
    said = f"served head {found['head']}"
    if found["block"] is None:
        return said
    first = "" if found["first_block"] in (None, found["block"]) else f"{found['first_block']} to "
    final = "final" if found["final"] else "not final yet"
    asked = f"; asked of nodes at {found['min_head']} or above" if found["min_head"] >= 0 else ""
    return f"{first}{found['block']}, {final}{asked}; {said}"


def _also(found: dict[str, Any], key: str) -> str:
    """Where else than in memory an answer of the key may be."""
    where = [words for words, keys in (("on disk", found["on_disk"]), ("in Redis", found["shared"])) if key in keys]
    return f" ({' and '.join(where)} as well)" if where else ""


def _held(held: dict[str, Any]) -> str:
    left = "as long as there is room" if held["left"] is None else f"for {held['left']:.1f} s more"
    where = {"memory": f"in the memory of {held['worker']}", "disk": "on disk", "redis": "in Redis"}[held["tier"]]
    doubt = "" if held["served"] else "; not served any more"
    return f"{where}, {left}: {held['size']} bytes, put {held['age']:.1f} s ago{doubt}: {held['key']}"


def _candidates(found: dict[str, Any]) -> Iterator[str]:
    for place, node in enumerate(found["nodes"], 1):
        latency = "" if node["latency"] is None else f", {node['latency'] * 1000:.1f} ms"
        why = ", first since it took what this is about" if node["preferred"] else ""
        forced = ", for want of a better one" if found["forced"] else ""
        yield f"{place}. {node['id']}: head {node['head']}, {node['in_flight']} in flight{latency}{why}{forced}"


@asks_proxy
def purge(
    proxy: AdminClient,
    network: Annotated[str, typer.Option(metavar="NAME", help="Everything of this network.")] = "",
    method: Annotated[str, typer.Option(metavar="NAME", help="Everything of this method.")] = "",
    key: Annotated[str, typer.Option(metavar="KEY", help="One key, as `rpcaccel explain` shows it.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Everything.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count only.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> CommandResult:
    """Remove kept answers: of a network, a method, both together, one key, or all. Says first how many they are.

    Examples:
    rpcaccel purge --method hmyv2_getValidatorInformation --dry-run
    rpcaccel purge --network harmony-s0 --yes
    rpcaccel purge --all --admin 127.0.0.1:8889
    """
    if everything + bool(key) + bool(network or method) != 1:
        raise typer.BadParameter("say what: --all, or --key, or --network and --method or one of them")
    meant = {"network": network, "method": method, "key": key, "all": everything}
    counted = proxy.post("purge", {**meant, "dry_run": True})
    if network and not counted["memory"] + counted["disk"] + counted["store"]:  # a removed network may have some
        known_network(network, proxy.get("settings")["document"]["networks"])
    if dry_run or not (yes or agreed(f"Remove {_amount(counted)}?", "nothing is removed")):
        return _purged(counted, "would be removed")
    done = proxy.post("purge", meant)
    return _purged(done, "removed", code=0 if done["complete"] else 1)


def _amount(counted: dict[str, Any]) -> str:
    memory, disk, store = counted["memory"], counted["disk"], counted["store"]
    return f"{terminal.plural(memory, 'answer')} in memory, {disk} on disk and {store} in Redis"


def _purged(document: dict[str, Any], words: str, code: int = 0) -> CommandResult:
    if not document["complete"]:
        typer.echo("rpcaccel: a worker, the disk or a Redis server did not answer: some may be left", err=True)
    return CommandResult(document, [f"{_amount(document)} {words}"], code)
