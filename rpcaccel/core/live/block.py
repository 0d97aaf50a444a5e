"""A block and its logs as subscribers are told of them, the logs in the result of getLogs, and notifications.

The text of a log stays as the node sent it.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw, Struct

from rpcaccel.core.wire.json_text import UNREADABLE

LONGEST_HEADER = 256 * 1024
"""Bytes of a header that a node pushes; a longer one is ignored, and the block fetched."""


class LiveBlock(Struct, frozen=True, gc=False):
    """A block of the served branch."""

    number: int
    hash: str
    """In lower case, with 0x."""
    parent: str
    """The hash of the block before, in lower case."""
    header: bytes
    """The result of its newHeads notification: raw JSON text."""

    def stands_as(self, other: LiveBlock) -> bool:
        """Does another header put the block in the same place?"""
        return self.number == other.number and self.parent == other.parent


class Log(Struct, frozen=True, gc=False):
    """One log of a block."""

    address: str
    """In lower case, with 0x."""
    topics: tuple[str, ...]
    """In lower case, with 0x."""
    text: bytes
    """The result of its notification: raw JSON text with `"removed":false`."""


_BLOCK_HASH = re.compile(rb'("blockHash"\s*:\s*)(?:"[^"]*"|null)')
_REMOVED = re.compile(rb'("removed"\s*:\s*)false')


class _Members(Struct):
    address: str
    topics: tuple[str, ...] = ()
    blockHash: str | None = None


_decode_all = msgspec.json.Decoder(list[Raw]).decode
_decode_one = msgspec.json.Decoder(_Members).decode


class NotLogs(ValueError):
    """The text is no array of logs."""


def read_logs(text: bytes, block_hash: str = "") -> tuple[Log, ...]:
    """The logs in the result of getLogs, in its order.

    Args:
        block_hash: the hash of the block that they are in, which is written over another one: nodes of Harmony give a
            false one in blocks that they proposed. Empty: the hashes stay as the node sent them.

    Raises:
        NotLogs: the text cannot be read.
    """
    try:
        return tuple(_log(bytes(one), block_hash) for one in _decode_all(text))
    except UNREADABLE as error:
        raise NotLogs(f"expected an array of logs, found {text[:20]!r}") from error


def removed(text: bytes) -> bytes:
    """The text of a log whose block was abandoned: it differs from the first one in `removed` alone."""
    said, found = _REMOVED.subn(rb"\1true", text, count=1)
    return said if found else text.rstrip()[:-1] + b',"removed":true}'


def _log(text: bytes, block_hash: str) -> Log:
    read = _decode_one(text)
    if block_hash and read.blockHash is not None and read.blockHash.lower() != block_hash:
        text = _BLOCK_HASH.sub(rb'\1"%b"' % block_hash.encode(), text, count=1)
    return Log(read.address.lower(), tuple(topic.lower() for topic in read.topics), text)


def notification_opening(namespace: str, subscription: str) -> bytes:
    """What stands before the result in every notification of one subscription: byte for byte as nodes send it, without
    spaces and without an id. All subscriptions share what follows (`notification_rest`)."""
    return (
        f'{{"jsonrpc":"2.0","method":"{namespace}_subscription","params":{{"subscription":"{subscription}","result":'
    ).encode()


def notification_rest(result: bytes) -> bytes:
    """The result (raw JSON text), and what stands behind it in every notification."""
    return result + b"}}"
