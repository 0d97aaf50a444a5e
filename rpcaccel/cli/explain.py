"""`rpcaccel explain`: how a running proxy would treat a call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rpcaccel.cli import admin_client, progress_bar
from rpcaccel.core.wire.printable import printable

if TYPE_CHECKING:
    from rich.table import Table


def explain(
    call: Annotated[str, typer.Argument(metavar="CALL", help="A JSON-RPC call, or a method's name.")],
    params: Annotated[str, typer.Argument(metavar="PARAMS", help="With a method's name: its params.")] = "[]",
    network: Annotated[str, typer.Option(metavar="NAME", help="Where it would be sent; the main one if unset.")] = "",
    admin: admin_client.Admin = admin_client.DEFAULT,
    as_json: admin_client.AsJson = False,
) -> int:
    """Say how a running proxy would treat a call: rule, block, key, what is held, who would be asked. Asks no node.

    Examples:
    rpcaccel explain '{"method":"hmyv2_getBlockByNumber","params":[26,{}]}'
    rpcaccel explain hmyv2_getBlocks '[100,140,{}]'
    rpcaccel explain eth_blockNumber --network harmony-s1 --json
    rpcaccel explain eth_subscribe '["logs", {"fromBlock": "0x1a2b3c"}]'
    """
    found = admin_client.post(admin, "/api/v1/explain", question(call, params, network))
    if as_json:
        admin_client.show_json(found)
        return 0
    progress_bar.console().print(table(found))
    return 0


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


def table(found: dict[str, Any]) -> Table:
    """The explanation as two columns."""
    from rich.table import Table
    from rich.text import Text

    title = printable(f"{found['method']} on {found['network']}")
    made = Table(title=Text(title), title_justify="left", show_header=False, box=None, padding=(0, 2))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, text in rows(found):
        made.add_row(name, Text(printable(text)))  # Text: what a caller wrote is never read as markup
    return made


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
    yield from _named("live", found["live"], "")
    if found["local"] is not None or found["live"]:
        return
    yield from _named("nodes", _candidates(found), "none")
    yield from _named("not asked", (node["why"] for node in found["refused"]), "")


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
