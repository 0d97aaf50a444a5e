"""The logs of a block, read from the result of getLogs. Their text stays as the node sent it."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw, Struct

from rpcaccel.core.live.block import Log
from rpcaccel.core.wire.json_text import UNREADABLE

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
