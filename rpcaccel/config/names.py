"""Names of networks and nodes, and nodes written in one text: URL[,weight=N][,id=NAME]."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from rpcaccel.config.secrets import NodeUrl

NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"
"""Names of networks: safe in a path, a metric and a log."""
NODE_ID = r"^[a-z0-9][a-z0-9._:-]{0,254}$"
"""Ids of nodes: as names of networks, with colons, since the default is host:port."""
NODE_TEXT = "URL[,weight=N][,id=NAME]"
OPTIONS = ("weight", "id")
SHARDED = frozenset({"harmony"})


_OPTION = re.compile(r"(?s)(.*),([a-z_]+)=([^,=&?#/]*)")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS = frozenset(
    {"connection", "content-encoding", "content-length", "content-type", "te", "trailer", "transfer-encoding"}
)


def network_name(chain: str, shard: int = 0) -> str:
    """The default name of a network of this chain: harmony-s0, ethereum."""
    return f"{chain}-s{shard}" if chain in SHARDED else chain


def parse_node(text: str) -> dict[str, Any]:
    """A node's document of URL[,weight=N][,id=NAME]; values are judged by the model.

    Commas may be part of the URL: options are read from the end. Raises ValueError for a repeated or misspelt option.
    """
    node: dict[str, Any] = {}
    rest = text.strip()
    while match := _OPTION.fullmatch(rest):
        before, option, value = match.groups()
        if option not in OPTIONS:
            if close := get_close_matches(option, OPTIONS, n=1):
                raise ValueError(f"{NODE_TEXT}; did you mean {close[0]}= for {option}=?")
            break
        if option in node:
            raise ValueError(f"{NODE_TEXT} with {option}= once")
        node[option] = value
        rest = before
    return {"url": rest, **dict(reversed(node.items()))}


def ids_once(texts: Sequence[str]) -> list[str]:
    """The node texts without ids that an earlier text of the list has as well."""
    once: list[str] = []
    seen: set[str] = set()
    for text in texts:
        try:
            node = parse_node(text)
        except ValueError:
            node = {}
        name = node.pop("id", "")
        once.append(",".join([node.pop("url"), *(f"{key}={node[key]}" for key in node)]) if name in seen else text)
        seen |= {name} - {""}
    return once


def named_nodes(nodes: Sequence[Any]) -> list[Any]:
    """The nodes as tables, each with an id. Anything else is left as it is, for the model to refuse."""
    tables = [_table(node) for node in nodes]
    taken = {node["id"] for node in tables if isinstance(node, dict) and isinstance(node.get("id"), str)}
    numbers: dict[str, int] = {}
    for node in tables:
        if isinstance(node, dict) and node.get("id") in (None, ""):
            name = unique = default_id(node.get("url"))
            while unique in taken:
                numbers[name] = numbers.get(name, 1) + 1
                unique = f"{name}-{numbers[name]}"
            node["id"] = unique
            taken.add(unique)
    return tables


def default_id(url: object) -> str:
    """The host, and the port when written, of a node's URL, in letters an id may have."""
    try:
        host = (url if isinstance(url, NodeUrl) else NodeUrl(str(url))).host
    except ValueError:
        return "node"
    if host.startswith("["):
        host = host.replace("[", "").replace("]", "").replace("::", ":").replace("%", "-")
    return re.sub(r"[^a-z0-9._:-]", "-", host.lower()).lstrip("._:-")[:240] or "node"


def header_name(name: str) -> str:
    """The name of a header that can be sent to a node. Raises ValueError saying what was expected."""
    if not _HEADER.fullmatch(name):
        raise ValueError("a header name of letters, digits and dashes")
    if name.lower() in _OURS:
        raise ValueError("another header; the proxy sets this one itself")
    return name


def _table(node: Any) -> Any:
    if isinstance(node, str):
        try:
            return parse_node(node)
        except ValueError:
            return node
    return dict(node) if isinstance(node, Mapping) else node
