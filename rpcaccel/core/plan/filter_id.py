"""The id of a filter as a client sees it: the node's own id, with the name of that node at its end.

A filter lives on one node. Its node is carried in the id, so that every worker of every host finds it again without a
table: eight hex digits, derived from the network's and the node's names, are added to what the node said. What was a
hex quantity stays one (no leading zero is made).
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
"""Hex digits of a tag; the first is never 0."""

_PLAIN = re.compile(rb'"([0-9A-Za-z_-]{1,128})"')
_ZERO = b"0x0"
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Read(Struct, frozen=True):
    """A filter id taken apart."""

    node: str
    """Id of the node that made it; empty when no node of the network did."""
    params: bytes
    """The params that node is asked with: its own id, and whatever else the caller sent."""


@lru_cache(4096)
def tag(network: str, node: str) -> bytes:
    """The tag of a node: the same in every process that serves this network under this name."""
    digest = blake2b(node.encode(), digest_size=DIGITS // 2, key=network.encode()[:64]).digest()
    return b"%08x" % (int.from_bytes(digest) | 1 << 31)


def attach(result: bytes, network: str, node: str) -> bytes:
    """A node's answer to the making of a filter, with the node's tag in the id; unchanged when it is no plain text."""
    found = _PLAIN.fullmatch(result)
    if found is None:
        return result
    own = b"0x" if found[1] == _ZERO else found[1]
    return b'"' + own + tag(network, node) + b'"'


def read(params: bytes, network: str, nodes: Iterable[str]) -> Read | None:
    """Take apart the id that stands first in `params`; None when there is none to take apart."""
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
    return Read(node, b'["' + own + b'"' + rest + b"]")
