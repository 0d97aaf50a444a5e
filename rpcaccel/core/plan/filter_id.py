"""Filter ids as clients see them: the node's own id with a tag appended that names the node.

A filter lives on one node. The tag lets every worker of every host find that node without a shared table: eight hex
digits, derived from the names of the network and the node. A hex quantity stays a valid one (no leading zero).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

import msgspec
from msgspec import Struct

from rpcaccel.core.wire.json_text import UNREADABLE

DIGITS = 8
"""Hex digits of a tag; the first one is never 0."""

_PLAIN = re.compile(rb'"([0-9A-Za-z_-]{1,128})"')
_ZERO = b"0x0"
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


class FilterOwner(Struct, frozen=True):
    """A filter id, split into its node and the params for that node."""

    node: str
    """Id of the node that made the filter; empty when no node of the network has this tag."""
    params: bytes
    """The params for that node: its own filter id, and the other params of the caller."""


@lru_cache(4096)
def tag(network: str, node: str) -> bytes:
    """The tag of a node; the same in every process that serves the network under this name."""
    digest = blake2b(node.encode(), digest_size=DIGITS // 2, key=network.encode()[:64]).digest()
    return b"%08x" % (int.from_bytes(digest) | 1 << 31)


def attach(result: bytes, network: str, node: str) -> bytes:
    """Append the node's tag to the id of a new filter; the result is unchanged when it is not a plain string."""
    found = _PLAIN.fullmatch(result)
    if found is None:
        return result
    own = b"0x" if found[1] == _ZERO else found[1]
    return b'"' + own + tag(network, node) + b'"'


def read(params: bytes, network: str, nodes: Iterable[str]) -> FilterOwner | None:
    """Split the filter id that is the first of `params`; None when it is not an id with a tag."""
    try:
        items = _decode_items(params)
    except UNREADABLE:
        return None
    found = _PLAIN.fullmatch(bytes(items[0])) if items else None
    if found is None:
        return None
    own, ours = found[1][:-DIGITS], found[1][-DIGITS:].lower()
    node = next((name for name in nodes if own and tag(network, name) == ours), "")
    own = _ZERO if own == b"0x" else own
    rest = b"".join(b"," + bytes(item) for item in items[1:])
    return FilterOwner(node, b'["' + own + b'"' + rest + b"]")
