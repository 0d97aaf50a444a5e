"""The result of a newHeads notification, made of a block that was fetched."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from rpcaccel.core.live.block import LiveBlock
from rpcaccel.core.wire.json_params import number_at
from rpcaccel.core.wire.json_text import UNREADABLE

_decode = msgspec.json.Decoder(dict[str, Raw]).decode


class NotABlock(ValueError):
    """The text is no block: null, malformed, or without number, hash and parentHash. The message says which."""


def read_block(
    text: bytes,
    order: Sequence[str],
    *,
    extra: bytes = b"",
    shard_member: str = "",
    shard: int = 0,
) -> LiveBlock:
    """A block as subscribers are told of it.

    Args:
        text: the block as the node sent it, without whole transactions.
        order: the members of the header (LiveTable.header); none: the header is the whole block.
        extra: the result of LiveTable.extra, which has members that the block lacks; empty where there is none.
        shard_member: the member that holds the shard; empty where there is none.

    Raises:
        NotABlock: the text, or the extra one, cannot be read.
    """
    members = _members(text, "the block")
    header = text
    if order:
        known = _members(extra, "the further members of the block") | members if extra else members
        if shard_member:
            known[shard_member] = Raw(b"%d" % shard)
        said = (b'"%b":%b' % (name.encode(), known[name]) for name in order if name in known)
        header = b"{" + b",".join(said) + b"}"
    return LiveBlock(
        number=_number(members), hash=_hash(members, "hash"), parent=_hash(members, "parentHash"), header=header
    )


def _members(text: bytes, what: str) -> dict[str, Raw]:
    try:
        return _decode(text)
    except UNREADABLE as error:
        raise NotABlock(f"{what}: expected a JSON object, found {text[:20]!r}") from error


def _number(members: dict[str, Raw]) -> int:
    number = number_at(bytes(members.get("number", b"")), ".")
    if number is None:
        raise NotABlock("the block: expected a number")
    return number


def _hash(members: dict[str, Raw], name: str) -> str:
    try:
        return msgspec.json.decode(members[name], type=str).lower()
    except (KeyError, *UNREADABLE) as error:
        raise NotABlock(f"the block: expected a {name}") from error
